// gemm_tma.cuh: matrix products on Hopper whose operands are fetched by the copy engine (sm_90a).
//
// Contract
// - C[M x N] = A[M x K] B, as `gemm.cuh` has it: A a loader of `tensor_map.cuh`, B a map over [N, K] with boxes of BN rows.
// - Fetched<BM, BN, STAGES, BESIDE>: one warp fetches, a warpgroup for each 64 rows computes and hands over; BESIDE blocks fit on a
//   multiprocessor, so that one computes while another hands over.
// - gridDim.x: blocks go on with the next tile until there is none. Or gridDim.y, `splits` of them: the blocks of a cluster share the
//   depth of one tile, and add their sums as in `gemm.cuh`.
// - EARLY: B is constant, so its first boxes are asked for before earlier kernels have ended, the others brought nearer.
//
// Barriers of a stage: `full` ends a round when both boxes are there, `empty` when all computing warps have read them. Rows of B that two
// blocks of a cluster fetched for both (multicast) made it slower, not faster: 264 us for 193 at 16384 x 1024 x 4096.
#pragma once
#include "after.cuh"
#include "gemm.cuh"
#include "tensor_map.cuh"

namespace gh {

template <int BM_, int BN_, int STAGES_, int BESIDE_> struct Fetched {
  static constexpr int BM = BM_, BN = BN_, BK = 64, STAGES = STAGES_, BESIDE = BESIDE_;
  static constexpr int GROUPS = BM / 64, THREADS = GROUPS * 128 + 32, ROW = BN + 4;
  static constexpr int STAGE = (BM + BN) * BK;  // elements
};

// Four lanes hold neighbours of each other's: afterwards lane q has all eight columns of block q. `pairs[j]`: columns 2 q, 2 q + 1 of block j.
GH_FN void gather_neighbours(float (&pairs)[4][2]) {
  const int lane = threadIdx.x;
#pragma unroll
  for (int j = 0; j < 4; j += 2)
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const bool odd = lane & 1;
      const float got = shuffle_xor(odd ? pairs[j][e] : pairs[j + 1][e], 1);
      pairs[j][e] = odd ? got : pairs[j][e], pairs[j + 1][e] = odd ? pairs[j + 1][e] : got;
    }
#pragma unroll
  for (int j = 0; j < 2; ++j)
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const bool high = lane & 2;
      const float got = shuffle_xor(high ? pairs[j][e] : pairs[j + 2][e], 2);
      pairs[j][e] = high ? got : pairs[j][e], pairs[j + 2][e] = high ? pairs[j + 2][e] : got;
    }
}

// Hands over the 64 x BN sums of a warpgroup from registers; what the next ones need is loaded AHEAD of them.
template <int BN, int V, class Out> GH_FN void hand_over_sums(const float (&sums)[BN / 2], int M, int N, int m0, int n0, Out &&out) {
  constexpr int COUNT = BN / 16, AHEAD = 2;  // turns of eight columns of one of two rows
  const int lane = threadIdx.x % 32, row = m0 + threadIdx.x % 128 / 32 * 16 + lane / 4, column = n0 + lane % 4 * 8;
  decltype(loads_of(out, 0, 0)) coming[AHEAD][8 / V];
  auto load = [&](int turn) {
    const int m = row + turn % 2 * 8, n = column + turn / 2 * 32;
#pragma unroll
    for (int e = 0; e < 8; e += V)
      if (m < M && n + e < N) coming[turn % AHEAD][e / V] = loads_of(out, m, n + e);
  };
#pragma unroll
  for (int turn = 0; turn < AHEAD && turn < COUNT; ++turn) load(turn);
#pragma unroll
  for (int turn = 0; turn < COUNT; ++turn) {
    float pairs[4][2];
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int e = 0; e < 2; ++e) pairs[i][e] = sums[4 * (turn / 2 * 4 + i) + turn % 2 * 2 + e];
    gather_neighbours(pairs);
    const int m = row + turn % 2 * 8, n = column + turn / 2 * 32;
    decltype(loads_of(out, 0, 0)) now[8 / V];
#pragma unroll
    for (int e = 0; e < 8 / V; ++e) now[e] = coming[turn % AHEAD][e];
    if (turn + AHEAD < COUNT) load(turn + AHEAD);
#pragma unroll
    for (int e = 0; e < 8; e += V) {
      if (m >= M || n + e >= N) continue;
      Vec<float, V> result;
#pragma unroll
      for (int i = 0; i < V; ++i) result[i] = pairs[(e + i) / 2][(e + i) % 2];
      hand_to(out, m, n + e, result, now[e / V]);
    }
  }
}

