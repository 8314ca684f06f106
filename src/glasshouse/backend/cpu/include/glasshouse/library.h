// library.h: ops that generated code calls as functions, because a loop nest does not say them well.
//
// Contract
// - "Lines" of a tensor seen as [outer, n, inner] are its n elements along the middle axis, `inner` apart.
// - `scatter_along`, `scatter_rows`, `take_grad` write an element in the order of the indices, on one thread, so that the result does
//   not depend on the number of threads: these share out columns of the rows, never rows. An index outside is reported through the
//   context and nothing is written for it: what is written to may be the caller's.
// - Random numbers are those of `glasshouse.ops.philox`, bit for bit.
#pragma once
#include "context.h"
#include <algorithm>

namespace gh {
inline namespace GH_ISA_NS {

template <class T, if_number<T> = 0> GH_INLINE T value_of(T x) { return x; }
GH_INLINE float value_of(bf16 x) { return to_scalar(x); }
GH_INLINE float value_of(f16 x) { return to_scalar(x); }
GH_INLINE float value_of(f8e4 x) { return to_scalar(x); }
GH_INLINE float value_of(f8e5 x) { return to_scalar(x); }
template <class T> struct Stored {
  template <class V> GH_INLINE static T of(V v) { return T(v); }
};
template <> struct Stored<bf16> { GH_INLINE static bf16 of(float v) { return from_scalar<bf16>(v); } };
template <> struct Stored<f16> { GH_INLINE static f16 of(float v) { return from_scalar<f16>(v); } };
template <> struct Stored<f8e4> { GH_INLINE static f8e4 of(float v) { return from_scalar<f8e4>(v); } };
template <> struct Stored<f8e5> { GH_INLINE static f8e5 of(float v) { return from_scalar<f8e5>(v); } };

template <class F> inline void each_line(Context &ctx, int64_t outer, int64_t n, int64_t inner, F &&f) {
  ctx.parallel(outer * inner, outer * inner * n >= 16384, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) f(i / inner * n * inner + i % inner, i);
  });
}

// Columns of `rows` rows shared out in groups of 16, which no two threads write a cache line of: f(first, last).
template <class F> inline void each_columns(Context &ctx, int64_t rows, int64_t width, F &&f) {
  constexpr int64_t kGroup = 16;
  ctx.parallel((width + kGroup - 1) / kGroup, rows * width >= 65536 && width >= 2 * kGroup, [&](int64_t begin, int64_t end) {
    f(begin * kGroup, min_of<int64_t>(end * kGroup, width));
  });
}

// What becomes of an element that is written onto another.
enum class Meeting { set, add, mul, max, min };
template <Meeting How, class T> GH_INLINE void meet(T &out, T next) {
  if (How == Meeting::set) out = next;
  else if (How == Meeting::add) out = Stored<T>::of(add(value_of(out), value_of(next)));
  else if (How == Meeting::mul) out = Stored<T>::of(mul(value_of(out), value_of(next)));
  else if (How == Meeting::max) out = Stored<T>::of(max(value_of(out), value_of(next)));
  else out = Stored<T>::of(min(value_of(out), value_of(next)));
}

// out (already a copy of x, strides `step`) at indices along `axis`; `shape` is that of indices and updates.
template <Meeting How, class T, class I>
inline void scatter_along(Context &ctx, const I *indices, const T *updates, int rank, const int64_t *shape, const int64_t *step,
                          int axis, int64_t size, T *out) {
  int64_t rows = 1, place[16] = {0};
  const int64_t width = shape[rank - 1], stride = step[axis];
  for (int a = 0; a < rank - 1; ++a) rows *= shape[a];
  // What stays the same in a row of indices is added up once for it.
  const int64_t next = axis == rank - 1 ? 0 : step[rank - 1];
  for (int64_t r = 0; r < rows; ++r, indices += width, updates += width) {
    int64_t base = 0;
    for (int a = 0; a < rank - 1; ++a) base += a == axis ? 0 : place[a] * step[a];
    for (int64_t j = 0; j < width; ++j) {
      bool inside = true;
      const int64_t at = base + j * next + ctx.index((int64_t)indices[j], size, inside) * stride;
      if (inside) meet<How>(out[at], updates[j]);
    }
    for (int a = rank - 2; a >= 0 && ++place[a] == shape[a]; --a) place[a] = 0;
  }
}

