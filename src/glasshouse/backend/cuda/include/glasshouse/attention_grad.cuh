// attention_grad.cuh: gradients of scaled dot-product attention without a matrix of scores in memory.
//
// Contract
// - q, g [batch, heads, length, dim or value_dim], k, v [batch, heads, keys, ...], read where they lie; y is the attention's result, g its
//   gradient. mask and causal as in `attention.cuh`; a query that sees no key has weights 0.
// - Two kernels, each a block of WARPS warps with 16 own rows a warp, over the other rows 64 at a time; half floats, sums in float, weights
//   and slopes rounded to the element type before they are multiplied. No sum is shared by blocks, so two runs are equal bit by bit.
//   `attention_grad_queries` (own: queries) goes over the keys once, with weights relative to the largest score so far, as attention itself; it
//   leaves the logarithm of each query's sum of weights and the shift sum(g * y) in `totals` and `shifts` [batch, heads, length].
//   `attention_grad_keys` (own: keys) goes over the queries once, for gk and gv: scores are computed turned, so that weights lie in registers
//   as the first operand of the next product.
// - Results are rows of `to` [batch, length, 3, heads, dim]: gq, gk and gv beside each other, as many keys as queries, all dims alike. gridDim: blocks of own rows, heads, batch.
#pragma once
#include "attention.cuh"

namespace gh {

// D, DV: dims of a head of q and k, and of v and g, multiples of 16.
template <int D_, int DV_, int WARPS_> struct AttentionGradTile {
  static constexpr int D = D_, DV = DV_, WARPS = WARPS_, THREADS = WARPS * 32, OWN = WARPS * 16, OTHERS = 64;
  static constexpr int PITCH = power_of_two_from(D / 8), PITCH_V = power_of_two_from(DV / 8);
  static constexpr int ROW = (PITCH + PITCH_V) * 8, STAGE = OTHERS * ROW;  // elements: a row of both operands, 64 such rows
  static constexpr int SHARED = (OWN * ROW + 2 * STAGE) * 2 + 2 * 2 * OTHERS * 4;
};

// The 16 own rows of a warp times 64 others, both over a depth of D: x[j] has columns 8 j and on.
template <class T, int D, int PITCH> GH_FN void scores_of(float (&x)[8][4], const T *own, const T *others) {
  const int lane = threadIdx.x % 32, quad = lane >> 3;
#pragma unroll
  for (int d = 0; d < D / 16; ++d) {
    uint32_t a[4];
    ldmatrix(a, own + swizzled<PITCH>(lane & 15, d * 2 + (lane >> 4)));
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      uint32_t f[4];
      ldmatrix(f, others + swizzled<PITCH>(j * 16 + (lane & 7) + (quad >> 1) * 8, d * 2 + (quad & 1)));
      mma<T>(x[2 * j], a, f[0], f[1]);
      mma<T>(x[2 * j + 1], a, f[2], f[3]);
    }
  }
}

// sums[16 x D] += x[16 x 64] others[64 x D], x rounded to T.
template <class T, int D, int PITCH> GH_FN void mixed(float (&sums)[D / 8][4], const float (&x)[8][4], const T *others) {
  const int lane = threadIdx.x % 32, quad = lane >> 3;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    uint32_t a[4];
#pragma unroll
    for (int u = 0; u < 4; ++u) a[u] = packed<T>(x[2 * j + u / 2][u % 2 * 2], x[2 * j + u / 2][u % 2 * 2 + 1]);
#pragma unroll
    for (int d = 0; d < D / 16; ++d) {
      uint32_t f[4];
      ldmatrix_trans(f, others + swizzled<PITCH>(j * 16 + (lane & 7) + (quad & 1) * 8, d * 2 + (quad >> 1)));
      mma<T>(sums[2 * d], a, f[0], f[1]);
      mma<T>(sums[2 * d + 1], a, f[2], f[3]);
    }
  }
}

