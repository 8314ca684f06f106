// order.cuh: lines of elements put in order: runs in shared memory, then runs of runs.
//
// Contract
// - An `Item` is a key, a whole number that has the order of the elements, and where the element stands in its line. No two are equal, so orders are
//   stable and the same from run to run. `past_end` is behind all of them. NaN is the largest element, zeros are equal.
// - A source gives the item of (line, i); whoever takes results is called with (line, rank, item) and leaves out what is past the end.
// - `order_run<RUN, THREADS>`: a block for each run of RUN items of each line, gridDim.x = lines * runs. `join_runs`: a thread for each item of lines
//   whose runs of `length` are in order; afterwards those of twice the length are.
#pragma once
#include "reduce.cuh"

namespace gh {

template <class K> struct alignas(2 * sizeof(K)) Item {
  K key, at;
  GH_FN static Item past_end() { return {~K(0), ~K(0)}; }
  GH_FN bool operator<(const Item &other) const { return key < other.key || (key == other.key && at < other.at); }
};
template <class T> using Key = typename conditional<sizeof(T) == 8, uint64_t, uint32_t>::type;

template <class T> GH_FN Key<T> key_of(T x, bool descending) {
  typedef Key<T> K;
  constexpr K TOP = K(1) << (8 * sizeof(K) - 1);
  const auto v = to_scalar(x);
  K key;
  if constexpr (is_int<T>::value) key = T(-1) < T(0) ? K(v) ^ TOP : K(v);
  else if (v != v) key = ~K(0);
  else if (v == 0) key = TOP;
  else key = K(bits_in(v)) & TOP ? ~K(bits_in(v)) : K(bits_in(v)) | TOP;
  return descending ? ~key : key;
}

// ------------------------------------------------------------------------------------------------------------------ sources and takers
// Elements of lines [outer, n, inner], along the middle axis.
template <class T> struct Elements {
  const T *x;
  int64_t n, inner;
  bool descending;
  GH_FN int64_t place(int64_t line, int64_t i, int64_t length) const { return (line / inner * length + i) * inner + line % inner; }
  GH_FN Item<Key<T>> operator()(int64_t line, int64_t i) const { return {key_of(x[place(line, i, n)], descending), Key<T>(i)}; }
};
// The first k of a line, as values and places.
template <class T> struct Ordered {
  Elements<T> of;
  int64_t k;
  T *values;
  int64_t *places;
  template <class It> GH_FN void operator()(int64_t line, int64_t rank, It item) const {
    if (rank >= k) return;
    const int64_t to = of.place(line, rank, k);
    values[to] = of.x[of.place(line, item.at, of.n)], places[to] = (int64_t)item.at;
  }
};
// Items in memory, `n` of a line.
template <class K> struct Items {
  Item<K> *items;
  int64_t n;
  GH_FN Item<K> operator()(int64_t line, int64_t i) const { return items[line * n + i]; }
  GH_FN void operator()(int64_t line, int64_t rank, Item<K> item) const { if (rank < n) items[line * n + rank] = item; }
};
// The first k of each run of RUN: no other can be among the first k of the line.
template <int RUN, class K> struct Firsts {
  Item<K> *items;
  int64_t k, runs;
  GH_FN void operator()(int64_t line, int64_t rank, Item<K> item) const {
    if (rank % RUN < k) items[(line * runs + rank / RUN) * k + rank % RUN] = item;
  }
};

// --------------------------------------------------------------------------------------------------------------------------- in order
// Of two items that are `step` apart the smaller one comes first or last, as that part of the run is to ascend or descend, until all ascends. A thread
// holds PER neighbours in registers; others come from a lane of its warp, or from other warps by shared memory.
template <class K> GH_FN Item<K> from_lane(Item<K> item, int mask) { return {shuffle_xor(item.key, mask), shuffle_xor(item.at, mask)}; }
template <int STEP, int PER, class It> GH_FN void order_own(It (&own)[PER], int first, int size) {
#pragma unroll
  for (int u = 0; u < PER; ++u)
    if (!(u & STEP) && (u | STEP) < PER) {
      const It a = own[u], b = own[u | STEP];
      const bool change = (b < a) == !((first + u) & size);
      own[u] = change ? b : a, own[u | STEP] = change ? a : b;
    }
}
template <int RUN, int THREADS, int PER, class It> GH_FN void order_items(It (&own)[PER]) {
  static_assert(PER == RUN / THREADS && (PER == 2 || PER == 4), "neighbours of a thread");
  __shared__ It room[RUN];
  const int thread = threadIdx.x, first = thread * PER;
  for (int size = 2; size <= RUN; size *= 2) {
    for (int step = size / 2; step >= PER; step /= 2) {
      It other[PER];
      if (step >= 32 * PER) {
        __syncthreads();  // all have read the last ones
#pragma unroll
        for (int u = 0; u < PER; ++u) room[u * THREADS + thread] = own[u];
        __syncthreads();
#pragma unroll
        for (int u = 0; u < PER; ++u) other[u] = room[u * THREADS + (thread ^ step / PER)];
      } else {
#pragma unroll
        for (int u = 0; u < PER; ++u) other[u] = from_lane(own[u], step / PER);
      }
      const bool smaller = !(first & step) == !(first & size);  // is to stay here
#pragma unroll
      for (int u = 0; u < PER; ++u) own[u] = (other[u] < own[u]) == smaller ? other[u] : own[u];
    }
    if (PER > 2 && size > 2) order_own<2>(own, first, size);
    order_own<1>(own, first, size);
  }
}

template <int RUN, int THREADS, class Source, class Taker> GH_FN void order_run(int64_t n, Source source, Taker taker) {
  constexpr int PER = RUN / THREADS;
  typedef decltype(source(int64_t(0), int64_t(0))) It;
  const int64_t runs = (n + RUN - 1) / RUN, line = blockIdx.x / runs, begin = blockIdx.x % runs * RUN + threadIdx.x * PER;
  It own[PER];
#pragma unroll
  for (int u = 0; u < PER; ++u) own[u] = begin + u < n ? source(line, begin + u) : It::past_end();
  order_items<RUN, THREADS>(own);
#pragma unroll
  for (int u = 0; u < PER; ++u) taker(line, begin + u, own[u]);
}

// An item comes to its place in its own run, and as many further as items of the run beside it are smaller.
template <class K, class Taker> GH_FN void join_runs(int64_t e, int64_t length, Items<K> from, Taker taker) {
  const int64_t line = e / from.n, at = e % from.n, run = at / length;
  const Item<K> mine = from(line, at);
  int64_t low = (run ^ 1) * length, high = low + length;
  if (low > from.n) low = from.n;
  if (high > from.n) high = from.n;
  const int64_t first = low;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (from(line, middle) < mine) low = middle + 1;
    else high = middle;
  }
  taker(line, (run & ~int64_t(1)) * length + at - run * length + low - first, mine);
}

// Of short lines each element is compared with all others. a before b in ascending order, NaN last.
template <class V> GH_FN bool before(V a, V b) { return a < b || (b != b && a == a); }

// Element e of lines [outer, n, inner] goes to its rank in its line, if that is below k.
template <class T>
GH_FN void rank_element(int64_t e, const T *x, int64_t n, int64_t inner, int64_t k, bool descending, T *values, int64_t *indices) {
  const int64_t own = e / inner % n, line = e / inner / n;
  const T *at = x + line * n * inner + e % inner;
  const auto mine = to_scalar(at[own * inner]);
  int64_t rank = 0;
  for (int64_t i = 0; i < n; ++i) {
    const auto other = to_scalar(at[i * inner]);
    const bool ahead = descending ? before(mine, other) : before(other, mine);
    const bool behind = descending ? before(other, mine) : before(mine, other);
    rank += ahead || (!behind && i < own);
  }
  if (rank >= k) return;
  const int64_t to = (line * k + rank) * inner + e % inner;
  values[to] = at[own * inner];
  indices[to] = own;
}

}  // namespace gh
