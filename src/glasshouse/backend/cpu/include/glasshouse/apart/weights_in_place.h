// weights_in_place.h: products with weights that are read where they lie, [N, K] row by row: no packed copy is held.
//
// Contract
//   gemm_in_place(pool, M, N, K, x, weights, epi [, hint]); x [M, K] and weights [N, K] are of one type (float, bf16, f16).
// - Up to kFewRows rows: sums of products along K, each line of the weights read once, as fast as memory gives it.
// - More rows: groups of panels are packed on the way, in float32 (bf16 where the chip multiplies it), each used for all rows while
//   it is in cache; the weights of the next group are fetched meanwhile, because waiting for memory costs more than packing. With AMX
//   packing would take almost half as long as 256 rows: there x is packed instead.
// - Sums over K run in an order that does not depend on the number of threads. epi as in gemm.h.
#pragma once
#include "../gemm.h"

namespace gh {
inline namespace GH_ISA_NS {

constexpr long kFewRows = 4;

// The kind of multiply-add for panels that are packed on the way.
template <class T>
struct PassingDot { typedef DotF32 type; };
template <>
struct PassingDot<bf16> { typedef DotPassingBF16 type; };

// Rows of the weights that are read side by side. With AVX-512, one after the other lets the chip fetch ahead by itself: 16-bit weights then
// come as fast as a plain read (33 to 37 GB/s where four rows at once gave 26 to 30); float32 comes faster four rows at once (30 against 26). With
// AVX2 four at once, the next four fetched meanwhile, are faster in every type: of a plain read in one stream, bfloat16 1.09 where one after the
// other gave 0.71, and float32 1.24 where it gave 0.92 (Zen 3, one thread, in turns).
#if defined(GH_AVX512)
template <class T>
constexpr int kBeside = sizeof(T) == 2 ? 1 : 4;
#else
template <class T>
constexpr int kBeside = 4;
#endif

// MR rows of x times kBeside<T> rows of the weights, all K apart; with `ahead`, lines so many elements further are fetched meanwhile.
template <int MR, class T>
GH_INLINE void columns_beside(const T *x, const T *w, long K, long ahead, float *out, long ldo) {
  constexpr int NC = kBeside<T>, kSets = NC * MR < 4 ? 4 / (NC * MR) : 1;
  vf acc[kSets][NC][MR];
  GH_UNROLL for (int s = 0; s < kSets; s++)
    GH_UNROLL for (int c = 0; c < NC; c++)
      GH_UNROLL for (int r = 0; r < MR; r++) acc[s][c][r] = vf(0.0f);
  constexpr int kLine = 64 / (int)sizeof(T) / W, kVectors = kLine > kSets ? kLine : kSets;
  auto step = [&](int s, long k, auto t) __attribute__((always_inline)) {
    vf xs[MR];
    GH_UNROLL for (int r = 0; r < MR; r++) xs[r] = load(x + r * K + k, t);
    GH_UNROLL for (int c = 0; c < NC; c++) {
      const vf wc = load(w + c * K + k, t);
      GH_UNROLL for (int r = 0; r < MR; r++) acc[s][c][r] = fma(xs[r], wc, acc[s][c][r]);
    }
  };
  long k = 0;
  for (; k + kVectors * W <= K; k += kVectors * W) {
    if constexpr (NC > 1)
      GH_UNROLL for (int c = 0; c < NC; c++) __builtin_prefetch(w + c * K + k + ahead, 0, 3);
    GH_UNROLL for (int v = 0; v < kVectors; v++) step(v % kSets, k + v * W, Full{});
  }
  for (; k + W <= K; k += W) step(0, k, Full{});
  if (k < K) step(0, k, Tail((int)(K - k)));
  GH_UNROLL for (int c = 0; c < NC; c++)
    GH_UNROLL for (int r = 0; r < MR; r++) {
      GH_UNROLL for (int s = 1; s < kSets; s++) acc[0][c][r] = acc[0][c][r] + acc[s][c][r];
      out[r * ldo + c] = reduce_add(acc[0][c][r]);
    }
}

// Columns [begin, end) of a product of MR rows.
template <int MR, class T, class Epi>
GH_NOINLINE void few_rows(const T *x, long row, long K, const T *w, long begin, long end, Epi &epi) {
  constexpr int NC = kBeside<T>;
  for (long n = begin; n < end; n += W) {
    alignas(64) float sums[MR * W] = {};
    const long count = end - n < W ? end - n : W;
    for (long c = 0; c < count; c += NC) {
      // The last columns are computed with those before them, if there are any.
      const long first = c + NC <= count ? n + c : end - NC;
      const long ahead = first + 2 * NC <= end ? NC * K : 0;
      if (first >= 0) {
        alignas(64) float some[MR * NC];
        columns_beside<MR>(x + row * K, w + first * K, K, ahead, some, NC);
        for (int r = 0; r < MR; r++)
          for (long i = n + c - first; i < NC; i++) sums[r * W + first + i - n] = some[r * NC + i];
      } else {
        for (int r = 0; r < MR; r++)
          for (long i = c; i < count; i++) {
            float sum = 0;
            for (long k = 0; k < K; k++) sum += to_scalar(x[(row + r) * K + k]) * to_scalar(w[(n + i) * K + k]);
            sums[r * W + i] = sum;
          }
      }
    }
    for (int r = 0; r < MR; r++) {
      if (count == W) epi(row + r, n, load(sums + r * W), Full{});
      else epi(row + r, n, load(sums + r * W), Tail((int)count));
    }
  }
}

template <class T, class Epi>
inline void gemm_few_rows(ThreadPool &pool, long M, long N, long K, const T *x, const T *w, Epi &epi) {
  // Pieces of whole vectors of columns: many, because a slow thread must not hold up the others; of 128 KB or more.
  const long vectors = (N + W - 1) / W, least = 131072 / (K * W * (long)sizeof(T) + 1) + 1;
  long items = vectors / (least * pool.size());
  items = items < 1 ? 1 : items > 64 ? 64 : items;
  const int parts = vectors < 2 * least ? 1 : pool.size();
  share_out<char>(pool, parts, (int)items, [&](int part, int item, char &) {
    const Range all = split(vectors, part, parts), own = split(all.end - all.begin, item, items);
    const long begin = (all.begin + own.begin) * W, last = (all.begin + own.end) * W, end = last < N ? last : N;
    long r = 0;
    for (; r + 4 <= M; r += 4) few_rows<4>(x, r, K, w, begin, end, epi);
    for (; r + 2 <= M; r += 2) few_rows<2>(x, r, K, w, begin, end, epi);
    for (; r < M; r++) few_rows<1>(x, r, K, w, begin, end, epi);
  });
}

// With AMX the operands are exchanged: rows of the weights are what tiles read from A as it lies, and x is packed instead, once.
template <class D, class T, class Epi>
inline void gemm_turned(ThreadPool &pool, long M, long N, long K, const T *x, const T *w, Epi &epi) {
  void *packed = scratch<1>(packed_b_bytes<D>(K, M));
  pack_b_parallel<D>(pool, x, 1L, K, K, M, packed);
  const RowsA<T> rows{w, K};
  const SerialPlan<D, RowsA<T>> plan(rows, K);
  Turned<Epi> turned{epi};
  const long tall = kTallest<D>, strips = (N + tall - 1) / tall;
  const int parts = (double)M * N * K < kWorthThread<D> ? 1 : pool.size();
  // Pieces of 4 strips, as far as a block of them fits into the cache: the panels of x pass by each.
  const long part_strips = (strips + parts - 1) / parts, most = plan.block / tall < 4 ? plan.block / tall : 4;
  const long items = (part_strips + most - 1) / most;
  share_out<HeldBlock>(pool, parts, (int)items, [&](int part, int item, HeldBlock &held) {
    const Range all = split(strips, part, parts), own = split(all.end - all.begin, item, items);
    const long b0 = (all.begin + own.begin) * tall, b1 = (all.begin + own.end) * tall < N ? (all.begin + own.end) * tall : N;
    if (b0 < b1) gemm_block<D>(plan, b0, b1, 0, panels<D>(M), M, K, rows, packed, turned, OutHint{}, held);
  });
}

template <class T, class Epi>
inline void gemm_in_place(ThreadPool &pool, long M, long N, long K, const T *x, const T *w, Epi &&epi,
                          OutHint hint = OutHint{}) {
  typedef typename PassingDot<T>::type D;
  if (M <= 0 || N <= 0) return;
  if (M <= kFewRows) {
    gemm_few_rows(pool, M, N, K, x, w, epi);
    return;
  }
  if constexpr (kTiled<D>)
    if (K % D::kPer == 0) {
      gemm_turned<D>(pool, M, N, K, x, w, epi);
      return;
    }
  const RowsA<T> rows{x, K};
  const SerialPlan<D, RowsA<T>> plan(rows, K);
  const long np = panels<D>(N), blocks = (M + plan.block - 1) / plan.block;
  const int parts = (double)M * N * K < kWorthThread<D> ? 1 : pool.size();
  // About as many panels at a time as L2 holds, so that they are in L2 when rows come to be multiplied: groups of 2 MB took 3 to 7 % more.
  long group = kL2Bytes / (long)panel_bytes<D>(K);
  group = group < 4 ? 4 : group > kChunkPanels ? kChunkPanels : group;
  const long part_panels = (np + parts - 1) / parts, items = (part_panels + group - 1) / group;
  share_out<HeldBlock>(pool, parts, (int)items, [&](int part, int item, HeldBlock &held) {
    const Range all = split(np, part, parts), own = split(all.end - all.begin, item, items);
    const long j0 = all.begin + own.begin, j1 = all.begin + own.end;
    if (j0 >= j1) return;
    char *panels = (char *)scratch<1>((size_t)(j1 - j0) * panel_bytes<D>(K)) - (size_t)j0 * panel_bytes<D>(K);
    pack_b_panels<D>(w, 1L, K, K, N, panels, j0, j1);
    const Range following = split(all.end - all.begin, item + 1 < items ? item + 1 : item, items);
    const long first = (all.begin + following.begin) * kColumns<D>, last = (all.begin + following.end) * kColumns<D>;
    const Wanted wanted{(const char *)(w + first * K), ((last < N ? last : N) - first) * K * (long)sizeof(T)};
    for (long i = 0; i < blocks; i++) {
      const Range b = row_range(0, M, i, blocks);
      if (b.begin >= b.end) continue;
      gemm_block<D>(plan, b.begin, b.end, j0, j1, N, K, rows, panels, epi, hint, held,
                    i + 1 == blocks && item + 1 < items ? wanted : Wanted{});
    }
  });
}

}  // namespace GH_ISA_NS
}  // namespace gh