template <class S, int V, bool EARLY, class A, class Out>
GH_FN void gemm_tma(const Context &ctx, int M, int N, int K, const A &a, const TensorMap &b, int splits, Out &&out) {
#if defined(GH_EMULATE) || __CUDA_ARCH_FEAT_SM90_ALL
  typedef typename A::T T;
  constexpr int BM = S::BM, BN = S::BN, BK = S::BK, STAGES = S::STAGES;
  GH_SHARED_ROOM(room);
  T *shared = (T *)room;
  Barrier *full = (Barrier *)(room + STAGES * S::STAGE * 2), *empty = full + STAGES;
  const int group = threadIdx.x / 128, lane = threadIdx.x % 32;
  const int steps_all = (K + BK - 1) / BK, each = (steps_all + splits - 1) / splits, first = blockIdx.y * each;
  const int steps = first + each < steps_all ? each : steps_all > first ? steps_all - first : 0;
  const int tiles_m = (M + BM - 1) / BM, tiles_n = (N + BN - 1) / BN;
  if (threadIdx.x == 0)
    for (int s = 0; s < STAGES; ++s) barrier_begins(full + s, 1), barrier_begins(empty + s, S::GROUPS * 4);
  __syncthreads();
  int number = 0;  // steps since the beginning, over all tiles
  const int ahead = !EARLY || (int)blockIdx.x >= tiles_m * tiles_n ? 0 : steps < STAGES ? steps : STAGES;
  if (group == S::GROUPS && lane == 0) {
    const TilePlace place(blockIdx.x, tiles_m, tiles_n);
    for (int s = 0; s < ahead; ++s) {
      expect_bytes(full + s, S::STAGE * 2);
      fetch_rows(shared + s * S::STAGE + BM * BK, b, (first + s) * BK, place.n * BN, full + s);
    }
    for (int s = ahead; EARLY && s < steps; ++s) prefetch_rows(b, (first + s) * BK, place.n * BN);
    a.prefetch();
  }
  wait_for_earlier(ctx);
  if (group == S::GROUPS) {
    if (lane == 0)
      for (int work = blockIdx.x; work < tiles_m * tiles_n; work += gridDim.x) {
        const TilePlace place(work, tiles_m, tiles_n);
        for (int step = 0; step < steps; ++step, ++number) {
          const int s = number % STAGES, k = (first + step) * BK;
          wait_round(empty + s, number / STAGES % 2 ^ 1);
          T *to = shared + s * S::STAGE;
          if (number >= ahead) expect_bytes(full + s, S::STAGE * 2);
          a.fetch(to, place.m * BM, k, full + s);
          if (number >= ahead) fetch_rows(to + BM * BK, b, k, place.n * BN, full + s);
        }
      }
    __syncwarp();
    if (splits > 1) __syncthreads();
  } else {
    for (int work = blockIdx.x; work < tiles_m * tiles_n; work += gridDim.x) {
      const TilePlace place(work, tiles_m, tiles_n);
      float sums[BN / 2];
#pragma unroll
      for (int i = 0; i < BN / 2; ++i) sums[i] = 0.0f;
      for (int step = 0; step < steps; ++step, ++number) {
        wait_round(full + number % STAGES, number / STAGES % 2);
        const T *at = shared + number % STAGES * S::STAGE + group * 64 * BK, *bt = shared + number % STAGES * S::STAGE + BM * BK;
        begin_products();
#pragma unroll
        for (int k = 0; k < BK; k += 16) wgmma<T, BN>(sums, at, bt, k);
        end_products();
        products_left<1>();
        if (step && lane == 0) arrive(empty + (number - 1) % STAGES);
      }
      products_left<0>();
      if (steps && lane == 0) arrive(empty + (number - 1) % STAGES);
      if (splits == 1) {
        hand_over_sums<BN, V>(sums, M, N, place.m * BM + group * 64, place.n * BN, out);
      } else {
        __syncthreads();  // all have read the last stage, which the sums go over
        float *staged = (float *)room;
#pragma unroll
        for (int j = 0; j < BN / 8; ++j) {
          const int m = group * 64 + threadIdx.x % 128 / 32 * 16 + lane / 4, n = j * 8 + lane % 4 * 2;
          *(Vec<float, 2> *)(staged + m * S::ROW + n) = Vec<float, 2>{{sums[4 * j], sums[4 * j + 1]}};
          *(Vec<float, 2> *)(staged + (m + 8) * S::ROW + n) = Vec<float, 2>{{sums[4 * j + 2], sums[4 * j + 3]}};
        }
      }
    }
  }
  if (splits > 1) {
    const TilePlace place(blockIdx.x, tiles_m, tiles_n);
    join_tile<S, V>(M, N, place.m * BM, place.n * BN, splits, out);
  }
#endif
}

}  // namespace gh
