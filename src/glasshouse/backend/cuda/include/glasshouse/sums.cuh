// sums.cuh: how the sums of a warpgroup's products go from its registers to what follows.
//
// Contract
// - Of 64 x BN sums a thread holds two rows, and of each 32 columns eight. Where EIGHTS, columns came as `fetch_eights` brings them
//   (`tensor_map.cuh`), so these are neighbours; otherwise lanes exchange them first. Results that go one by one (V is 1: rows that are not
//   aligned) go through shared memory, so that a warp stores 32 neighbours at once: stored by fours of them, 4096 x 50257 x 768 took 1230 us,
//   one by one 1600.
// - `HandOver<BN, V, EIGHTS, WHOLE, AHEAD, Out> over(M, N, out, room)`, `room` 2 KB of shared memory of each warp where V is 1 (`HandOver::ROOM`);
//   `over.begins(m0, n0)` loads what the first AHEAD groups of 32 columns need, while
//   products may be under way; `over.ends(sums)` hands all over, with loads AHEAD of what is computed. WHOLE: no tile reaches past M or N;
//   otherwise those that do load what lies at the border, since a branch would keep loads, and what is made of them, apart. `over.ask_rows(m0)` and
//   `over.rows.know(out)` come before, where something of rows is asked for (`after_rows`).
#pragma once
#include "after.cuh"
#include "reduce.cuh"

namespace gh {

// Four lanes hold neighbours of each other's: afterwards lane q has all eight columns of block q. `eight[2 j + e]`: column 2 q + e of block j.
GH_FN void gather_neighbours(float (&eight)[8]) {
  const bool odd = threadIdx.x & 1, high = threadIdx.x & 2;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (i & 2) continue;
    const float got = shuffle_xor(odd ? eight[i] : eight[i + 2], 1);
    eight[i] = odd ? got : eight[i], eight[i + 2] = odd ? eight[i + 2] : got;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float got = shuffle_xor(high ? eight[i] : eight[i + 4], 2);
    eight[i] = high ? got : eight[i], eight[i + 4] = high ? eight[i + 4] : got;
  }
}

// Eight sums of row `r` (of two) in group `g` of 32 columns.
template <bool EIGHTS, int S> GH_FN void eight_of(float (&eight)[8], const float (&sums)[S], int g, int r) {
#pragma unroll
  for (int i = 0; i < 8; ++i) eight[i] = sums[16 * g + i / 2 * 4 + r * 2 + i % 2];
  if constexpr (!EIGHTS) gather_neighbours(eight);
}

// Where the first half of a box's columns are gates of the second half (`MappedGate`), the first sums become those of both.
template <class B, int S> GH_FN void open_gates(const B &b, float (&sums)[S]) {
  if constexpr (B::each == 2) {
#pragma unroll
    for (int i = 0; i < S / 2; ++i) sums[i] = b.one(sums[i], sums[S / 2 + i]);
  }
}

template <int BN, int V, bool EIGHTS, bool WHOLE, int AHEAD, class Out> struct HandOver {
  static constexpr int GROUPS = BN / 32;
  static constexpr bool APART = V == 1 && !EIGHTS;
  static constexpr int ROOM = 16 * 32 * 4;
  typedef decltype(loads_of(*(const Out *)nullptr, 0, 0)) Loads;
  int M, N, row, column;
  const Out &out;
  float *room;
  Loads coming[AHEAD][2][8 / V];
  KnownRows<Out, 2> rows;

  GH_FN HandOver(int M_, int N_, const Out &out_, void *rooms) : M(M_), N(N_), out(out_), room((float *)rooms + threadIdx.x / 32 * (ROOM / 4)) {}
  GH_FN bool inside(int m, int n) const { return WHOLE || (m < M && n < N); }
  GH_FN void load(int g) {
#pragma unroll
    for (int r = 0; r < 2; ++r)
#pragma unroll
      for (int e = 0; e < 8; e += V) {
        const int m = row + r * 8, n = column + g * 32 + e;
        coming[g % AHEAD][r][e / V] = loads_of(out, WHOLE || m < M ? m : M - 1, WHOLE || n < N ? n : N - V);
      }
  }
  GH_FN void begins(int m0, int n0) {
    row = m0 + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4, column = n0 + threadIdx.x % 4 * 8;
    if constexpr (!APART) {
#pragma unroll
      for (int g = 0; g < AHEAD && g < GROUPS; ++g) load(g);
    }
  }
  GH_FN void ask_rows(int m0) {
    const int first = m0 + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4, both[2] = {first < M ? first : M - 1, first + 8 < M ? first + 8 : M - 1};
    rows.ask(out, both);
  }
  // Rows of 32 floats; eight columns of four rows lie in different banks.
  template <int S> GH_FN void one_by_one(const float (&sums)[S]) {
    const int lane = threadIdx.x % 32, first = row - lane / 4, begin = column - lane % 4 * 8;
#pragma unroll
    for (int g = 0; g < GROUPS; ++g) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        float *to = room + (lane / 4 + i % 2 * 8) * 32 + (i / 2 ^ lane / 4 % 4) * 8 + lane % 4 * 2;
        store_vec(to, Vec<float, 2>{{sums[16 * g + i / 2 * 4 + i % 2 * 2], sums[16 * g + i / 2 * 4 + i % 2 * 2 + 1]}});
      }
      __syncwarp();
      for (int r = 0; r < 16; ++r) {
        const int m = first + r, n = begin + g * 32 + lane;
        if (inside(m, n)) out(m, n, Vec<float, 1>{{room[r * 32 + (lane ^ r % 4 * 8)]}});
      }
      __syncwarp();
    }
  }
  template <int S> GH_FN void ends(const float (&sums)[S]) {
    if constexpr (APART) one_by_one(sums);
    else all_together(sums);
  }
  template <int S> GH_FN void all_together(const float (&sums)[S]) {
#pragma unroll
    for (int g = 0; g < GROUPS; ++g) {
      Loads now[2][8 / V];
#pragma unroll
      for (int r = 0; r < 2; ++r)
#pragma unroll
        for (int e = 0; e < 8 / V; ++e) now[r][e] = coming[g % AHEAD][r][e];
      if (g + AHEAD < GROUPS) load(g + AHEAD);
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float eight[8];
        eight_of<EIGHTS>(eight, sums, g, r);
#pragma unroll
        for (int e = 0; e < 8; e += V) {
          const int m = row + r * 8, n = column + g * 32 + e;
          if (!inside(m, n)) continue;
          Vec<float, V> result;
#pragma unroll
          for (int i = 0; i < V; ++i) result[i] = eight[e + i];
          hand_row_to(out, m, n, result, now[r][e / V], rows, r);
        }
      }
    }
  }
};

}  // namespace gh
