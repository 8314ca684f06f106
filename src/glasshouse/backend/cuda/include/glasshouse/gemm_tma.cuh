// gemm_tma.cuh: matrix products on Hopper whose operands are fetched by the copy engine (sm_90a).
//
// Contract
// - C[M x N] = A[M x K] B, as `gemm.cuh` has it: A a loader of `tensor_map.cuh`, B a map over [N, K] with boxes of BN rows.
// - Fetched<BM, BN, STAGES, BESIDE>: one warp fetches, a warpgroup for each 64 rows computes and hands over; BESIDE blocks fit on a
//   multiprocessor, so that one computes while another hands over.
// - gridDim.x: blocks go on with the next tile until there is none. Or gridDim.y, SPLITS of them: the blocks of a cluster share the
//   depth of one tile, and add their sums (`join.cuh`).
// - EARLY: B is constant, so its first boxes are asked for before earlier kernels have ended, and as many again brought nearer: all of them
//   at once were in the way of A's, 36.8 us for 32.0 at 512 x 2048 x 8192.
//
// Barriers of a stage: `full` ends a round when both boxes are there, `empty` when all computing warps have read them. What a thread computes
// between products (which stage, which warpgroup) is in their way: addresses that the compiler does not know to be alike in a warp take 13 to 20 %.
// Boxes that two blocks of a cluster fetch for both (multicast) bring nothing: 419 ns a step for 382 at 128 x 128, 726 for 695 at 128 x 256.
#pragma once
#include "gemm.cuh"
#include "join.cuh"
#include "row_parts.cuh"
#include "tensor_map.cuh"

