// attention.cuh: scaled dot-product attention without a matrix of scores in memory (flash attention).
//
// Contract
// - q [batch, heads, length, dim], k [batch, key_heads, keys, dim], v [batch, key_heads, keys, value_dim], read where they lie
//   (`Strided`; the last axis lies together). Heads share keys in runs of heads / key_heads.
// - mask(b, h, i, j, x, unit) changes a scaled score, which is in units of 1 / `unit`; causal: key j is seen by queries i >= j. A query that sees no key gives 0, or NaN
//   where `plain` (softmax's own meaning). out(b, h, i, d, values): V neighbours along d.
// - `attention_mma`: half floats; a block of WARPS warps takes 16 * TILES * WARPS queries and goes over keys 64 at a time, scores and
//   sums in float, weights rounded to the element type. Each warp reads all keys from shared memory, for 16 * TILES queries at once.
//   gridDim: blocks of queries, heads, batch.
// - `attention_rows`: any element type; a block takes one query, eight lanes a key. gridDim: queries, heads, batch.
#pragma once
#include "mma.cuh"
#include "reduce.cuh"

namespace gh {

template <class T> struct Strided {
  const T *p;
  int64_t batch, head, row;
  GH_FN const T *at(int b, int h) const { return p + b * batch + h * head; }
};
struct AttentionShape {
  int heads, key_heads, length, keys, dim, value_dim;
  float scale;
  bool causal, plain;
};
constexpr float LOG2E = 1.4426950408889634f;  // scores times this become powers of two

struct NoMask { GH_FN float operator()(int, int, int, int, float x, float) const { return x; } };

// A number for each key, added to the scores of all queries.
template <class Added> struct KeyMask {
  Added added;  // (b, h, j)
  GH_FN float operator()(int b, int h, int, int j, float x, float unit) const { return x + added(b, h, j) * unit; }
};
template <class Added> GH_FN KeyMask<Added> key_mask(const Added &added) { return {added}; }
template <class Mask> struct is_by_key { static constexpr bool value = false; };
template <class Added> struct is_by_key<const KeyMask<Added> &> { static constexpr bool value = true; };

__device__ constexpr int power_of_two_from(int n) { return n <= 1 ? 1 : n <= 2 ? 2 : n <= 4 ? 4 : n <= 8 ? 8 : n <= 16 ? 16 : 32; }

template <int D_, int DV_, int WARPS_, int TILES_> struct AttentionTile {
  static constexpr int D = D_, DV = DV_, WARPS = WARPS_, TILES = TILES_, THREADS = WARPS * 32, QUERIES = WARPS * TILES * 16, KEYS = 64;
  static constexpr int PITCH = power_of_two_from(D / 8), PITCH_V = power_of_two_from(DV / 8);  // chunks of a row in shared memory
  static constexpr int STAGE = KEYS * (PITCH + PITCH_V) * 8;
  static constexpr int ROW = DV + 4;
  static constexpr int LOADED = (QUERIES * PITCH * 8 + 2 * STAGE) * 2, SUMS = QUERIES * ROW * 4;
  static constexpr int SHARED = LOADED > SUMS ? LOADED : SUMS;
};

// ROWS rows of `dim` elements from `first` on; zeros for rows behind `rows` and elements behind `dim`.
template <int ROWS, int D, int PITCH, int THREADS, bool WHOLE, class T>
GH_FN void load_rows(T *to, const T *from, int64_t step, int first, int rows, int dim) {
  for (int q = threadIdx.x; q < ROWS * (D / 8); q += THREADS) {
    const int row = q / (D / 8), c = q % (D / 8);
    T *place = to + swizzled<PITCH>(row, c);
    const bool inside = first + row < rows && c * 8 < dim;
    const T *source = from + (first + row) * step + c * 8;
    if constexpr (WHOLE) {
      copy16(place, inside ? source : from, inside);
    } else {
      Vec<T, 8> v;
#pragma unroll
      for (int e = 0; e < 8; ++e) v[e] = inside && c * 8 + e < dim ? source[e] : from_scalar<T>(0.0f);
      store_vec(place, v);
    }
  }
}

// 2^x for a weight that becomes a half float: what is below 2^-126 is 0.
#ifdef GH_EMULATE
GH_FN float power_of_two(float x) { return ::exp2f(x); }
#else
GH_FN float power_of_two(float x) { float r; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
#endif
template <bool V> struct Always { static constexpr bool value = V; };

template <class S, bool WHOLE, int V, class T, class Mask, class Out>
GH_FN void attention_mma(const AttentionShape &s, Strided<T> q, Strided<T> k, Strided<T> v, Mask &&mask, Out &&out) {
  constexpr int D = S::D, DV = S::DV, THREADS = S::THREADS, KEYS = S::KEYS;
  GH_SHARED_ROOM(room);
  T *queries = (T *)room, *staged = queries + S::QUERIES * S::PITCH * 8;
  const int b = blockIdx.z, h = blockIdx.y, i0 = blockIdx.x * S::QUERIES, kh = h / (s.heads / s.key_heads);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, quad = lane >> 3;
  const T *keys = k.at(b, kh), *values = v.at(b, kh);
  const int seen = s.causal && i0 + S::QUERIES < s.keys ? i0 + S::QUERIES : s.keys;
  const int steps = (seen + KEYS - 1) / KEYS;
  auto load = [&](int step) {
    T *to = staged + step % 2 * S::STAGE;
    load_rows<KEYS, D, S::PITCH, THREADS, WHOLE>(to, keys, k.row, step * KEYS, s.keys, s.dim);
    load_rows<KEYS, DV, S::PITCH_V, THREADS, WHOLE>(to + KEYS * S::PITCH * 8, values, v.row, step * KEYS, s.keys, s.value_dim);
  };
  load_rows<S::QUERIES, D, S::PITCH, THREADS, WHOLE>(queries, q.at(b, h), q.row, i0, s.length, s.dim);
  if (steps) load(0);
  end_copies();
  copies_left<0>();
  __syncthreads();
  constexpr int TILES = S::TILES;
  uint32_t fq[TILES][D / 16][4];
#pragma unroll
  for (int t = 0; t < TILES; ++t)
#pragma unroll
    for (int d = 0; d < D / 16; ++d)
      ldmatrix(fq[t][d], queries + swizzled<S::PITCH>((warp * TILES + t) * 16 + (lane & 15), d * 2 + (lane >> 4)));
  const float low = -__builtin_inff(), scale = s.scale * LOG2E;
  float sums[TILES][DV / 8][4] = {}, top[TILES][2], total[TILES][2] = {};
#pragma unroll
  for (int t = 0; t < TILES; ++t) top[t][0] = top[t][1] = low;
  const int row = i0 + warp * TILES * 16 + lane / 4;  // the first of this thread's queries
  for (int step = 0; step < steps; ++step) {
    copies_left<0>();
    __syncthreads();
    if (step + 1 < steps) load(step + 1);
    end_copies();
    const T *kt = staged + step % 2 * S::STAGE, *vt = kt + KEYS * S::PITCH * 8;
    float x[TILES][KEYS / 8][4] = {};
#pragma unroll
    for (int d = 0; d < D / 16; ++d)
#pragma unroll
      for (int j = 0; j < KEYS / 16; ++j) {
        uint32_t f[4];
        ldmatrix(f, kt + swizzled<S::PITCH>(j * 16 + (lane & 7) + (quad >> 1) * 8, d * 2 + (quad & 1)));
#pragma unroll
        for (int t = 0; t < TILES; ++t) {
          mma<T>(x[t][2 * j], fq[t][d], f[0], f[1]);
          mma<T>(x[t][2 * j + 1], fq[t][d], f[2], f[3]);
        }
      }
    auto scored = [&](auto inside) {
#pragma unroll
      for (int t = 0; t < TILES; ++t)
#pragma unroll
        for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int key = step * KEYS + j * 8 + lane % 4 * 2 + e % 2, i = row + t * 16 + e / 2 * 8;
            const bool kept = inside.value || (key < s.keys && i < s.length && !(s.causal && key > i));
            x[t][j][e] = kept ? mask(b, h, i, key, x[t][j][e] * scale, LOG2E) : low;
          }
    };
    const int last = (step + 1) * KEYS - 1;
    if (last < s.keys && i0 + S::QUERIES <= s.length && !(s.causal && last > i0)) scored(Always<true>());
    else scored(Always<false>());
#pragma unroll
    for (int t = 0; t < TILES; ++t)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float high = top[t][r];
#pragma unroll
        for (int j = 0; j < KEYS / 8; ++j) high = fmaxf(high, fmaxf(x[t][j][2 * r], x[t][j][2 * r + 1]));
        high = fmaxf(high, shuffle_xor(high, 1));
        high = fmaxf(high, shuffle_xor(high, 2));
        const float base = high == low ? 0.0f : high, scaled = power_of_two(top[t][r] - base);
        top[t][r] = high;
        total[t][r] *= scaled;
#pragma unroll
        for (int d = 0; d < DV / 8; ++d) sums[t][d][2 * r] *= scaled, sums[t][d][2 * r + 1] *= scaled;
#pragma unroll
        for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
          for (int e = 2 * r; e < 2 * r + 2; ++e) {
            x[t][j][e] = power_of_two(x[t][j][e] - base);
            total[t][r] += x[t][j][e];
          }
      }
#pragma unroll
    for (int j = 0; j < KEYS / 16; ++j) {
      uint32_t p[TILES][4];
#pragma unroll
      for (int t = 0; t < TILES; ++t)
#pragma unroll
        for (int u = 0; u < 4; ++u) p[t][u] = packed<T>(x[t][2 * j + u / 2][u % 2 * 2], x[t][2 * j + u / 2][u % 2 * 2 + 1]);
#pragma unroll
      for (int d = 0; d < DV / 16; ++d) {
        uint32_t f[4];
        ldmatrix_trans(f, vt + swizzled<S::PITCH_V>(j * 16 + (lane & 7) + (quad & 1) * 8, d * 2 + (quad >> 1)));
#pragma unroll
        for (int t = 0; t < TILES; ++t) {
          mma<T>(sums[t][2 * d], p[t], f[0], f[1]);
          mma<T>(sums[t][2 * d + 1], p[t], f[2], f[3]);
        }
      }
    }
  }
  __syncthreads();
  float *results = (float *)room;
#pragma unroll
  for (int t = 0; t < TILES; ++t)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      total[t][r] += shuffle_xor(total[t][r], 1);
      total[t][r] += shuffle_xor(total[t][r], 2);
      const float share = top[t][r] == low && !s.plain ? 0.0f : 1.0f / total[t][r];
      float *to = results + ((warp * TILES + t) * 16 + lane / 4 + r * 8) * S::ROW + lane % 4 * 2;
#pragma unroll
      for (int d = 0; d < DV / 8; ++d)
        *(Vec<float, 2> *)(to + d * 8) = Vec<float, 2>{{sums[t][d][2 * r] * share, sums[t][d][2 * r + 1] * share}};
    }
  __syncthreads();
  for (int e = threadIdx.x * V; e < S::QUERIES * DV; e += THREADS * V) {
    const int i = i0 + e / DV, d = e % DV;
    if (i >= s.length || d >= s.value_dim) continue;
    Vec<float, V> result;
#pragma unroll
    for (int n = 0; n < V; ++n) result[n] = results[e / DV * S::ROW + d + n];
    out(b, h, i, d, result);
  }
}