// The sums of a warp into rows `step` apart, times `factor`, through `room`: 16 rows of D + 8 half floats, its own.
template <class T, int D>
GH_FN void put_rows(T *to, int64_t step, const float (&sums)[D / 8][4], float factor, int first, int rows, int dim, T *room) {
  constexpr int ROW = D + 8;
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int d = 0; d < D / 8; ++d)
#pragma unroll
    for (int r = 0; r < 2; ++r)
      *(uint32_t *)(room + (lane / 4 + r * 8) * ROW + d * 8 + lane % 4 * 2) = packed<T>(sums[d][2 * r] * factor, sums[d][2 * r + 1] * factor);
  __syncwarp();
  for (int e = lane; e < 16 * (D / 8); e += 32) {
    const int row = e / (D / 8), c = e % (D / 8) * 8;
    if (first + row >= rows || c >= dim) continue;
    const T *from = room + row * ROW + c;
    T *there = to + (first + row) * step + c;
    if (dim % 8 == 0) store_vec(there, load_vec<8>(from));
    else
      for (int i = 0; i < 8 && c + i < dim; ++i) there[i] = from[i];
  }
  __syncwarp();
}

// Where the gradients of a head's queries (0), keys (1) or values (2) begin, and how far their rows are apart.
GH_FN int64_t gradient_step(const AttentionShape &s) { return (int64_t)3 * s.heads * s.dim; }
template <class T> GH_FN T *gradient_of(const AttentionShape &s, T *to, int b, int which, int h) {
  return to + b * s.length * gradient_step(s) + (int64_t)(which * s.heads + h) * s.dim;
}

// The sum of g * y of each of a warp's 16 rows; two lanes share a row, each has every other 8 of its dims.
template <bool WHOLE, class T> GH_FN void shift_rows(float *to, const T *g, int64_t g_row, const T *y, int64_t y_row, int first, int rows, int dim) {
  const int lane = threadIdx.x % 32, i = first + lane / 2;
  float sum = 0.0f;
  for (int c = lane % 2 * 8; i < rows && c < dim; c += 16) {
    const T *a = g + i * g_row + c, *b = y + i * y_row + c;
    if constexpr (WHOLE) {
      const Vec<T, 8> va = load_vec<8>(a), vb = load_vec<8>(b);
#pragma unroll
      for (int e = 0; e < 8; ++e) sum += to_scalar(va[e]) * to_scalar(vb[e]);
    } else {
      for (int e = 0; e < 8 && c + e < dim; ++e) sum += to_scalar(a[e]) * to_scalar(b[e]);
    }
  }
  sum += shuffle_xor(sum, 1);
  if (lane % 2 == 0) to[lane / 2] = sum;
}

// What a score becomes: its weight's power of two. Hidden ones are -inf.
template <class Mask> struct GradMask {
  const AttentionShape &s;
  const Mask &mask;
  int b, h;
  template <class Inside> GH_FN float of(Inside inside, int i, int key, float x) const {
    const bool kept = inside.value || (key < s.keys && i < s.length && !(s.causal && key > i));
    return kept ? mask(b, h, i, key, x * (s.scale * LOG2E), LOG2E) : -__builtin_inff();
  }
};

