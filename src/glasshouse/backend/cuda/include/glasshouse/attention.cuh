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
// - `attention_rows`: any element type; a block takes one query, eight lanes a key; or a cluster of SPLITS blocks takes it, each a run of
//   its keys (from sm_90 on). gridDim: queries times splits, heads, batch.
#pragma once
#include "cluster.cuh"
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

// What a mask adds, in units of 1 / `unit`. A finite number stays finite: a query whose every key has the lowest one sees all of them alike,
// and only -inf hides a key. (Numbers below 2.36e38 keep their differences.)
GH_FN float in_units(float x, float unit) {
  const float most = 3.4028234663852886e38f, y = x * unit;
  return fabsf(x) <= most ? fminf(fmaxf(y, -most), most) : y;
}

struct NoMask { GH_FN float operator()(int, int, int, int, float x, float) const { return x; } };

// A number for each key, added to the scores of all queries.
template <class Added> struct KeyMask {
  Added added;  // (b, h, j)
  GH_FN float operator()(int b, int h, int, int j, float x, float unit) const { return x + in_units(added(b, h, j), unit); }
};
template <class Added> GH_FN KeyMask<Added> key_mask(const Added &added) { return {added}; }
// A flag for each query and key, false where the score becomes `low`: `one` loads it, `run` those of 16 keys, the first a multiple of 16.
template <class One, class Run> struct FlagMask {
  One one;
  Run run;
  float low;
  GH_FN float operator()(int b, int h, int i, int j, float x, float unit) const { return one(b, h, i, j) ? x : in_units(low, unit); }
};
template <class One, class Run> GH_FN FlagMask<One, Run> flag_mask(const One &one, const Run &run, float low) { return {one, run, low}; }
template <class Mask> struct is_by_flag { static constexpr bool value = false; };
template <class One, class Run> struct is_by_flag<const FlagMask<One, Run> &> { static constexpr bool value = true; };
// 16 flags, a byte each, 0 or 1, as bits: four bytes meet in the highest bits of a product.
GH_FN uint32_t flag_bits(const Vec<uint32_t, 4> &bytes) {
  uint32_t bits = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) bits |= (bytes[i] * 0x10204080u >> 28) << 4 * i;
  return bits;
}
// A number for each query and key: `one` loads it, `two` those of two neighbouring keys, the first of them even; `use` changes a score by it.
template <class One, class Two, class Use> struct PairMask {
  One one;
  Two two;
  Use use;
  GH_FN float operator()(int b, int h, int i, int j, float x, float unit) const { return use(one(b, h, i, j), x, unit); }
};
template <class One, class Two, class Use> GH_FN PairMask<One, Two, Use> pair_mask(const One &one, const Two &two, const Use &use) {
  return {one, two, use};
}
template <class Mask> struct is_by_pair { static constexpr bool value = false; };
template <class One, class Two, class Use> struct is_by_pair<const PairMask<One, Two, Use> &> { static constexpr bool value = true; };
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
      *(decltype(v) *)place = v;
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
  if (steps > 1) load(1);
  end_copies();
  copies_left<1>();
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
    copies_left<1>();
    __syncthreads();
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
    if (step + 2 < steps) {
      __syncthreads();  // all have read what the next load writes over
      load(step + 2);
    }
    end_copies();
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

// Sums over some keys: weights are exp(score - top).
template <class W, int PER> struct Seen {
  W top, total, sums[PER];
};
template <class W> GH_FN W larger(W a, W b) { return b > a || b != b ? b : a; }
template <class W> GH_FN W base_of(W top) { return top == -W(__builtin_inff()) ? W(0) : top; }

