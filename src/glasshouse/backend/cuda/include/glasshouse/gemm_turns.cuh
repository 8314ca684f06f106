// gemm_turns.cuh: matrix products on Hopper by two warpgroups that take turns: one computes a tile while the other hands over its own.
//
// Contract
// - As `gemm_tma.cuh` has it, without splits. Turns<BM, BN, STAGES>: each of the two warpgroups computes whole tiles of BM x BN, 64 rows at a
//   time; what follows the product (an activation, stores) costs no time while there is another tile to compute.
// - Registers move from the warps that fetch to those that compute: THREADS has a whole warpgroup for the copy engine, of which one
//   thread asks.
//
// Stages go round in the order of tiles. A warpgroup begins a tile when the other has waited for its last stage (`turn`): a barrier tells the
// round that ends from the one before, not from one two rounds ago.
#pragma once
#include "gemm_tma.cuh"

namespace gh {

template <int BM_, int BN_, int STAGES_> struct Turns {
  static constexpr int BM = BM_, BN = BN_, BK = 64, STAGES = STAGES_, THREADS = 3 * 128, AHEAD = BN <= 128 ? 2 : 1;
  static constexpr int STAGE = (BM + BN) * BK;  // elements
  static constexpr int BEHIND = STAGES * (STAGE * 2 + 16) + 16;  // bytes, of stages and barriers
};

template <class S, int V, bool WHOLE, bool EARLY, class A, class B, class Out>
GH_FN void gemm_turns(const Context &ctx, int M, int N, int K, const A &a, const B &b, const Out &out) {
#if defined(GH_EMULATE) || __CUDA_ARCH_FEAT_SM90_ALL
  typedef typename A::T T;
  constexpr int BM = S::BM, BN = S::BN, BK = S::BK, STAGES = S::STAGES, CN = BN / B::each;  // columns of results
  GH_SHARED_ROOM(room);
  T *shared = (T *)room;
  Barrier *full = (Barrier *)(room + STAGES * S::STAGE * 2), *empty = full + STAGES, *turn = empty + STAGES;
  const int group = same_in_warp(threadIdx.x / 128), lane = threadIdx.x % 32;
  const int steps = (K + BK - 1) / BK, tiles_m = (M + BM - 1) / BM, tiles_n = (N + CN - 1) / CN;
  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; ++s) barrier_begins(full + s, 1), barrier_begins(empty + s, 4);
    for (int g = 0; g < 2; ++g) barrier_begins(turn + g, 4);
  }
  __syncthreads();
  const int ahead = !EARLY || (int)blockIdx.x >= tiles_m * tiles_n ? 0 : steps < STAGES ? steps : STAGES;
  if (threadIdx.x == 256) {
    const TilePlace place(blockIdx.x, tiles_m, tiles_n);
    for (int s = 0; s < ahead; ++s) {
      expect_bytes(full + s, S::STAGE * 2);
      b.fetch(shared + s * S::STAGE + BM * BK, place.n * CN, s * BK, full + s);
    }
    a.prefetch();
  }
  wait_for_earlier(ctx);
  if (group == 2) {
    give_registers<40>();
    if (threadIdx.x == 256) {
      Ring<STAGES> ring;
      for (int work = blockIdx.x; work < tiles_m * tiles_n; work += gridDim.x) {
        const TilePlace place(work, tiles_m, tiles_n);
        for (int step = 0; step < steps; ++step, ring.next()) {
          const int s = ring.stage;
          const bool asked = step < ahead && work == (int)blockIdx.x;
          wait_round(empty + s, ring.parity ^ 1);
          T *to = shared + s * S::STAGE;
          if (!asked) expect_bytes(full + s, S::STAGE * 2);
          a.fetch(to, place.m * BM, step * BK, full + s);
          if (!asked) b.fetch(to + BM * BK, place.n * CN, step * BK, full + s);
        }
      }
    }
  } else {
    take_registers<232>();
    Ring<STAGES> ring;  // of this warpgroup's next step
    if (group) ring.skip(steps);
    int turns = 0;  // its tiles so far
    for (int work = blockIdx.x + group * gridDim.x; work < tiles_m * tiles_n; work += 2 * gridDim.x, ring.skip(steps), ++turns) {
      const TilePlace place(work, tiles_m, tiles_n);
      float sums[BM / 64][BN / 2];
#pragma unroll
      for (int h = 0; h < BM / 64; ++h)
#pragma unroll
        for (int i = 0; i < BN / 2; ++i) sums[h][i] = 0.0f;
      if (steps && turns + group) wait_round(turn + group, turns + group + 1 & 1);
      for (int step = 0; step < steps; ++step, ring.next()) {
        wait_round(full + ring.stage, ring.parity);
        if (step + 1 == steps && lane == 0) arrive(turn + 1 - group);
        const T *at = shared + ring.stage * S::STAGE, *bt = at + BM * BK;
        begin_products();
#pragma unroll
        for (int k = 0; k < BK; k += 16)
#pragma unroll
          for (int h = 0; h < BM / 64; ++h) wgmma<T, BN>(sums[h], at + h * 64 * BK, bt, k);
        end_products();
        products_left<1>();
        if (step && lane == 0) arrive(empty + ring.before());
      }
      products_left<0>();
      if (steps && lane == 0) arrive(empty + ring.before());
#pragma unroll
      for (int h = 0; h < BM / 64; ++h) {
        settled(sums[h]);
        open_gates(b, sums[h]);
        HandOver<CN, V, B::eights, WHOLE, S::AHEAD, Out> over(M, N, out, room + S::BEHIND);
        over.begins(place.m * BM + h * 64, place.n * CN);
        over.ends(sums[h]);
      }
    }
  }
#endif
}

}  // namespace gh