// Rows of `width` elements at places given by tuples of `depth` indices, the same in each of `outer` parts that are `part` apart.
template <Meeting How, class T, class I>
inline void scatter_rows(Context &ctx, const I *indices, const T *updates, int64_t outer, int64_t part, int64_t rows, int depth,
                         const int64_t *size, const int64_t *step, int64_t width, T *out) {
  each_columns(ctx, outer * rows, width, [&](int64_t first, int64_t last) {
    for (int64_t i = 0; i < outer * rows; ++i) {
      int64_t at = i / rows * part;
      bool inside = true;
      for (int a = 0; a < depth; ++a) at += ctx.index((int64_t)indices[i % rows * depth + a], size[a], inside) * step[a];
      if (!inside) continue;
      T *GH_RESTRICT to = out + at;
      const T *GH_RESTRICT from = updates + i * width;
      for (int64_t j = first; j < last; ++j) meet<How>(to[j], from[j]);
    }
  });
}

// out [before, size, after] += g [before, n, after] at indices [n].
template <class Acc, class T, class I>
inline void take_grad(Context &ctx, const T *g, const I *indices, int64_t before, int64_t n, int64_t size, int64_t after, Acc *sum,
                      T *out) {
  each_columns(ctx, before * (n + size), after, [&](int64_t first, int64_t last) {
    for (int64_t r = 0; r < before * size; ++r)
      for (int64_t j = first; j < last; ++j) sum[r * after + j] = 0;
    for (int64_t b = 0; b < before; ++b)
      for (int64_t i = 0; i < n; ++i) {
        Acc *GH_RESTRICT to = sum + (b * size + ctx.index((int64_t)indices[i], size)) * after;
        const T *GH_RESTRICT from = g + (b * n + i) * after;
        for (int64_t j = first; j < last; ++j) to[j] += Acc(value_of(from[j]));
      }
    for (int64_t r = 0; r < before * size; ++r)
      for (int64_t j = first; j < last; ++j) out[r * after + j] = Stored<T>::of(sum[r * after + j]);
  });
}

struct Philox {
  uint32_t w[4];
  GH_INLINE Philox(uint64_t seed, uint64_t i) : w{(uint32_t)i, (uint32_t)(i >> 32), 0, 0} {
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; ++round) {
      const uint64_t p0 = 0xD2511F53ull * w[0], p1 = 0xCD9E8D57ull * w[2];
      const uint32_t a = (uint32_t)(p1 >> 32) ^ w[1] ^ k0, c = (uint32_t)(p0 >> 32) ^ w[3] ^ k1;
      w[0] = a, w[1] = (uint32_t)p1, w[2] = c, w[3] = (uint32_t)p0;
      k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
  }
};
template <class T> inline T uniform(int64_t seed, int64_t i, T low, T width) {
  const float u = (float)(Philox((uint64_t)seed, (uint64_t)i).w[0] >> 8) * 0x1p-24f;
  return low + T(u) * width;
}
template <class T> inline T normal(int64_t seed, int64_t i, T mean, T std) {
  const Philox p((uint64_t)seed, (uint64_t)i);
  const float a = (float)((p.w[0] >> 8) + 1) * 0x1p-24f, b = (float)(p.w[1] >> 8) * 0x1p-24f;
  const float z = __builtin_sqrtf(-2.0f * __builtin_logf(a)) * __builtin_cosf(b * 6.2831855f);
  return mean + T(z) * std;
}
inline bool keeps(int64_t seed, int64_t i, uint32_t limit) { return (Philox((uint64_t)seed, (uint64_t)i).w[0] >> 8) >= limit; }

}  // namespace GH_ISA_NS
}  // namespace gh
