// join.cuh: blocks of a cluster that share the depth of a tile add their sums (sm_90).
//
// Contract
// - SPLITS blocks hold sums of the same BM x BN, a warpgroup for each 64 rows; a unit is W neighbours along n that a thread holds. Each
//   block owns a run of units of all threads: every thread puts its units into the shared memory of their owners (`send`), and once all
//   are there, an owner's thread adds what came for it in the order of blocks and hands it over (`finish`).
// - `room` is BYTES of each block's shared memory. `begins` makes two barriers ready, which stand in front of it, by one thread before
//   `cluster_arrives`: one ends its round when all that others send has come, the other when nobody computes any more, where `room` lies over
//   what is computed from (OVER). `load` asks for what follows needs. Nobody reads another's memory, so a block may end on its own.
#pragma once
#include "cluster.cuh"
#include "sums.cuh"

namespace gh {

template <class S, int V, bool EIGHTS, bool WHOLE, int SPLITS, class Out> struct Join {
  static constexpr int W = V == 8 ? 8 : 4, UNITS = S::BN / 2 / W, OWN = (UNITS + SPLITS - 1) / SPLITS, MEMBERS = S::GROUPS * 128;
  static constexpr int FOURS = S::BN / 16 >= SPLITS ? (S::BN / 16 + SPLITS - 1) / SPLITS * 2 : (S::BN / 8 + SPLITS - 1) / SPLITS;
  static constexpr int BYTES = SPLITS * FOURS * 16 * MEMBERS;  // as `tiles.py` has it, for any W
  static constexpr bool OVER = S::BEHIND + 16 + BYTES > S::MOST;
  static_assert(UNITS >= SPLITS, "a block owns at least a unit");
  typedef decltype(loads_of(*(const Out *)nullptr, 0, 0)) Loads;
  int M, N, row, column, rank;
  float *room;
  Barrier *sent, *free;
  const Out &out;
  Loads coming[OWN][W / V];
  KnownRows<Out, OWN == 1 ? 1 : 2> rows;

  GH_FN Join(int M_, int N_, int m0, int n0, char *shared, const Out &out_)
      : M(M_), N(N_), rank(blockIdx.y), room((float *)(OVER ? shared : shared + S::BEHIND + 16)), sent((Barrier *)(shared + S::BEHIND)),
        free(sent + 1), out(out_) {
    row = m0 + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = n0 + threadIdx.x % 4 * 8;
  }
  __device__ static constexpr int first(int owner) { return (owner * UNITS + SPLITS - 1) / SPLITS; }
  GH_FN static void begins(char *shared) {
    Barrier *b = (Barrier *)(shared + S::BEHIND);
    const int own = blockIdx.y, units = first(own + 1) - first(own);
    barrier_begins(b, 1), barrier_begins(b + 1, SPLITS * S::GROUPS * 4);
    expect_bytes(b, (SPLITS - 1) * units * W * 4 * MEMBERS);
  }
  GH_FN int row_of(int unit) const { return row + unit * W / 8 % 2 * 8; }
  GH_FN int column_of(int unit) const { return column + unit * W / 16 * 32 + unit * W % 8; }
  GH_FN float *slot(int from, int unit) const { return room + ((from * OWN + unit) * (W / 4) * MEMBERS + threadIdx.x) * 4; }

  GH_FN void ask_rows() {
    if constexpr (OWN == 1) {
      const int m = row_of(first(rank)), one[1] = {m < M ? m : M - 1};
      rows.ask(out, one);
    } else {
      const int both[2] = {row < M ? row : M - 1, row + 8 < M ? row + 8 : M - 1};
      rows.ask(out, both);
    }
  }
  GH_FN void load() {
#pragma unroll
    for (int k = 0; k < OWN; ++k)
#pragma unroll
      for (int e = 0; e < W; e += V) {
        const int m = row_of(first(rank) + k), n = column_of(first(rank) + k) + e;
        coming[k][e / V] = loads_of(out, m < M ? m : M - 1, n < N ? n : N - V);
      }
  }
  // After the last product of this thread.
  GH_FN void send(const float (&sums)[S::BN / 2]) const {
    cluster_waits();
    if constexpr (OVER) {
      if (threadIdx.x % 32 < SPLITS) arrive_in_block(free, threadIdx.x % 32);
      wait_round(free, 0);
    }
#pragma unroll
    for (int pair = 0; pair < S::BN / 16; ++pair) {
      float eight[8];
      eight_of<EIGHTS>(eight, sums, pair / 2, pair % 2);
#pragma unroll
      for (int part = 0; part < 8 / W; ++part) {
        const int unit = pair * (8 / W) + part, owner = unit * SPLITS / UNITS;
        float *to = slot(rank, unit - first(owner));
#pragma unroll
        for (int i = 0; i < W; i += 4) {
          const float *x = eight + part * W + i;
          const Vec<float, 4> four = {{x[0], x[1], x[2], x[3]}};
          if (owner == rank) store_vec(to + i * MEMBERS, four);
          else send_to_block(to + i * MEMBERS, four, sent, owner);
        }
      }
    }
    wait_round(sent, 0);
  }
  GH_FN void finish() const {
    Vec<float, 4> came[OWN][W / 4];
#pragma unroll
    for (int from = 0; from < SPLITS; ++from)
#pragma unroll
      for (int k = 0; k < OWN; ++k)
#pragma unroll
        for (int i = 0; i < W / 4; ++i) {
          const Vec<float, 4> x = load_vec<4>(slot(from, k) + i * 4 * MEMBERS);
#pragma unroll
          for (int e = 0; e < 4; ++e) came[k][i][e] = from ? came[k][i][e] + x[e] : x[e];
        }
#pragma unroll
    for (int k = 0; k < OWN; ++k) {
      const int unit = first(rank) + k, m = row_of(unit);
      if (UNITS % SPLITS && unit >= first(rank + 1)) break;
#pragma unroll
      for (int e = 0; e < W; e += V) {
        const int n = column_of(unit) + e;
        if (!WHOLE && (m >= M || n >= N)) continue;
        Vec<float, V> result;
#pragma unroll
        for (int i = 0; i < V; ++i) result[i] = came[k][(e + i) / 4][(e + i) % 4];
        hand_row_to(out, m, n, result, coming[k][e / V], rows, OWN == 1 ? 0 : unit * W / 8 % 2);
      }
    }
  }
};

}  // namespace gh