template <class S, bool WHOLE, class T, class Mask>
GH_FN void attention_grad_queries(const AttentionShape &s, Strided<T> g, Strided<T> q, Strided<T> k, Strided<T> v, Strided<T> y, Mask &&mask,
                                  T *to, float *totals, float *shifts) {
  constexpr int D = S::D, DV = S::DV, P = S::PITCH, PV = S::PITCH_V, OTHERS = S::OTHERS, THREADS = S::THREADS;
  GH_SHARED_ROOM(room);
  T *own = (T *)room, *staged = own + S::OWN * S::ROW;
  float *numbers = (float *)(staged + 2 * S::STAGE);
  const int b = blockIdx.z, h = blockIdx.y, i0 = (s.causal ? gridDim.x - 1 - blockIdx.x : blockIdx.x) * S::OWN;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, first = i0 + warp * 16, row = first + lane / 4;
  const int seen = s.causal && i0 + S::OWN < s.keys ? i0 + S::OWN : s.keys, steps = (seen + OTHERS - 1) / OTHERS;
  const int64_t line = ((int64_t)b * s.heads + h) * s.length;
  const T *queries = own + warp * 16 * P * 8, *slopes = own + S::OWN * P * 8 + warp * 16 * PV * 8;
  auto load = [&](int step) {
    T *there = staged + step % 2 * S::STAGE;
    load_rows<OTHERS, D, P, THREADS, WHOLE>(there, k.at(b, h), k.row, step * OTHERS, s.keys, s.dim);
    load_rows<OTHERS, DV, PV, THREADS, WHOLE>(there + OTHERS * P * 8, v.at(b, h), v.row, step * OTHERS, s.keys, s.value_dim);
  };
  load_rows<S::OWN, D, P, THREADS, WHOLE>(own, q.at(b, h), q.row, i0, s.length, s.dim);
  load_rows<S::OWN, DV, PV, THREADS, WHOLE>(own + S::OWN * P * 8, g.at(b, h), g.row, i0, s.length, s.value_dim);
  if (steps) load(0);
  end_copies();
  if (steps > 1) load(1);
  end_copies();
  const GradMask<Mask> masked = {s, mask, b, h};
  const float low = -__builtin_inff();
  float top[2] = {low, low}, total[2] = {}, shift[2] = {}, sums[D / 8][4] = {};
  shift_rows<WHOLE>(numbers + warp * 16, g.at(b, h), g.row, y.at(b, h), y.row, first, s.length, s.value_dim);
  __syncwarp();
#pragma unroll
  for (int r = 0; r < 2; ++r) shift[r] = numbers[warp * 16 + lane / 4 + r * 8];
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    copies_left<1>();
    __syncthreads();
    const T *kt = staged + step % 2 * S::STAGE, *vt = kt + OTHERS * P * 8;
    const int key0 = step * OTHERS, last = key0 + OTHERS - 1;
    const bool inside = last < s.keys && first + 16 <= s.length && !(s.causal && last > first);
    float x[8][4] = {}, p[8][4] = {};
    scores_of<T, D, P>(x, queries, kt);
    scores_of<T, DV, PV>(p, slopes, vt);
    auto each = [&](auto known) {
#pragma unroll
      for (int j = 0; j < 8; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) x[j][e] = masked.of(known, row + e / 2 * 8, key0 + j * 8 + lane % 4 * 2 + e % 2, x[j][e]);
    };
    if (inside) each(Always<true>());
    else each(Always<false>());
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float high = top[r];
#pragma unroll
      for (int j = 0; j < 8; ++j) high = fmaxf(high, fmaxf(x[j][2 * r], x[j][2 * r + 1]));
      high = fmaxf(high, shuffle_xor(high, 1));
      high = fmaxf(high, shuffle_xor(high, 2));
      const float base = high == low ? 0.0f : high, scaled = power_of_two(top[r] - base);
      top[r] = high;
      total[r] *= scaled;
#pragma unroll
      for (int d = 0; d < D / 8; ++d) sums[d][2 * r] *= scaled, sums[d][2 * r + 1] *= scaled;
#pragma unroll
      for (int j = 0; j < 8; ++j)
#pragma unroll
        for (int e = 2 * r; e < 2 * r + 2; ++e) {
          const float weight = power_of_two(x[j][e] - base);
          total[r] += weight;
          x[j][e] = weight * (p[j][e] - shift[r]);
        }
    }
    mixed<T, D, P>(sums, x, kt);
    if (step + 2 < steps) {
      __syncthreads();
      load(step + 2);
    }
    end_copies();
  }
  __syncthreads();
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    total[r] += shuffle_xor(total[r], 1);
    total[r] += shuffle_xor(total[r], 2);
    const float part = top[r] == low ? 0.0f : s.scale / total[r];  // who sees no key has no weights
#pragma unroll
    for (int d = 0; d < D / 8; ++d) sums[d][2 * r] *= part, sums[d][2 * r + 1] *= part;
    if (lane % 4 == 0 && row + r * 8 < s.length) {
      totals[line + row + r * 8] = top[r] == low ? __builtin_inff() : top[r] + ::log2f(total[r]);
      shifts[line + row + r * 8] = shift[r];
    }
  }
  put_rows<T, D>(gradient_of(s, to, b, 0, h), gradient_step(s), sums, 1.0f, first, s.length, s.dim, staged + warp * 16 * (D + 8));
}