// What COUNT sets of keys have together, for dim d: `at(i)` is where set i lies. All are read before any is used.
template <int COUNT, class W, class At> GH_FN Seen<W, 1> joined(int d, At &&at) {
  W tops[COUNT], totals[COUNT], sums[COUNT];
#pragma unroll
  for (int i = 0; i < COUNT; ++i) tops[i] = at(i)->top, totals[i] = at(i)->total, sums[i] = at(i)->sums[d];
  Seen<W, 1> all;
  all.top = tops[0];
#pragma unroll
  for (int i = 1; i < COUNT; ++i) all.top = larger(all.top, tops[i]);
  const W base = base_of(all.top);
  all.total = all.sums[0] = 0;
#pragma unroll
  for (int i = 0; i < COUNT; ++i) {
    const W scaled = exp(tops[i] - base);
    all.total += totals[i] * scaled, all.sums[0] += sums[i] * scaled;
  }
  return all;
}

// What the mask has for a key, loaded ahead of the score where it is a flag; and the score with it.
template <class Mask> GH_FN Loaded<> mask_ahead(const Mask &, int, int, int, int) { return {}; }
template <class One, class Run> GH_FN bool mask_ahead(const FlagMask<One, Run> &mask, int b, int h, int i, int j) {
  return mask.one(b, h, i, j) != 0;
}
template <class Mask> GH_FN float with_mask(const Mask &mask, const Loaded<> &, int b, int h, int i, int j, float x) {
  return mask(b, h, i, j, x, 1.0f);
}
template <class One, class Run> GH_FN float with_mask(const FlagMask<One, Run> &mask, bool seen, int, int, int, int, float x) {
  return seen ? x : mask.low;
}

