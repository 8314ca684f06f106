// recurrent.h: the loop over time of LSTM, GRU and plain recurrent cells, and its gradient.
//
// Contract
// - Everything is row-major: `given` [steps, batch, gates * hidden] (the input's share of each gate, biases in it), `state` [batch,
//   hidden], weights [gates * hidden, hidden]. Gates are ordered i f g o (LSTM) and r z n (GRU).
// - Packed weights: for each block of NR units the panels of all its gates follow each other, so that a block's cell is computed
//   from sums that are still in cache, and a thread keeps the same panels over all steps. Units past `hidden` are zero.
// - One step is one region of the pool; a step reads what the step before it wrote. Sums do not depend on the number of threads.
// - T is float or double. Double goes element by element through libm.
#pragma once
#include "../gemm.h"
#include "../context.h"

namespace gh {
inline namespace GH_ISA_NS {

struct Sequence {
  long steps, batch, hidden;
  bool reverse;
  long at(long i) const { return reverse ? steps - 1 - i : i; }
};

// Neighbours side by side: vectors of float, single doubles.
template <class T> struct Side;
template <> struct Side<float> {
  template <class F> GH_INLINE static void each(long n, F f) { for_each_vector(n, f); }
  template <class R> GH_INLINE static vf get(const float *p, R t) { return load(p, t); }
  template <class R> GH_INLINE static void put(float *p, vf x, R t) { store(p, x, t); }
  GH_INLINE static vf number(float x) { return vf(x); }
  GH_INLINE static vf positive(vf x, vf y) { return select(x > vf(0.0f), y, vf(0.0f)); }
};
template <> struct Side<double> {
  template <class F> GH_INLINE static void each(long n, F f) {
    for (long i = 0; i < n; i++) f(i, Full{});
  }
  template <class R> GH_INLINE static double get(const double *p, R) { return *p; }
  template <class R> GH_INLINE static void put(double *p, double x, R) { *p = x; }
  GH_INLINE static double number(double x) { return x; }
  GH_INLINE static double positive(double x, double y) { return x > 0 ? y : 0; }
};

// A cell's step for one row: `x(g)` and `r(g)` give gate g's share of the input and of the state for some units; `old` is the state
// before. `extra` is the memory before (LSTM) or the bias inside of the reset gate (GRU).
struct LstmCell {
  static constexpr int kGates = 4;
  static constexpr bool kMemory = true;
  template <class X, class R, class V> GH_INLINE static V step(X x, R r, V, V &memory) {
    const V i = sigmoid(x(0) + r(0)), f = sigmoid(x(1) + r(1)), g = tanh(x(2) + r(2)), o = sigmoid(x(3) + r(3));
    memory = f * memory + i * g;
    return o * tanh(memory);
  }
};
struct GruCell {
  static constexpr int kGates = 3;
  static constexpr bool kMemory = false;
  template <class X, class R, class V> GH_INLINE static V step(X x, R r, V old, V &bias) {
    const V reset = sigmoid(x(0) + r(0)), keep = sigmoid(x(1) + r(1)), now = tanh(x(2) + reset * (r(2) + bias));
    return now + keep * (old - now);
  }
};
struct TanhCell {
  static constexpr int kGates = 1;
  static constexpr bool kMemory = false;
  template <class X, class R, class V> GH_INLINE static V step(X x, R r, V, V &) { return tanh(x(0) + r(0)); }
};
struct ReluCell {
  static constexpr int kGates = 1;
  static constexpr bool kMemory = false;
  template <class X, class R, class V> GH_INLINE static V step(X x, R r, V, V &) { return relu(x(0) + r(0)); }
};

template <class D>
inline size_t recurrent_weight_bytes(long gates, long hidden) { return (size_t)panels<D>(hidden) * gates * panel_bytes<D>(hidden); }
template <class D, class T>
inline void recurrent_pack(ThreadPool &pool, const T *weights, long gates, long hidden, void *out) {
  constexpr long NR = kColumns<D>;
  parallel_for(pool, panels<D>(hidden) * gates, 1, [&](long begin, long end) {
    for (long p = begin; p < end; p++) {
      const long block = p / gates, gate = p % gates, left = hidden - block * NR;
      const T *source = weights + (gate * hidden + block * NR) * hidden;
      pack_b_panels<D>(source, 1, hidden, hidden, left < NR ? left : NR, (char *)out + p * panel_bytes<D>(hidden), 0, 1);
    }
  });
}

// The units of blocks [begin, end) in one step, a few blocks at a time so that their sums stay in cache.
template <class D, class Cell, class T>
GH_NOINLINE void recurrent_blocks(const Sequence &s, long begin, long end, const T *given, const T *old, const T *extra, const void *packed,
                                  T *out, T *memories) {
  constexpr long NR = kColumns<D>, G = Cell::kGates, kSumBytes = 96 * 1024;
  const long H = s.hidden;
  long few = kSumBytes / (s.batch * G * NR * (long)sizeof(T));
  if (few < 1) few = 1;
  for (long b0 = begin; b0 < end; b0 += few) {
    const long b1 = b0 + few < end ? b0 + few : end, ld = (b1 - b0) * G * NR;
    T *sums = (T *)scratch<2>((size_t)(s.batch * ld) * sizeof(T));
    const long first = b0 * G * NR;
    auto keep = [=](long r, long c, auto acc, auto t) __attribute__((always_inline)) { store(sums + r * ld + c - first, acc, t); };
    gemm_serial<D>(0, s.batch, b0 * G, b1 * G, panels<D>(H) * G * NR, H, RowsA<T>{old, H}, packed, keep);
    for (long row = 0; row < s.batch; row++)
      for (long b = b0; b < b1; b++) {
        const long u = b * NR, left = H - u;
        const T *x = given + row * G * H + u, *r = sums + row * ld + (b - b0) * G * NR;
        const long at = row * H + u;
        Side<T>::each(left < NR ? left : NR, [&](long i, auto t) __attribute__((always_inline)) {
          auto beside = Side<T>::number(0);
          if (Cell::kMemory) beside = Side<T>::get(extra + at + i, t);
          else if (Cell::kGates == 3) beside = Side<T>::get(extra + u + i, t);
          const auto now = Cell::step([&](int g) { return Side<T>::get(x + g * H + i, t); },
                                      [&](int g) { return Side<T>::get(r + g * NR + i, t); }, Side<T>::get(old + at + i, t), beside);
          Side<T>::put(out + at + i, now, t);
          if (Cell::kMemory) Side<T>::put(memories + at + i, beside, t);
        });
      }
  }
}

// `extra`: the first memory [batch, hidden] (LSTM), the bias [hidden] (GRU), or nothing. All states go to `out`, memories to `memories`.
template <class D, class Cell, class T>
inline void recurrent(Context &ctx, const Sequence &s, const T *given, const T *state, const T *extra, const void *packed, T *out,
                      T *memories) {
  constexpr long G = Cell::kGates;
  const long each = s.batch * s.hidden;
  const double work = (double)s.batch * G * kColumns<D> * s.hidden;  // multiply-adds of a block: 40 k are worth a thread
  const long grain = work > 40000.0 ? 1 : (long)(40000.0 / (work + 1)) + 1;
  for (long i = 0; i < s.steps; i++) {
    const long t = s.at(i);
    const T *old = i ? out + s.at(i - 1) * each : state;
    const T *beside = Cell::kMemory && i ? memories + s.at(i - 1) * each : extra;
    T *to = Cell::kMemory ? memories + t * each : nullptr;
    parallel_for(*ctx.pool, panels<D>(s.hidden), grain, [&](long begin, long end) {
      recurrent_blocks<D, Cell>(s, begin, end, given + t * each * G, old, beside, packed, out + t * each, to);
    });
  }
}

// ---------------------------------------------------------------------------------------------------------------------- gradients
// One row of a step back. `at` are offsets of the row in values of [batch, hidden]; gates are recomputed from `given` and `recurred`
// (the state's share). `by_state` holds the gradient that comes from the step after, and gets what does not pass through the weights.
template <class T> struct Back {
  const T *g, *given, *recurred, *a, *b, *c;  // the rest by cell
  T *by_given, *by_recurred, *by_state, *by_memory;
};
struct LstmBack {
  static constexpr int kGates = 4;
  static constexpr bool kApart = false, kKeeps = false;  // by_recurred is by_given; by_state is written anew
  // a: gradient of the memories here, b: memories here, c: memory before.
  template <class T> GH_INLINE static void row(const Back<T> &k, long H) {
    typedef Side<T> S;
    S::each(H, [&](long j, auto t) __attribute__((always_inline)) {
      auto pre = [&](int gate) { return S::get(k.given + gate * H + j, t) + S::get(k.recurred + gate * H + j, t); };
      const auto one = S::number(1), i = sigmoid(pre(0)), f = sigmoid(pre(1)), g = tanh(pre(2)), o = sigmoid(pre(3));
      const auto dh = S::get(k.g + j, t) + S::get(k.by_state + j, t), bent = tanh(S::get(k.b + j, t));
      const auto dc = S::get(k.by_memory + j, t) + S::get(k.a + j, t) + dh * o * (one - bent * bent);
      S::put(k.by_given + j, dc * g * i * (one - i), t);
      S::put(k.by_given + H + j, dc * S::get(k.c + j, t) * f * (one - f), t);
      S::put(k.by_given + 2 * H + j, dc * i * (one - g * g), t);
      S::put(k.by_given + 3 * H + j, dh * bent * o * (one - o), t);
      S::put(k.by_memory + j, dc * f, t);
    });
  }
};
struct GruBack {
  static constexpr int kGates = 3;
  static constexpr bool kApart = true, kKeeps = true;
  // a: state before, c: bias.
  template <class T> GH_INLINE static void row(const Back<T> &k, long H) {
    typedef Side<T> S;
    S::each(H, [&](long j, auto t) __attribute__((always_inline)) {
      auto x = [&](int gate) { return S::get(k.given + gate * H + j, t); };
      auto r = [&](int gate) { return S::get(k.recurred + gate * H + j, t); };
      const auto one = S::number(1), reset = sigmoid(x(0) + r(0)), keep = sigmoid(x(1) + r(1));
      const auto inside = r(2) + S::get(k.c + j, t), now = tanh(x(2) + reset * inside);
      const auto dh = S::get(k.g + j, t) + S::get(k.by_state + j, t);
      const auto dn = dh * (one - keep) * (one - now * now);
      const auto dr = dn * inside * reset * (one - reset), dz = dh * (S::get(k.a + j, t) - now) * keep * (one - keep);
      S::put(k.by_given + j, dr, t), S::put(k.by_recurred + j, dr, t);
      S::put(k.by_given + H + j, dz, t), S::put(k.by_recurred + H + j, dz, t);
      S::put(k.by_given + 2 * H + j, dn, t), S::put(k.by_recurred + 2 * H + j, dn * reset, t);
      S::put(k.by_state + j, dh * keep, t);
    });
  }
};
template <bool Relu> struct PlainBack {
  static constexpr int kGates = 1;
  static constexpr bool kApart = false, kKeeps = false;
  template <class T> GH_INLINE static void row(const Back<T> &k, long H) {
    typedef Side<T> S;
    S::each(H, [&](long j, auto t) __attribute__((always_inline)) {
      const auto pre = S::get(k.given + j, t) + S::get(k.recurred + j, t), dh = S::get(k.g + j, t) + S::get(k.by_state + j, t);
      if constexpr (Relu) {
        S::put(k.by_given + j, S::positive(pre, dh), t);
      } else {
        const auto y = tanh(pre);
        S::put(k.by_given + j, dh * (S::number(1) - y * y), t);
      }
    });
  }
};
typedef PlainBack<false> TanhBack;
typedef PlainBack<true> ReluBack;

// a, b, c as the cell names them: [steps, batch, hidden] each, but for LSTM's c, the first memory [batch, hidden], and GRU's, the bias
// [hidden]. `packed`: the weights as panels of a product with [batch, gates * hidden]. by_recurred is GRU's alone.
template <class D, class Cell, class T>
inline void recurrent_grad(Context &ctx, const Sequence &s, const T *g, const T *given, const T *recurred, const T *a, const T *b,
                           const T *c, const void *packed, T *by_given, T *by_state, T *by_memory, T *by_recurred) {
  constexpr long G = Cell::kGates;
  const long H = s.hidden, each = s.batch * H;
  for (long i = 0; i < each; i++) by_state[i] = 0;
  if (by_memory)
    for (long i = 0; i < each; i++) by_memory[i] = 0;
  for (long i = s.steps - 1; i >= 0; i--) {
    const long t = s.at(i);
    const T *before = G == 4 && i ? b + s.at(i - 1) * each : c;
    T *to = by_given + t * each * G, *back = Cell::kApart ? by_recurred + t * each * G : to;
    ctx.parallel(s.batch, each * G >= 8192, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; row++) {
        const long at = t * each + row * H;
        const Back<T> k{g + at, given + at * G, recurred + at * G, a ? a + at : a, b ? b + at : b,
                        G == 4 ? before + row * H : before, to + row * G * H, back + row * G * H, by_state + row * H,
                        by_memory ? by_memory + row * H : by_memory};
        Cell::row(k, H);
      }
    });
    gemm<D>(*ctx.pool, s.batch, H, G * H, RowsA<T>{back, G * H}, packed, [=](long r, long col, auto acc, auto t) {
      T *p = by_state + r * H + col;
      if (Cell::kKeeps) store(p, load(p, t) + acc, t);
      else store(p, acc, t);
    });
  }
}

}  // namespace GH_ISA_NS
}  // namespace gh
