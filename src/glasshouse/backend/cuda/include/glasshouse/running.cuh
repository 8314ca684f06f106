// running.cuh: running sums, products, extremes and recurrences along an axis.
//
// Contract
// - "Lines" of a tensor seen as [outer, n, inner] are its n elements along the middle axis, `inner` apart.
// - `run_lines<Rule, PARTS>`: blocks of 256 threads, each with 256 / PARTS neighbouring lines, whose elements PARTS threads share: each folds its
//   part, parts are joined in order, and each goes over its part again from what stands before it. The order is fixed, so results do not change.
// - A rule has a State, `start` (nothing yet), `one` (an element), `join` (what stands before, what follows) and `put`.
// - `recur_line`: y[i] = a[i] y[i - 1] + b[i], one after the other by one thread: joined parts would multiply factors that never meet.
#pragma once
#include "launch.cuh"

namespace gh {

// Sums and products of Acc; `exclusive` ones leave out the element itself.
template <class Acc> struct RunningSum {
  typedef Acc State;
  GH_FN static State start() { return Acc(0); }
  template <class V> GH_FN static State one(V x, int64_t) { return Acc(x); }
  GH_FN static State join(State a, State b) { return add(a, b); }
  template <class O> GH_FN static void put(State s, int64_t at, O *out, int64_t *) { out[at] = from_scalar<O>(s); }
};
template <class Acc> struct RunningProduct : RunningSum<Acc> {
  GH_FN static Acc start() { return Acc(1); }
  GH_FN static Acc join(Acc a, Acc b) { return Acc(a * b); }
};

// The logarithm of a sum of exponentials: the largest exponent, and the sum relative to it.
struct RunningLogSum {
  struct State { double most, sum; };
  GH_FN static State start() { return {-__builtin_inf(), 0.0}; }
  template <class V> GH_FN static State one(V x, int64_t) { return {double(x), 1.0}; }
  GH_FN static double share(State s, double most) { return s.most == most ? s.sum : s.sum * ::exp(s.most - most); }  // infinite ones, too
  GH_FN static State join(State a, State b) {
    const double most = gh::max(a.most, b.most);
    return {most, share(a, most) + share(b, most)};
  }
  template <class O> GH_FN static void put(State s, int64_t at, O *out, int64_t *) { out[at] = from_scalar<O>(s.most + ::log(s.sum)); }
};

// The last of the largest (smallest) elements, and its place; NaN is both.
template <class V, bool LARGEST> struct RunningExtreme {
  struct State { V best; int64_t place; };
  GH_FN static State start() { return {V(0), -1}; }
  GH_FN static State one(V x, int64_t i) { return {x, i}; }
  GH_FN static State join(State a, State b) {
    if (a.place < 0) return b;
    if (b.place < 0) return a;
    return (LARGEST ? b.best >= a.best : b.best <= a.best) || b.best != b.best ? b : a;
  }
  template <class O> GH_FN static void put(State s, int64_t at, O *out, int64_t *places) { out[at] = from_scalar<O>(s.best), places[at] = s.place; }
};

// What stands before the part of a thread, of PARTS parts of a line, of LINES lines side by side; `all` becomes the whole of a line.
template <class Rule, int PARTS> GH_FN typename Rule::State before_part(typename Rule::State mine, typename Rule::State &all) {
  typedef typename Rule::State State;
  constexpr int LINES = 256 / PARTS;
  __shared__ double room[256 * 2];
  static_assert(sizeof(State) <= 16, "a state is two words at most");
  State *states = (State *)room;
  const int part = threadIdx.x / LINES;
  states[threadIdx.x] = mine;
  __syncthreads();
  for (int back = 1; back < PARTS; back *= 2) {  // each has the states of 2 * back parts, up to its own, after a round
    if (part >= back) mine = Rule::join(states[threadIdx.x - back * LINES], mine);
    __syncthreads();
    states[threadIdx.x] = mine;
    __syncthreads();
  }
  all = states[(PARTS - 1) * LINES + threadIdx.x % LINES];
  return part ? states[threadIdx.x - LINES] : Rule::start();
}

// The elements of a line, in the order in which they are run through.
struct Line {
  int64_t first, n, inner;
  bool reverse;
  GH_FN Line(int64_t line, int64_t n, int64_t inner, bool reverse)
      : first(line / inner * n * inner + line % inner), n(n), inner(inner), reverse(reverse) {}
  GH_FN int64_t at(int64_t i) const { return first + (reverse ? n - 1 - i : i) * inner; }
};
template <class Rule, class T> GH_FN typename Rule::State folded(const Line &line, const T *x, int64_t begin, int64_t end) {
  typename Rule::State state = Rule::start();
  for (int64_t i = begin; i < end; ++i) state = Rule::join(state, Rule::one(to_scalar(x[line.at(i)]), i));
  return state;
}
template <class Rule, class T, class O>
GH_FN void put_run(const Line &line, const T *x, int64_t begin, int64_t end, typename Rule::State before, bool exclusive, O *out, int64_t *places) {
  for (int64_t i = begin; i < end; ++i) {
    const typename Rule::State next = Rule::join(before, Rule::one(to_scalar(x[line.at(i)]), i));
    Rule::put(exclusive ? before : next, line.at(i), out, places);
    before = next;
  }
}

template <class Rule, int PARTS, class T, class O>
GH_FN void run_lines(const T *x, int64_t lines, int64_t n, int64_t inner, bool exclusive, bool reverse, O *out, int64_t *places) {
  constexpr int LINES = 256 / PARTS;
  const int64_t number = (int64_t)blockIdx.x * LINES + threadIdx.x % LINES, each = (n + PARTS - 1) / PARTS;
  const int64_t begin = number < lines ? threadIdx.x / LINES * each : n, end = begin + each < n ? begin + each : n;
  const Line line(number, n, inner, reverse);
  typename Rule::State before = Rule::start(), all;
  if constexpr (PARTS > 1) before = before_part<Rule, PARTS>(folded<Rule>(line, x, begin, end), all);
  put_run<Rule>(line, x, begin, end, before, exclusive, out, places);
}

// A few long lines, in two kernels: a block for each CHUNK of each leaves what it has, then goes over it again behind all that stand before it.
// gridDim: chunks, lines. `states` has two words for each.
constexpr int CHUNK = 4096;
template <class Rule, class T> GH_FN void fold_chunk(const T *x, int64_t n, int64_t inner, bool reverse, double *states) {
  typedef typename Rule::State State;
  const int64_t begin = (int64_t)blockIdx.x * CHUNK + threadIdx.x * (CHUNK / 256), stop = begin + CHUNK / 256;
  State all;
  before_part<Rule, 256>(folded<Rule>(Line(blockIdx.y, n, inner, reverse), x, begin, stop < n ? stop : n), all);
  if (threadIdx.x == 0) *(State *)(states + 2 * ((int64_t)blockIdx.y * gridDim.x + blockIdx.x)) = all;
}
template <class Rule, class T, class O>
GH_FN void run_chunk(const T *x, int64_t n, int64_t inner, bool exclusive, bool reverse, const double *states, O *out, int64_t *places) {
  typedef typename Rule::State State;
  const int64_t begin = (int64_t)blockIdx.x * CHUNK + threadIdx.x * (CHUNK / 256), stop = begin + CHUNK / 256, end = stop < n ? stop : n;
  const Line line(blockIdx.y, n, inner, reverse);
  State earlier = Rule::start(), all;
  for (unsigned i = 0; i < blockIdx.x; ++i) earlier = Rule::join(earlier, *(const State *)(states + 2 * ((int64_t)blockIdx.y * gridDim.x + i)));
  const State before = before_part<Rule, 256>(folded<Rule>(line, x, begin, end), all);
  put_run<Rule>(line, x, begin, end, Rule::join(earlier, before), exclusive, out, places);
}

template <class Acc, class T> GH_FN void recur_line(int64_t line, const T *a, const T *b, int64_t n, int64_t inner, bool reverse, T *out) {
  constexpr int AHEAD = 8;  // elements that are loaded before the first of them is used: a thread waits for memory once for all
  const int64_t first = line / inner * n * inner + line % inner;
  auto at = [&](int64_t i) { return first + (reverse ? n - 1 - i : i) * inner; };
  Acc held = Acc(0);
  for (int64_t i0 = 0; i0 < n; i0 += AHEAD) {
    Acc factor[AHEAD], term[AHEAD];
#pragma unroll
    for (int u = 0; u < AHEAD; ++u)
      if (i0 + u < n) factor[u] = Acc(to_scalar(a[at(i0 + u)])), term[u] = Acc(to_scalar(b[at(i0 + u)]));
#pragma unroll
    for (int u = 0; u < AHEAD; ++u)
      if (i0 + u < n) {
        held = i0 + u ? Acc(factor[u] * held + term[u]) : term[u];
        out[at(i0 + u)] = from_scalar<T>(held);
      }
  }
}

}  // namespace gh