// The dims of one lane; WHOLE: they are 16 bytes.
template <int PER, bool WHOLE, class T> GH_FN void load_dims(Wide<T> (&to)[PER], const T *from, int lane, int dim) {
  if constexpr (WHOLE) {
    const Vec<T, PER> all = load_vec<PER>(from + lane * PER);
#pragma unroll
    for (int e = 0; e < PER; ++e) to[e] = to_scalar(all[e]);
  } else {
#pragma unroll
    for (int e = 0; e < PER; ++e) to[e] = lane * PER + e < dim ? Wide<T>(to_scalar(from[lane * PER + e])) : Wide<T>(0);
  }
}

// PER: dims of one lane, eight lanes a key; WARPS * 4 keys at a time.
template <int PER, int WARPS, bool WHOLE, class T, class Mask, class Out>
GH_FN void attention_rows(const AttentionShape &s, Strided<T> q, Strided<T> k, Strided<T> v, Mask &&mask, Out &&out) {
  typedef Wide<T> W;
  constexpr int GROUPS = WARPS * 4;
  GH_SHARED_ROOM(room);
  W *parts = (W *)room;  // of each group: its sums, the largest score, the sum of weights
  const int b = blockIdx.z, h = blockIdx.y, i = blockIdx.x, kh = h / (s.heads / s.key_heads);
  const int group = threadIdx.x / 8, lane = threadIdx.x % 8;
  const T *query = q.at(b, h) + i * q.row, *keys = k.at(b, kh), *values = v.at(b, kh);
  const W low = -W(__builtin_inff());
  W own[PER], sums[PER] = {}, top = low, total = 0;
  load_dims<PER, WHOLE>(own, query, lane, s.dim);
  const int seen = s.causal && i + 1 < s.keys ? i + 1 : s.keys;
  const int rounds = (seen + GROUPS - 1) / GROUPS;
  for (int round = 0; round < rounds; ++round) {
    const int j = round * GROUPS + group, key = j < seen ? j : 0;
    W x = 0, other[PER], value[PER];
    load_dims<PER, WHOLE>(other, keys + key * k.row, lane, s.dim);
    load_dims<PER, WHOLE>(value, values + key * v.row, lane, s.value_dim);
#pragma unroll
    for (int e = 0; e < PER; ++e) x += own[e] * other[e];
    x += shuffle_xor(x, 1);
    x += shuffle_xor(x, 2);
    x += shuffle_xor(x, 4);
    if (j >= seen) continue;
    x = W(mask(b, h, i, j, float(x * W(s.scale)), 1.0f));
    const W now = x > top || x != x ? x : top, base = now == low ? W(0) : now;
    const W scaled = exp(top - base), weight = exp(x - base);
    top = now, total = total * scaled + weight;
#pragma unroll
    for (int e = 0; e < PER; ++e) sums[e] = sums[e] * scaled + weight * value[e];
  }
  W *mine = parts + group * (8 * PER + 2);
#pragma unroll
  for (int e = 0; e < PER; ++e) mine[lane * PER + e] = sums[e];
  if (lane == 0) mine[8 * PER] = top, mine[8 * PER + 1] = total;
  __syncthreads();
  for (int d = threadIdx.x; d < s.value_dim; d += WARPS * 32) {
    W most = low, all = 0, sum = 0;
    for (int g = 0; g < GROUPS; ++g) {
      const W x = parts[g * (8 * PER + 2) + 8 * PER];
      most = x > most || x != x ? x : most;
    }
    const W base = most == low ? W(0) : most;
    for (int g = 0; g < GROUPS; ++g) {
      const W *part = parts + g * (8 * PER + 2);
      const W scaled = exp(part[8 * PER] - base);
      all += part[8 * PER + 1] * scaled, sum += part[d] * scaled;
    }
    out(b, h, i, d, Vec<W, 1>{{most == low && !s.plain ? W(0) : sum / all}});
  }
}

}  // namespace gh