template <class S, bool WHOLE, class T, class Mask>
GH_FN void attention_grad_keys(const AttentionShape &s, Strided<T> g, Strided<T> q, Strided<T> k, Strided<T> v, Mask &&mask, T *to,
                               const float *totals, const float *shifts) {
  constexpr int D = S::D, DV = S::DV, P = S::PITCH, PV = S::PITCH_V, OTHERS = S::OTHERS, THREADS = S::THREADS;
  GH_SHARED_ROOM(room);
  T *own = (T *)room, *staged = own + S::OWN * S::ROW;
  float *numbers = (float *)(staged + 2 * S::STAGE);  // of two steps: totals, then shifts
  const int b = blockIdx.z, h = blockIdx.y, j0 = blockIdx.x * S::OWN;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, first = j0 + warp * 16, row = first + lane / 4;
  const int begin = s.causal ? j0 / OTHERS : 0, steps = (s.length + OTHERS - 1) / OTHERS;  // earlier queries see none of these keys
  const int64_t line = ((int64_t)b * s.heads + h) * s.length;
  const T *keys = own + warp * 16 * P * 8, *values = own + S::OWN * P * 8 + warp * 16 * PV * 8;
  auto load = [&](int step) {
    T *there = staged + step % 2 * S::STAGE;
    load_rows<OTHERS, D, P, THREADS, WHOLE>(there, q.at(b, h), q.row, step * OTHERS, s.length, s.dim);
    load_rows<OTHERS, DV, PV, THREADS, WHOLE>(there + OTHERS * P * 8, g.at(b, h), g.row, step * OTHERS, s.length, s.value_dim);
    for (int e = threadIdx.x; e < OTHERS; e += THREADS) {
      const int i = step * OTHERS + e;
      float *number = numbers + step % 2 * 2 * OTHERS + e;
      number[0] = i < s.length ? totals[line + i] : __builtin_inff();
      number[OTHERS] = i < s.length ? shifts[line + i] : 0.0f;
    }
  };
  load_rows<S::OWN, D, P, THREADS, WHOLE>(own, k.at(b, h), k.row, j0, s.keys, s.dim);
  load_rows<S::OWN, DV, PV, THREADS, WHOLE>(own + S::OWN * P * 8, v.at(b, h), v.row, j0, s.keys, s.value_dim);
  if (begin < steps) load(begin);
  end_copies();
  if (begin + 1 < steps) load(begin + 1);
  end_copies();
  const GradMask<Mask> masked = {s, mask, b, h};
  float sums[D / 8][4] = {}, sums_v[DV / 8][4] = {};
#pragma unroll 1
  for (int step = begin; step < steps; ++step) {
    copies_left<1>();
    __syncthreads();
    const T *qt = staged + step % 2 * S::STAGE, *gt = qt + OTHERS * P * 8;
    const float *total = numbers + step % 2 * 2 * OTHERS, *shift = total + OTHERS;
    const int i0 = step * OTHERS;
    const bool inside = first + 16 <= s.keys && i0 + OTHERS <= s.length && !(s.causal && first + 15 > i0);
    float x[8][4] = {}, p[8][4] = {};
    scores_of<T, D, P>(x, keys, qt);
    auto each = [&](auto known) {
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const Vec<float, 2> of = load_vec<2>(total + j * 8 + lane % 4 * 2);
#pragma unroll
        for (int e = 0; e < 4; ++e)
          x[j][e] = power_of_two(masked.of(known, i0 + j * 8 + lane % 4 * 2 + e % 2, row + e / 2 * 8, x[j][e]) - of[e % 2]);
      }
    };
    if (inside) each(Always<true>());
    else each(Always<false>());
    mixed<T, DV, PV>(sums_v, x, gt);
    scores_of<T, DV, PV>(p, values, gt);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const Vec<float, 2> of = load_vec<2>(shift + j * 8 + lane % 4 * 2);
#pragma unroll
      for (int e = 0; e < 4; ++e) x[j][e] *= p[j][e] - of[e % 2];
    }
    mixed<T, D, P>(sums, x, qt);
    if (step + 2 < steps) {
      __syncthreads();
      load(step + 2);
    }
    end_copies();
  }
  __syncthreads();
  T *mine = staged + warp * 16 * ((D > DV ? D : DV) + 8);
  put_rows<T, D>(gradient_of(s, to, b, 1, h), gradient_step(s), sums, s.scale, first, s.keys, s.dim, mine);
  put_rows<T, DV>(gradient_of(s, to, b, 2, h), gradient_step(s), sums_v, 1.0f, first, s.keys, s.value_dim, mine);
}

}  // namespace gh
