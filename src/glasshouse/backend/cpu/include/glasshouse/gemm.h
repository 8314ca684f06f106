// gemm.h: C = epilogue(A * B) for packed B, any number of rows, with sources of A and epilogues inlined.
//
// Contract
//   gemm<D>(pool, M, N, K, a, Bpacked, epi [, hint]);
//     D          DotF32 (also for float16, widened as it is packed), DotF64, DotBF16 (products of bf16, sums in float32) or DotI8 (uint8 x int8, sums
//                in int32); TilesBF16 and TilesI8: the same on AMX tiles where there are any, from kTilesFrom rows on
//     a          RowsA / ColsA / FnA (gemm_pack.h)
//     Bpacked    from pack_b<D>
//     epi        epi(row, col, acc, range): acc is W sums of columns col .. col+W-1 (vf; vd for DotF64, vi for DotI8), range is Full or Tail;
//                called once for each (row, vector), from several threads at once, each for its own part of C. Write it as a
//                generic lambda: [=](long r, long c, gh::vf x, auto t) { gh::store(C + r * ldc + c, x + gh::load(b + c, t), t); }
//     hint       OutHint{C, row bytes, element bytes} when epi writes a row-major matrix: 3 to 8 % faster for large C.
//   gemm_dynamic<D>(pool, M, N, K, a, B, rs, cs, work, epi): packs B (element (k, n) at B[k rs + n cs]) into `work`
//                (packed_b_bytes) with all threads first.
//   gemm_batched<D>(pool, batch, M, N, K, a_of, B, step, rs, cs, epi): a_of(b) gives the source of item b; B of item b starts at
//                B + step(b); epi(b, row, col, acc, range). Items are dealt out to threads; each packs its own B.
//   gemm_serial<D>(rows, cols...) is the single-thread core that attention.h and conv.h build on.
// - Sums over K run in a fixed order that does not depend on who computes them; only the tile height at the edges of a
//   thread's rows can change it for fewer than 4 rows (K is then summed in 2, 4 or 8 interleaved parts).
// - K = 0 gives sums of 0. M = 0 or N = 0 does nothing.
#pragma once
#include "columns.h"
#include "gemm_pack.h"
#include "gemm_tiles.h"
#include "extern.h"

