// gemm_cluster.cuh: large matrix products on Hopper, by blocks that stay and clusters that share weights.
//
// Contract
// - C[M x N] = A[M x K] B, as `gemm.cuh` has it: A a loader along k, `out` called with V neighbours along n. B is a constant in the form
//   "panels": for every 64 of depth the rows of all columns, `columns` of them, each 64 half floats in swizzled chunks, so that what a
//   step needs of a tile is one run of bytes.
// - Clustered<BM, BN, STAGES, BLOCKS, BESIDE>: the BLOCKS blocks of a cluster take tiles below each other; each fetches a part of the
//   weights for all. Some warps load, a warpgroup for each 64 rows computes and hands over; BESIDE blocks fit on a multiprocessor, so that
//   one computes while another hands over.
// - gridDim.x: a multiple of BLOCKS; blocks go on with the next tile until there is none.
//
// Barriers of a stage: `full` ends a round when A's copies (a member for each loading thread) and B's bytes are there; `empty` when all
// computing warps of the cluster have read it, because the next weights for it go to all of them.
#pragma once
#include "cluster.cuh"
#include "gemm.cuh"

namespace gh {

template <int BM_, int BN_, int STAGES_, int BLOCKS_, int BESIDE_> struct Clustered {
  static constexpr int BM = BM_, BN = BN_, BK = 64, STAGES = STAGES_, BLOCKS = BLOCKS_, BESIDE = BESIDE_;
  static constexpr int GROUPS = BM / 64;
  static constexpr int LOADERS = BESIDE > 1 && GROUPS > 1 ? 64 : 128;  // threads that load, behind those that compute
  static constexpr int THREADS = GROUPS * 128 + LOADERS;
  static constexpr int STAGE = (BM + BN) * BK;                  // elements
  static constexpr int SHARED = STAGES * STAGE * 2 + STAGES * 16;
  // Where a warpgroup loads, the registers of a block are dealt out anew: it keeps few.
  static constexpr int EACH = 65536 / (THREADS * BESIDE) / 8 * 8 < 240 ? 65536 / (THREADS * BESIDE) / 8 * 8 : 240;
  static constexpr int FEW = BESIDE > 1 ? 48 : 72, MANY_ = ((GROUPS + 1) * EACH - FEW) / GROUPS / 8 * 8, MANY = MANY_ < 240 ? MANY_ : 240;
};

// The next tiles of this cluster: eight rows of clusters at a time, as in `TilePlace`.
struct ClusterPlace {
  int m, n;
  GH_FN ClusterPlace(int work, int rows, int tiles_n) {
    const int band = 8 * tiles_n, b = work / band, first = b * 8;
    const int high = rows - first < 8 ? rows - first : 8, inside = work - b * band;
    m = first + inside % high, n = inside / high;
  }
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

// Hands over the 64 x BN sums of a warpgroup from registers.
template <int BN, int V, class Out> GH_FN void hand_over_sums(const float (&sums)[BN / 2], int M, int N, int m0, int n0, Out &&out) {
  const int lane = threadIdx.x % 32, row = m0 + threadIdx.x % 128 / 32 * 16 + lane / 4;
#pragma unroll
  for (int j = 0; j < BN / 8; j += 4)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float pairs[4][2];
#pragma unroll
      for (int i = 0; i < 4; ++i) pairs[i][0] = sums[4 * (j + i) + 2 * r], pairs[i][1] = sums[4 * (j + i) + 2 * r + 1];
      gather_neighbours(pairs);
      const int m = row + 8 * r, n = n0 + (j + lane % 4) * 8;
#pragma unroll
      for (int e = 0; e < 8; e += V) {
        if (m >= M || n + e >= N) continue;
        Vec<float, V> result;
#pragma unroll
        for (int i = 0; i < V; ++i) result[i] = pairs[(e + i) / 2][(e + i) % 2];
        out(m, n + e, result);
      }
    }
}

template <class S, int V, class A, class Out>
GH_FN void gemm_cluster(const Context &, int M, int N, int K, const A &a, const typename A::T *b, int columns, Out &&out) {
#if defined(GH_EMULATE) || __CUDA_ARCH_FEAT_SM90_ALL
  typedef typename A::T T;
  static_assert(!A::across, "operands lie along k");
  constexpr int BM = S::BM, BN = S::BN, BK = S::BK, STAGES = S::STAGES, BLOCKS = S::BLOCKS, PART = BN / BLOCKS;
  GH_SHARED_ROOM(room);
  T *shared = (T *)room;
  Barrier *full = (Barrier *)(room + STAGES * S::STAGE * 2), *empty = full + STAGES;
  const int rank = BLOCKS > 1 ? cluster_rank() : 0, steps = (K + BK - 1) / BK;
  const int rows = ((M + BM - 1) / BM + BLOCKS - 1) / BLOCKS, tiles_n = (N + BN - 1) / BN;
  const int begin = blockIdx.x / BLOCKS, clusters = gridDim.x / BLOCKS, group = threadIdx.x / 128, lane = threadIdx.x % 32;
  if (threadIdx.x == 0)
    for (int s = 0; s < STAGES; ++s)
      barrier_begins(full + s, S::LOADERS + 1), barrier_begins(empty + s, S::GROUPS * 4 * BLOCKS);
  cluster_meets();
  int number = 0;  // steps since the beginning, over all tiles
  if (group == S::GROUPS) {
    const int thread = threadIdx.x - S::GROUPS * 128;
    if constexpr (S::LOADERS == 128) registers_less<S::FEW>();
    for (int work = begin; work < rows * tiles_n; work += clusters) {
      const ClusterPlace place(work, rows, tiles_n);
      const Copier<BM, BK, S::LOADERS, A> copy_a(a, (place.m * BLOCKS + rank) * BM, thread);
      const T *panel = b + (int64_t)(place.n * BN + rank * PART) * BK;
      for (int step = 0; step < steps; ++step, ++number) {
        const int s = number % STAGES;
        wait_round(empty + s, number / STAGES % 2 ^ 1);
        T *to = shared + s * S::STAGE;
        if (thread == 0) {
          expect_bytes(full + s, BN * BK * 2);
          copy_to_blocks<BLOCKS>(to + (BM + rank * PART) * BK, panel + (int64_t)step * columns * BK, PART * BK * 2, full + s);
        }
        copy_a.copy(to, step * BK);
        if constexpr (A::whole) {
          arrive_when_copied(full + s);
        } else {
          arrive(full + s);
        }
      }
    }
  } else {
    if constexpr (S::LOADERS == 128) registers_more<S::MANY>();
    auto released = [&](int which) {
      if (lane < BLOCKS) arrive_in_block(empty + which % STAGES, lane);
    };
    for (int work = begin; work < rows * tiles_n; work += clusters) {
      const ClusterPlace place(work, rows, tiles_n);
      float sums[BN / 2];
#pragma unroll
      for (int i = 0; i < BN / 2; ++i) sums[i] = 0.0f;
      for (int step = 0; step < steps; ++step, ++number) {
        wait_round(full + number % STAGES, number / STAGES % 2);
        shared_is_written();  // A's copies came through another path than the one that products read by
        const T *at = shared + number % STAGES * S::STAGE + group * 64 * BK, *bt = shared + number % STAGES * S::STAGE + BM * BK;
        begin_products();
#pragma unroll
        for (int k = 0; k < BK; k += 16) wgmma<T, BN>(sums, at, bt, k);
        end_products();
        products_left<1>();
        if (step) released(number - 1);
      }
      products_left<0>();
      if (steps) released(number - 1);
      hand_over_sums<BN, V>(sums, M, N, (place.m * BLOCKS + rank) * BM + group * 64, place.n * BN, out);
    }
  }
  cluster_meets();
#endif
}

}  // namespace gh
