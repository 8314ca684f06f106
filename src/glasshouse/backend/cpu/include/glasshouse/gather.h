// gather.h: rows of a table picked by indices (embeddings, take along axis 0), and their gradient.
//
// Contract
// - `gather_rows(pool, n, width, limit, index, out)`: index(i) -> long (negative counts from the end, as in NumPy; what is still
//   outside [0, limit) is clamped to it: the caller checks beforehand where an error is wanted); out(i, row, j, range) is called
//   for every vector j of output row i: load the table at row * width + j, add other tables, cast, store.
// - `scatter_add_rows(pool, n, width, limit, index, in, dst)`: dst[index(i)] += in(i, j, range); threads own disjoint column
//   strips, so equal indices are added in order of i on one thread: deterministic.
#pragma once
#include "reduce.h"

namespace gh {
inline namespace GH_ISA_NS {

GH_INLINE long wrap_index(long i, long limit) {
  if (i < 0) i += limit;
  return i < 0 ? 0 : i >= limit ? limit - 1 : i;
}

template <class Index, class Out>
inline void gather_rows(ThreadPool &pool, long n, long width, long limit, Index &&index, Out &&out) {
  parallel_for(pool, n, row_grain(width), [&](long b, long e) {
    for (long i = b; i < e; i++) {
      const long row = wrap_index(index(i), limit);
      for_each_vector(width, [&](long j, auto t) __attribute__((always_inline)) { out(i, row, j, t); });
    }
  });
}

template <class Index, class In>
inline void scatter_add_rows(ThreadPool &pool, long n, long width, long limit, Index &&index, In &&in, float *dst) {
  const long strips = (width + 4 * W - 1) / (4 * W);
  parallel_for(pool, strips, row_grain(n * 4 * W), [&](long b, long e) {
    const long j0 = b * 4 * W, j1 = e * 4 * W < width ? e * 4 * W : width;
    for (long i = 0; i < n; i++) {
      float *d = dst + wrap_index(index(i), limit) * width + j0;
      for_each_vector(j1 - j0, [&](long j, auto t) __attribute__((always_inline)) {
        store(d + j, load(d + j, t) + in(i, j0 + j, t), t);
      });
    }
  });
}

}  // namespace GH_ISA_NS
}  // namespace gh
