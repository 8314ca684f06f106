// groups.h: products of groups of rows, each group with a matrix of its own, whose sizes are known when they run.
//
// Contract
// - `gemm_groups<D>(pool, G, M, N, K, x, ends, w, out)`: rows [ends[g - 1], ends[g]) of x [M, K] times matrix g; the last group has all
//   rows that are left, and groups without rows read nothing of their matrix. `w(g)` gives packed panels (`pack_b_parallel`).
// - `pack_groups<D>`: the panels of all G matrices one behind the other, packed_b_bytes apart; matrix g begins at g * K * N.
#pragma once
#include "../gemm.h"

namespace gh {
inline namespace GH_ISA_NS {

template <class D, class T>
inline void pack_groups(ThreadPool &pool, const T *source, long G, long rs, long cs, long K, long N, void *out) {
  for (long g = 0; g < G; g++)
    pack_b_parallel<D>(pool, source + g * K * N, rs, cs, K, N, (char *)out + (size_t)g * packed_b_bytes<D>(K, N));
}

template <class D, class T, class I, class Panels>
inline void gemm_groups(ThreadPool &pool, long G, long M, long N, long K, const T *x, const I *ends, Panels panels, T *out) {
  long begin = 0;
  for (long g = 0; g < G && begin < M; g++) {
    const long end = g + 1 == G || (long)ends[g] > M ? M : (long)ends[g];
    if (end <= begin) continue;
    T *rows = out + begin * N;
    auto keep = [=](long m, long n, auto acc, auto t) __attribute__((always_inline)) { store(rows + m * N + n, acc, t); };
    gemm<D>(pool, end - begin, N, K, RowsA<T>{x + begin * K, K}, panels(g), keep);
    begin = end;
  }
}

}  // namespace GH_ISA_NS
}  // namespace gh
