// gemm_double.cuh: products of float64 on tensor cores, as `gemm_mma` computes those of half floats.
//
// Contract
// - `gemm_dmma<S, V>`: operands, tiles, `splits` and `out` as in `gemm.cuh`; a step in depth is BK / 4 elements, and both operands may lie across it.
//   V is 1 or 2: neighbours that a lane has sums of. There are no clusters: `parts` has room for the sums of all splits, as float64.
// - A slot of the instructions' depth is any of the tile's, as long as both operands agree: lane t of four takes elements 2t and 2t + 1 of eight,
//   one load of 16 bytes where these lie together.
#pragma once
#include "gemm.cuh"

namespace gh {

// Elements 2t and 2t + 1 of eight in depth, from `k` on, of row `row` of an operand's tile.
template <int SIZE, int BK, bool ACROSS> GH_FN Vec<double, 2> pair_of(const double *tile, int row, int k, int t) {
  if constexpr (ACROSS) {
    const int first = k + 2 * t;
    auto one = [&](int depth) { return tile[chunk_at<double, true, SIZE / 2>(depth, row / 2) + row % 2]; };
    return Vec<double, 2>{{one(first), one(first + 1)}};
  } else {
    return load_vec<2>(tile + chunk_at<double, false, BK / 8>(row, k / 2 + t));
  }
}

template <class S, int V, class A, class B, class Out>
GH_FN void gemm_dmma(const Context &ctx, int M, int N, int K, const A &a, const B &b, int splits, double *parts, Out &&out) {
  constexpr int BM = S::BM, BN = S::BN, BK = S::BK, STAGES = S::STAGES, THREADS = S::THREADS, DEPTH = BK / 4;
  GH_SHARED_ROOM(room);
  double *shared = (double *)room;
  const TilePlace tile(blockIdx.x, (M + BM - 1) / BM, (N + BN - 1) / BN);
  const int m0 = tile.m * BM, n0 = tile.n * BN;
  const int steps_all = (K + DEPTH - 1) / DEPTH, each = (steps_all + splits - 1) / splits;
  const int first = blockIdx.y * each, last = first + each < steps_all ? first + each : steps_all;
  const int steps = last > first ? last - first : 0;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
  const int wm = warp / (BN / S::WN) * S::WM, wn = warp % (BN / S::WN) * S::WN;
  constexpr int MT = S::WM / 16, NT = S::WN / 8;
  double sums[MT][NT][4] = {};
  const Copier<BM, BK, THREADS, A> copy_a(a, m0, threadIdx.x);
  const Copier<BN, BK, THREADS, B> copy_b(b, n0, threadIdx.x);
  auto stage = [&](int s) { return shared + s * (BM + BN) * DEPTH; };
  auto fill = [&](double *to, int k) { copy_a.copy(to, k), copy_b.copy(to + BM * DEPTH, k); };
#pragma unroll
  for (int s = 0; s < STAGES - 1; ++s) {
    if (s < steps) fill(stage(s), (first + s) * DEPTH);
    end_copies();
  }
  for (int step = 0; step < steps; ++step) {
    copies_left<STAGES - 2>();
    __syncthreads();
    const int next = step + STAGES - 1;
    if (next < steps) fill(stage(next % STAGES), (first + next) * DEPTH);
    end_copies();
    const double *at = stage(step % STAGES), *bt = at + BM * DEPTH;
#pragma unroll
    for (int k = 0; k < DEPTH; k += 8) {
      double fa[MT][4];
      Vec<double, 2> fb[NT];
#pragma unroll
      for (int i = 0; i < MT; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const Vec<double, 2> x = pair_of<BM, BK, A::across>(at, wm + i * 16 + half * 8 + g, k, t);
          fa[i][half] = x[0], fa[i][half + 2] = x[1];
        }
#pragma unroll
      for (int j = 0; j < NT; ++j) fb[j] = pair_of<BN, BK, B::across>(bt, wn + j * 8 + g, k, t);
#pragma unroll
      for (int i = 0; i < MT; ++i)
#pragma unroll
        for (int j = 0; j < NT; ++j) mma(sums[i][j], fa[i], fb[j][0], fb[j][1]);
    }
  }
  copies_left<0>();
  if (splits > 1 && !joined_by_last<MT * NT * 4, THREADS>(ctx, splits, parts, &sums[0][0][0])) return;
#pragma unroll
  for (int i = 0; i < MT; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int m = m0 + wm + i * 16 + half * 8 + g;
      if (m >= M) continue;
#pragma unroll
      for (int j = 0; j < NT; ++j)
#pragma unroll
        for (int e = 0; e < 2; e += V) {
          const int n = n0 + wn + j * 8 + t * 2 + e;
          if (n >= N) continue;
          Vec<double, V> result;
#pragma unroll
          for (int u = 0; u < V; ++u) result[u] = sums[i][j][half * 2 + e + u];
          out(m, n, result);
        }
    }
}

}  // namespace gh