namespace gh {

template <int BM_, int BN_, int STAGES_, int BESIDE_> struct Fetched {
  static constexpr int BM = BM_, BN = BN_, BK = 64, STAGES = STAGES_, BESIDE = BESIDE_;
  static constexpr bool MOVES = BM == 128 && BN == 256;  // registers, from a whole warpgroup that fetches to those that compute
  static constexpr int GROUPS = BM / 64, THREADS = GROUPS * 128 + (MOVES ? 128 : 32), AHEAD = BESIDE == 1 && BN <= 128 ? BN / 32 : BN <= 192 ? 2 : 1;
  static constexpr int STAGE = (BM + BN) * BK;  // elements
  static constexpr int BEHIND = STAGES * (STAGE * 2 + 16), MOST = BESIDE == 1 ? 232448 : 115712;  // bytes: of stages and barriers; of a block
};

// 8-bit floats: the chip keeps about 14 bits of their sums, so those of each step, 128 of them, are added to float ones.
template <class T> struct InParts { static constexpr bool value = false; };
template <class A, class B> struct InParts<f8x2<A, B>> { static constexpr bool value = true; };
// Columns come in turns where registers do not hold all sums twice.
template <class T, int N> GH_FN void add_part(float (&sums)[N / 2], const T *a, const T *b) {
  constexpr int C = N <= 128 ? N : N % 128 ? 64 : 128;
#pragma unroll
  for (int c = 0; c < N; c += C) {
    float part[C / 2];
    begin_products();
    wgmma<T, C, true>(part, a, b + c * 64, 0);
#pragma unroll
    for (int k = 16; k < 64; k += 16) wgmma<T, C>(part, a, b + c * 64, k);
    end_products();
    products_left<0>();
    settled(part);
#pragma unroll
    for (int i = 0; i < C / 2; ++i) sums[c / 2 + i] += part[i];
  }
}

// The stages one after the other: which one is next, and the parity of the round in which it is filled.
template <int STAGES> struct Ring {
  int stage = 0, parity = 0;
  GH_FN int before() const { return stage ? stage - 1 : STAGES - 1; }
  GH_FN void next() {
    if (++stage == STAGES) stage = 0, parity ^= 1;
  }
  GH_FN void skip(int steps) {
    stage += steps, parity ^= stage / STAGES % 2, stage %= STAGES;
  }
};

template <class S, int V, bool WHOLE, bool EARLY, int SPLITS, class A, class B, class Out>
GH_FN void gemm_tma(const Context &ctx, int M, int N, int K, const A &a, const B &b, const Out &out) {
#if defined(GH_EMULATE) || __CUDA_ARCH_FEAT_SM90_ALL
  typedef typename A::T T;
  constexpr int BM = S::BM, BN = S::BN, BK = S::BK, STAGES = S::STAGES, CN = BN / B::each;  // columns of results
  static_assert(B::each == 1 || SPLITS == 1, "sums that are joined are results");
  typedef Join<S, V, B::eights, WHOLE, SPLITS, Out> Joined;
  constexpr bool LOADS_FIRST = S::AHEAD * 32 >= CN;  // all that follows needs fits registers beside the sums: it comes while products are computed
  GH_SHARED_ROOM(room);
  T *shared = (T *)room;
  Barrier *full = (Barrier *)(room + STAGES * S::STAGE * 2), *empty = full + STAGES;
  const int group = same_in_warp(threadIdx.x / 128), lane = threadIdx.x % 32;
  const int steps_all = (K + BK - 1) / BK, each = (steps_all + SPLITS - 1) / SPLITS, first = blockIdx.y * each;
  const int steps = first + each < steps_all ? each : steps_all > first ? steps_all - first : 0;
  const int tiles_m = (M + BM - 1) / BM, tiles_n = (N + CN - 1) / CN;
  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; ++s) barrier_begins(full + s, 1), barrier_begins(empty + s, S::GROUPS * 4);
    if constexpr (SPLITS > 1) Joined::begins(room);
  }
  __syncthreads();
  if constexpr (SPLITS > 1) cluster_arrives();
  Ring<STAGES> ring;  // over all tiles
  const int ahead = !EARLY || (int)blockIdx.x >= tiles_m * tiles_n ? 0 : steps < STAGES ? steps : STAGES;
  if (threadIdx.x == S::GROUPS * 128) {
    const TilePlace place(blockIdx.x, tiles_m, tiles_n);
    for (int s = 0; s < ahead; ++s) {
      expect_bytes(full + s, S::STAGE * 2);
      b.fetch(shared + s * S::STAGE + BM * BK, place.n * CN, (first + s) * BK, full + s);
    }
    for (int s = ahead + place.m; EARLY && s < steps && s < 2 * STAGES; s += tiles_m) b.prefetch(place.n * CN, (first + s) * BK);
    a.prefetch();
  }
  wait_for_earlier(ctx);
  if (group == S::GROUPS) {
    if constexpr (S::MOVES) give_registers<40>();
    if (threadIdx.x == S::GROUPS * 128)
      for (int work = blockIdx.x; work < tiles_m * tiles_n; work += gridDim.x) {
        const TilePlace place(work, tiles_m, tiles_n);
        for (int step = 0; step < steps; ++step, ring.next()) {
          const int s = ring.stage, k = (first + step) * BK;
          const bool asked = step < ahead && work == (int)blockIdx.x;
          wait_round(empty + s, ring.parity ^ 1);
          T *to = shared + s * S::STAGE;
          if (!asked) expect_bytes(full + s, S::STAGE * 2);
          a.fetch(to, place.m * BM, k, full + s);
          if (!asked) b.fetch(to + BM * BK, place.n * CN, k, full + s);
        }
      }
    __syncwarp();
    if constexpr (SPLITS > 1) cluster_waits();
  } else {
    if constexpr (S::MOVES) take_registers<232>();
    for (int work = blockIdx.x; work < tiles_m * tiles_n; work += gridDim.x) {
      const TilePlace place(work, tiles_m, tiles_n);
      HandOver<CN, V, B::eights, WHOLE, S::AHEAD, Out> over(M, N, out, room + S::BEHIND);
      Joined join(M, N, place.m * BM, place.n * CN, room, out);
      if constexpr (SPLITS > 1) join.ask_rows(), join.load();
      else over.ask_rows(place.m * BM + group * 64);
      if constexpr (SPLITS == 1 && LOADS_FIRST) over.begins(place.m * BM + group * 64, place.n * CN);
      float sums[BN / 2];
#pragma unroll
      for (int i = 0; i < BN / 2; ++i) sums[i] = 0.0f;
      // While the first boxes come: behind the first product it would keep products apart, behind the last one everybody waits for it.
      if constexpr (SPLITS > 1) join.rows.know(out);
      else over.rows.know(out);
      for (int step = 0; step < steps; ++step, ring.next()) {
        wait_round(full + ring.stage, ring.parity);
        const T *at = shared + ring.stage * S::STAGE + group * 64 * BK, *bt = shared + ring.stage * S::STAGE + BM * BK;
        if constexpr (InParts<T>::value) {
          add_part<T, BN>(sums, at, bt);
          if (lane == 0) arrive(empty + ring.stage);
        } else {
          begin_products();
#pragma unroll
          for (int k = 0; k < BK; k += 16) wgmma<T, BN>(sums, at, bt, k);
          end_products();
          products_left<1>();
          if (step && lane == 0) arrive(empty + ring.before());
        }
      }
      if constexpr (SPLITS == 1) {
        if constexpr (!LOADS_FIRST) over.begins(place.m * BM + group * 64, place.n * CN);
        products_left<0>();
        settled(sums);
        open_gates(b, sums);
        if (!InParts<T>::value && steps && lane == 0) arrive(empty + ring.before());
        over.ends(sums);
      } else {
        products_left<0>();
        settled(sums);
        join.send(sums);
        join.finish();
      }
    }
  }
#endif
}

}  // namespace gh