// PER: dims of one lane, eight lanes a key; WARPS * 4 * KEYS keys at a time, for HEADS queries that share them. SPLITS blocks of a cluster
// share the keys of a query.
template <int PER, int WARPS, int KEYS, int SPLITS, int HEADS, bool WHOLE, class T, class Mask, class Out>
GH_FN void attention_rows(const AttentionShape &s, Strided<T> q, Strided<T> k, Strided<T> v, Mask &&mask, Out &&out) {
  typedef Wide<T> W;
  typedef Seen<W, 8 * PER> Part;
  constexpr int GROUPS = WARPS * 4;
  GH_SHARED_ROOM(room);
  Part *parts = (Part *)room;  // of each head: those of all blocks, which the first one gets; then each warp's
  Barrier *sent = (Barrier *)(parts + (SPLITS + WARPS) * HEADS);
  if constexpr (SPLITS > 1) {
    if (threadIdx.x == 0) {
      barrier_begins(sent, 1);
      if (blockIdx.x % SPLITS == 0) expect_bytes(sent, SPLITS * HEADS * (s.value_dim + 2) * 4);
    }
    cluster_arrives();
  }
  const int b = blockIdx.z, h0 = blockIdx.y * HEADS, i = blockIdx.x / SPLITS, rank = blockIdx.x % SPLITS, kh = h0 / (s.heads / s.key_heads);
  const int group = threadIdx.x / 8, lane = threadIdx.x % 8;
  const T *keys = k.at(b, kh), *values = v.at(b, kh);
  const int seen = s.causal && i + 1 < s.keys ? i + 1 : s.keys;
  const int each = (seen + SPLITS - 1) / SPLITS, first = rank * each, last = first + each < seen ? first + each : seen;
  const W low = -W(__builtin_inff());
  W own[HEADS][PER], sums[HEADS][PER] = {}, top[HEADS], total[HEADS] = {};
#pragma unroll
  for (int h = 0; h < HEADS; ++h) {
    load_dims<PER, WHOLE>(own[h], q.at(b, h0 + h) + i * q.row, lane, s.dim);
    top[h] = low;
  }
  for (int j0 = first; j0 < last; j0 += GROUPS * KEYS) {
    W other[KEYS][PER], value[KEYS][PER], x[KEYS][HEADS];
    decltype(mask_ahead(mask, 0, 0, 0, 0)) flags[KEYS][HEADS];
#pragma unroll
    for (int u = 0; u < KEYS; ++u) {
      const int j = j0 + u * GROUPS + group, key = j < last ? j : first;
      load_dims<PER, WHOLE>(other[u], keys + key * k.row, lane, s.dim);
      load_dims<PER, WHOLE>(value[u], values + key * v.row, lane, s.value_dim);
#pragma unroll
      for (int h = 0; h < HEADS; ++h) flags[u][h] = mask_ahead(mask, b, h0 + h, i, key);
    }
#pragma unroll
    for (int u = 0; u < KEYS; ++u)
#pragma unroll
      for (int h = 0; h < HEADS; ++h) {
        x[u][h] = 0;
#pragma unroll
        for (int e = 0; e < PER; ++e) x[u][h] += own[h][e] * other[u][e];
      }
#pragma unroll
    for (int step = 1; step < 8; step *= 2)
#pragma unroll
      for (int u = 0; u < KEYS; ++u)
#pragma unroll
        for (int h = 0; h < HEADS; ++h) x[u][h] += shuffle_xor(x[u][h], step);
#pragma unroll
    for (int h = 0; h < HEADS; ++h) {
      W now = top[h];
#pragma unroll
      for (int u = 0; u < KEYS; ++u) {
        const int j = j0 + u * GROUPS + group;
        x[u][h] = j < last ? W(with_mask(mask, flags[u][h], b, h0 + h, i, j, float(x[u][h] * W(s.scale)))) : low;
        now = larger(now, x[u][h]);
      }
      const W base = base_of(now), scaled = exp(top[h] - base);
      top[h] = now, total[h] *= scaled;
#pragma unroll
      for (int e = 0; e < PER; ++e) sums[h][e] *= scaled;
#pragma unroll
      for (int u = 0; u < KEYS; ++u) {
        if (j0 + u * GROUPS + group >= last) continue;  // its value is another key's
        const W weight = exp(x[u][h] - base);
        total[h] += weight;
#pragma unroll
        for (int e = 0; e < PER; ++e) sums[h][e] += weight * value[u][e];
      }
    }
  }
  // The four groups of a warp, the warps of a block, in order, then blocks of a cluster.
#pragma unroll
  for (int h = 0; h < HEADS; ++h) {
    W most = larger(top[h], shuffle_xor(top[h], 8));
    most = larger(most, shuffle_xor(most, 16));
    const W scaled = exp(top[h] - base_of(most));
    total[h] *= scaled;
    total[h] += shuffle_xor(total[h], 8);
    total[h] += shuffle_xor(total[h], 16);
    Part *mine = parts + SPLITS * HEADS + threadIdx.x / 32 * HEADS + h;
#pragma unroll
    for (int e = 0; e < PER; ++e) {
      sums[h][e] *= scaled;
      sums[h][e] += shuffle_xor(sums[h][e], 8);
      sums[h][e] += shuffle_xor(sums[h][e], 16);
      if (threadIdx.x % 32 < 8) mine->sums[lane * PER + e] = sums[h][e];
    }
    if (threadIdx.x % 32 == 0) mine->top = most, mine->total = total[h];
  }
  __syncthreads();
  auto finish = [&](int h, int d, const Seen<W, 1> &all) {
    out(b, h0 + h, i, d, Vec<W, 1>{{all.top == low && !s.plain ? W(0) : all.sums[0] / all.total}});
  };
  if constexpr (SPLITS > 1) cluster_waits();
  for (int n = threadIdx.x; n < HEADS * s.value_dim; n += WARPS * 32) {
    const int h = n / s.value_dim, d = n % s.value_dim;
    const Seen<W, 1> all = joined<WARPS, W>(d, [&](int w) { return parts + (SPLITS + w) * HEADS + h; });
    if constexpr (SPLITS > 1) {
      Part *mine = parts + rank * HEADS + h;
      send_to_block(mine->sums + d, all.sums[0], sent, 0);
      if (d == 0) send_to_block(&mine->top, all.top, sent, 0), send_to_block(&mine->total, all.total, sent, 0);
    } else {
      finish(h, d, all);
    }
  }
  if constexpr (SPLITS > 1) {
    if (rank) return;
    wait_round(sent, 0);
    for (int n = threadIdx.x; n < HEADS * s.value_dim; n += WARPS * 32)
      finish(n / s.value_dim, n % s.value_dim, joined<SPLITS, W>(n % s.value_dim, [&](int r) { return parts + r * HEADS + n / s.value_dim; }));
  }
}

}  // namespace gh