namespace gh {
inline namespace GH_ISA_NS {

// For a whole panel, or one of which at most one vector counts.
template <class D>
GH_INLINE void micro_product(Micro<D> &micro, bool narrow, int rows, const void *A, long lda, const void *B, const KSegments &segs,
                             typename D::Out *out, long ldo, bool accumulate) {
  constexpr long ldb = kColumns<D>;
  if (narrow || D::kVectors == 1) micro.template fn<1>(rows)(A, lda, B, ldb, segs, out, ldo, accumulate);
  else micro.template fn<D::kVectors>(rows)(A, lda, B, ldb, segs, out, ldo, accumulate);
}

// An epilogue of a product whose operands are exchanged: what are rows here are columns there.
template <class Epi>
struct Turned {
  Epi &epi;
};
template <class Epi>
constexpr bool kIsTurned = false;
template <class Epi>
constexpr bool kIsTurned<Turned<Epi>> = true;

template <class D, class Epi>
GH_INLINE void turned_epilogue(const float *tile, long ldt, int skip, int height, long row, long col, long N, Epi &epi) {
  const long columns = N - col < kColumns<D> ? N - col : kColumns<D>;
  for (int r = skip; r < height; r += W) {
    const int lanes = height - r < W ? height - r : W;
    for (long c = 0; c < columns; c += W) {
      vi x[W];
      GH_UNROLL for (int i = 0; i < W; i++) x[i] = load((const int32_t *)tile + (r + (i < lanes ? i : 0)) * ldt + c);
      transpose_tile(x);
      const int rows = columns - c < W ? (int)(columns - c) : W;
      for (int i = 0; i < rows; i++) {
        if (lanes == W) epi(col + c + i, row + r, as_float(x[i]), Full{});
        else epi(col + c + i, row + r, as_float(x[i]), Tail(lanes));
      }
    }
  }
}

// Passes a finished tile to the epilogue.
template <class D, class Epi>
GH_INLINE void tile_epilogue(const typename D::Out *tile, long ldt, int skip, int height, long row, long col, long N, Epi &epi) {
  long n = N - col;
  if constexpr (kIsTurned<Epi>) {
    turned_epilogue<D>(tile, ldt, skip, height, row, col, N, epi.epi);
  } else if (n >= kColumns<D>) {
    auto first = columns_of(epi, col, Full{}), last = columns_of(epi, col + (D::kVectors - 1) * W, Full{});
    for (int r = skip; r < height; r++) {
      first(row + r, load(tile + r * ldt));
      if constexpr (D::kVectors > 1) last(row + r, load(tile + r * ldt + W));
    }
  } else {
    auto vector = [&](long v, auto t) __attribute__((always_inline)) {
      auto one = columns_of(epi, col + v, t);
      for (int r = skip; r < height; r++) one(row + r, load(tile + r * ldt + v));
    };
    if (n >= W) vector(0, Full{});
    if (n % W) vector(n / W * W, Tail((int)(n % W)));
  }
}

// Where results go, for the one thing the kernel can do about it: own the lines before they are written. Row-major,
// `row_bytes` apart. Without it writing costs 3 to 8 % when C does not fit into L2.
struct OutHint {
  void *p = nullptr;
  long row_bytes = 0, elem_bytes = 4;
  GH_INLINE OutLines tile(long row, long col, long cols, long most = NR) const {
    if (!p) return {};
    const long last = ((cols < most ? cols : most) - 1) * elem_bytes;
    return {(char *)p + row * row_bytes + col * elem_bytes, row_bytes, last};
  }
};

// Budgets of L2: a block of A, the panel of B that passes by it and the next panel, which is fetched meanwhile.
constexpr long kBlockBytes = kL2Bytes / 16 * 7;
constexpr long kTileBlockBytes = 768 * 1024;  // processors with AMX have an L2 of 2 MB; depths of 2048 and more want 128 rows
constexpr long kChunkUnits = 1024;      // K is cut into chunks of about this many units once it is more than twice as long
constexpr long kChunkPanels = 16;       // panels whose sums wait between chunks
// Tiles that a panel passes by from which the next one is fetched meanwhile. Fewer leave it no time: what is fetched by two tiles of wide
// registers comes late (Zen 4, 16x2048x768: 182 -> 165 GFLOP/s; Zen 5 24 % slower on 16x2048x2048). Three still have it (Zen 5, 42 rows:
// 768x3072 231 -> 272 GFLOP/s, 2048x2048 213 -> 267); tiles of 6 rows and those of AMX were not measured with three.
template <class D>
constexpr long kFetchFrom = kTiled<D> || kMaxRows < 14 ? 4 : 3;

template <class D, class Src>
struct SerialPlan {
  long ku, chunks, chunk, lda, block;
  bool direct;
  SerialPlan(const Src &src, long K) {
    ku = units<D>(K);
    direct = src.template in_place<D>(K);
    chunks = Src::kChunks && ku > 2 * kChunkUnits ? (ku + kChunkUnits - 1) / kChunkUnits : 1;
    chunk = chunks > 1 ? ((ku + chunks - 1) / chunks + 15) / 16 * 16 : ku > 0 ? ku : 1;  // K = 0 still makes one round
    lda = packed_a_stride(chunk);
    if constexpr (Src::kDirect)
      if (direct) lda = src.ld / D::kPer;
    constexpr int kRows = kTallest<D>;
    // By depth alone: with what packing adds to a row the longest depth, 2048, got 3 tiles, and no panel was fetched ahead (Zen 5,
    // 2048^3: 226 -> 274 GFLOP/s).
    block = (kTiled<D> ? kTileBlockBytes : kBlockBytes) / (chunk * D::kBytes) / kRows * kRows;
    if (block < kRows) block = kRows;
  }
};

// The block of A that a thread holds: rows from b0, units from k0. Neighbouring pieces of work mostly share it.
struct HeldBlock {
  const char *p = nullptr;
  long b0 = -1, k0 = -1;
};

// Rows [b0, b1), units [k0, k0 + kn): in place, or packed into this thread's buffer. The last unit is filled up with zeros.
template <class D, class Src>
inline const char *block_of_a(const SerialPlan<D, Src> &p, const Src &src, long K, long b0, long b1, long k0, long kn, HeldBlock &held) {
  typedef typename AElem<D>::type E;
  if constexpr (Src::kDirect)
    if (p.direct) return (const char *)(src.p + b0 * src.ld + k0 * D::kPer);
  if (held.p && held.b0 == b0 && held.k0 == k0) return held.p;
  E *buf = (E *)scratch<0>((size_t)(b1 - b0) * p.lda * D::kBytes);
  const long n = K - k0 * D::kPer < kn * D::kPer ? K - k0 * D::kPer : kn * D::kPer;
  src.pack(b0, b1 - b0, k0 * D::kPer, n, buf, p.lda * D::kPer);
  if (n < kn * D::kPer)
    for (long r = 0; r < b1 - b0; r++)
      for (long k = n; k < kn * D::kPer; k++) buf[r * p.lda * D::kPer + k] = E{};
  held = {(const char *)buf, b0, k0};
  return held.p;
}

// Part i of n of rows [r0, r1), in pairs of rows: an odd row falls into the last part.
GH_INLINE Range row_range(long r0, long r1, long i, long n) {
  const Range pairs = split((r1 - r0 + 1) / 2, i, n);
  const long end = r0 + 2 * pairs.end;
  return {r0 + 2 * pairs.begin, end < r1 ? end : r1};
}

// Memory that is wanted next: fetched in the course of a block, instead of the panel after the one in use.
struct Wanted {
  const char *p = nullptr;
  long bytes = 0;
};

// One block of rows [b0, b1), panels [j0, j1). Row indices passed on are absolute.
template <class D, class Src, class Epi>
GH_NOINLINE void gemm_block(const SerialPlan<D, Src> &p, long b0, long b1, long j0, long j1, long N, long K, const Src &src, const void *Bp,
                            Epi &epi, OutHint hint, HeldBlock &held, Wanted wanted = Wanted{}) {
  typedef typename D::Out Out;
  constexpr int NR = kColumns<D>, kUnit = D::kBytes;
  const long rows = b1 - b0, panel_bytes = p.ku * NR * kUnit, np = panels<D>(N);
  const bool chunked = p.chunks > 1;
  const RowsOf<D> tiles(rows, !chunked);
  Micro<D> micro;
  const long group = chunked ? kChunkPanels : j1 - j0;
  for (long g = j0; g < j1; g += group) {
    const long g1 = g + group < j1 ? g + group : j1, ldt = chunked ? (g1 - g) * NR : NR;
    Out *sums = chunked ? (Out *)scratch<4>((size_t)rows * ldt * sizeof(Out)) : nullptr;
    for (long k0 = 0; k0 < p.ku || k0 == 0; k0 += p.chunk) {
      const long kn = p.ku - k0 < p.chunk ? p.ku - k0 : p.chunk;
      const bool last = k0 + kn >= p.ku;
      const char *A = block_of_a<D>(p, src, K, b0, b1, k0, kn, held);
      const long share = wanted.p ? wanted.bytes / (p.chunks * (j1 - j0)) : kn * NR * kUnit;
      const long slice = tiles.count >= kFetchFrom<D> || wanted.p ? (share / tiles.count + 63) / 64 * 64 : 0;
      const long step = slice * kRoundUnits<D> / (kn + 1) + 1;
      for (long j = g; j < g1; j++) {
        const char *panel = (const char *)Bp + (size_t)j * panel_bytes + k0 * NR * kUnit;
        // After the group's last panel comes the next chunk of its first, after the last chunk the next group.
        const char *next = j + 1 < g1 ? panel + panel_bytes
                           : !last    ? (const char *)Bp + (size_t)g * panel_bytes + (k0 + kn) * NR * kUnit
                                      : (const char *)Bp + (size_t)(g1 < np ? g1 : j) * panel_bytes;
        if (wanted.p) next = wanted.p, wanted.p += slice * tiles.count;
        const bool narrow = N - j * NR <= W;
        for (long i = 0; i < tiles.count; i++) {
          const auto t = tiles[i];
          alignas(64) Out local[kTallest<D> * NR];
          Out *tile = chunked ? sums + t.row * ldt + (j - g) * NR : local;
          const long zero = 0;
          const OutLines lines = last ? hint.tile(b0 + t.row, j * NR, N - j * NR, NR) : OutLines{};
          const KSegments segs{1, kn, &zero, next + i * slice, slice ? step : 0, lines};
          micro_product(micro, narrow, t.height, A + t.row * p.lda * kUnit, p.lda, panel, segs, tile, ldt, k0 > 0);
          if (last) tile_epilogue<D>(tile, ldt, t.skip, t.height, b0 + t.row, j * NR, N, epi);
        }
      }
    }
  }
}

// One thread's part: rows [r0, r1), panels [j0, j1).
template <class D, class Src, class Epi>
inline void gemm_serial(long r0, long r1, long j0, long j1, long N, long K, const Src &src, const void *Bp, Epi &epi,
                        OutHint hint = OutHint{}) {
  const SerialPlan<D, Src> p(src, K);
  const long nblocks = (r1 - r0 + p.block - 1) / p.block;
  HeldBlock held;
  for (long ib = 0; ib < nblocks; ib++) {
    const Range b = row_range(r0, r1, ib, nblocks);
    if (b.begin >= b.end) continue;
    gemm_block<D>(p, b.begin, b.end, j0, j1, N, K, src, Bp, epi, hint, held);
  }
}

// How many ways to split rows (the rest of the threads split columns): least work for the slowest thread, then least traffic.
// `grain`: rows that take as long as fewer would.
inline int row_parts(long M, long np, long K, int threads, long columns = NR, long grain = 1) {
  int best = 1;
  double best_cost = 1e300;
  for (int p = 1; p <= threads; p++) {
    if (threads % p) continue;
    int q = threads / p;
    double rows = (double)(((M + p - 1) / p + grain - 1) / grain * grain), cols = (double)((np + q - 1) / q * columns);
    // Reading A or B once more weighs as 1/64 of a multiply-add row: enough to break ties, never to unbalance.
    double cost = rows * cols * (double)K + (rows + cols) * (double)K / 4;
    if (cost < best_cost) best_cost = cost, best = p;
  }
  return best;
}

// Into how many groups of `least` panels or more those of a thread's part are cut: about 32 pieces of work in all, none below 10 us.
inline long column_cuts(long part_panels, long least, long blocks, double work) {
  long cuts = (32 + blocks - 1) / blocks;
  if (cuts > part_panels / least) cuts = part_panels / least;
  if (cuts > (long)(work / (double)blocks / 500000.0)) cuts = (long)(work / (double)blocks / 500000.0);
  return cuts < 1 ? 1 : cuts;
}

template <class D, class Src, class Epi>
inline void gemm(ThreadPool &pool, long M, long N, long K, const Src &src, const void *Bp, Epi &&epi, OutHint hint = OutHint{}) {
  if (M <= 0 || N <= 0) return;
  if constexpr (kTiled<D>)
    if (M < kTilesFrom) {
      gemm<typename D::Registers>(pool, M, N, K, src, Bp, epi, hint);
      return;
    }
  const long np = panels<D>(N);
  // Below about 40 k multiply-adds (1 us) a second thread costs more than it brings.
  const int threads = (double)M * N * K < kWorthThread<D> ? 1 : pool.size();
  if (threads == 1) {
    gemm_serial<D>(0, M, 0, np, N, K, src, Bp, epi, hint);
    return;
  }
  // Each thread has a part of rows and columns, cut into blocks of rows and groups of panels that others may take over.
  const SerialPlan<D, Src> plan(src, K);
  const int p = M >= plan.block * threads ? threads : row_parts(M, np, K, threads, kColumns<D>, kTiled<D> ? 16 : 1), q = threads / p;
  const long part_rows = (M + p - 1) / p + 1, part_panels = (np + q - 1) / q;
  const long blocks = (part_rows + plan.block - 1) / plan.block;
  const long cuts = column_cuts(part_panels, plan.chunks > 1 ? kChunkPanels : 1, blocks,
                                              (double)part_rows * part_panels * kColumns<D> * K * 40000.0 / kWorthThread<D>);
  share_out<HeldBlock>(pool, threads, (int)(blocks * cuts), [&](int part, int item, HeldBlock &held) {
    const Range rows = row_range(0, M, part / q, p), cols = split(np, part % q, q);
    const Range b = row_range(rows.begin, rows.end, item / cuts, blocks), c = split(cols.end - cols.begin, item % cuts, cuts);
    if (b.begin >= b.end || c.begin >= c.end) return;
    gemm_block<D>(plan, b.begin, b.end, cols.begin + c.begin, cols.begin + c.end, N, K, src, Bp, epi, hint, held);
  });
}

template <class D, class Src, class T, class Epi>
inline void gemm_dynamic(ThreadPool &pool, long M, long N, long K, const Src &src, const T *B, long rs, long cs, void *work,
                         Epi &&epi, OutHint hint = OutHint{}) {
  if (M <= 0 || N <= 0) return;
  pack_b_parallel<D>(pool, B, rs, cs, K, N, work);
  gemm<D>(pool, M, N, K, src, work, epi, hint);
}

template <class D, class SrcOf, class T, class Step, class Epi>
inline void gemm_batched(ThreadPool &pool, long batch, long M, long N, long K, SrcOf &&a_of, const T *B, Step &&step, long rs,
                         long cs, Epi &&epi) {
  if (M <= 0 || N <= 0 || batch <= 0) return;
  if constexpr (kTiled<D>)
    if (M < kTilesFrom) {
      gemm_batched<typename D::Registers>(pool, batch, M, N, K, a_of, B, step, rs, cs, epi);
      return;
    }
  const long np = panels<D>(N);
  // An item is cut into column groups when there are fewer items than threads.
  long cuts = batch >= pool.size() ? 1 : (pool.size() + batch - 1) / batch;
  if (cuts > np) cuts = np;
  double work = (double)M * N * K / cuts;
  const double worth = kWorthThread<D> / D::kPer;
  long grain = work > worth ? 1 : (long)(worth / (work + 1)) + 1;
  parallel_for(pool, batch * cuts, grain, [&](long begin, long end) {
    for (long i = begin; i < end; i++) {
      long b = i / cuts;
      Range c = split(np, i % cuts, cuts);
      char *Bp = (char *)scratch<1>((size_t)(c.end - c.begin) * panel_bytes<D>(K));
      Bp -= (size_t)c.begin * panel_bytes<D>(K);
      pack_b_panels<D>(B + step(b), rs, cs, K, N, Bp, c.begin, c.end);
      auto e = [&](long r, long col, auto acc, auto t) __attribute__((always_inline)) { epi(b, r, col, acc, t); };
      auto src = a_of(b);
      gemm_serial<D>(0, M, c.begin, c.end, N, K, src, Bp, e);
    }
  });
}

}  // namespace GH_ISA_NS
}  // namespace gh
