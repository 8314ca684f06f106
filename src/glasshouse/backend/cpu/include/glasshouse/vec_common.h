// vec_common.h: what vec.h derives from the ISA's operations: NaN-correct min/max, reductions, conversions of storage
// types, loops over a row. Included by vec.h alone.
#pragma once
namespace gh {
inline namespace GH_ISA_NS {

GH_INLINE vf min(vf a, vf b) { return select(b != b, b, min_fast(b, a)); }  // min_fast(b, a) gives a when a is NaN
GH_INLINE vf max(vf a, vf b) { return select(b != b, b, max_fast(b, a)); }
GH_INLINE vm is_nan(vf a) { return a != a; }
GH_INLINE vm is_inf(vf a) { return abs(a) == vf(__builtin_inff()); }
GH_INLINE vf zero_unless(vm m, vf a) { return select(m, a, vf(0.0f)); }
// x in the lanes of a range, `other` beyond it: what a reduction needs at the end of a row.
GH_INLINE vf within(Full, vf x, vf) { return x; }
GH_INLINE vf within(Tail t, vf x, vf other) { return select(t.m, x, other); }

#if !defined(GH_AVX512)
GH_INLINE vm load_mask(const void *p, Full = {}) { return load_int((const uint8_t *)p) != vi(0); }
GH_INLINE vm load_mask(const void *p, Tail t) { return load_int((const uint8_t *)p, t) != vi(0); }
GH_INLINE void store_mask(void *p, vm m, Full = {}) { store_int((uint8_t *)p, vi(m.m & 1)); }
GH_INLINE void store_mask(void *p, vm m, Tail t) { store_int((uint8_t *)p, vi(m.m & 1), t); }

// 2^n in two halves, so that results pass through the denormals and infinity correctly for |n| <= 252.
GH_INLINE vf scale2(vf x, vf n) {
  vi i = round_to_int(n), h = i >> 1;
  return x * as_float((h + vi(127)) << 23) * as_float((i - h + vi(127)) << 23);
}
// The same, and 0 where y is below `least`.
GH_INLINE vf scale2_from(float least, vf y, vf x, vf n) { return scale2(select(y < vf(least), vf(0.0f), x), n); }
#endif

// 8/16-bit integers as floats. Stores truncate toward zero and saturate; round first (rint) where that is wanted.
#define GH_MEM(T)                                                                   \
  GH_INLINE vf load(const T *p, Full = {}) { return to_float(load_int(p)); }        \
  GH_INLINE vf load(const T *p, Tail t) { return to_float(load_int(p, t)); }        \
  GH_INLINE void store(T *p, vf x, Full = {}) { store_int(p, to_int(x)); }          \
  GH_INLINE void store(T *p, vf x, Tail t) { store_int(p, to_int(x), t); }
GH_MEM(int8_t)
GH_MEM(uint8_t)
#undef GH_MEM
template <class R>
GH_INLINE void store(int16_t *p, vf x, R t) {  // whole numbers that 16 bits hold
  const vi whole = to_int(x);
  for (int i = 0; i < t.n; i++) p[i] = (int16_t)whole.v[i];
}

// Tree order: lane i meets lane i + h for h = W/2, W/4, ... 1.
#define GH_REDUCE(name, a_op_b)                    \
  GH_INLINE float name(vf x) {                     \
    float t[W];                                    \
    store(t, x);                                   \
    GH_UNROLL for (int h = W / 2; h > 0; h >>= 1)  \
      GH_UNROLL for (int i = 0; i < h; i++) {      \
        float a = t[i], b = t[i + h];              \
        t[i] = a_op_b;                             \
      }                                            \
    return t[0];                                   \
  }
#if defined(GH_AVX512)
GH_INLINE __m256 upper(vf x) { return _mm512_extractf32x8_ps((__m512)x.v, 1); }
GH_INLINE __m256 lower(vf x) { return _mm512_castps512_ps256((__m512)x.v); }
GH_INLINE float reduce_add(vf x) {
  __m256 a = _mm256_add_ps(lower(x), upper(x));
  __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  b = _mm_add_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}
#elif defined(GH_AVX2)
GH_INLINE float reduce_add(vf x) {
  __m256 a = (__m256)x.v;
  __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  b = _mm_add_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}
#else
GH_REDUCE(reduce_add, a + b)
#endif
#if defined(GH_AVX2)
GH_INLINE float reduce_mul(vf x) {
  __m256 a = (__m256)x.v;
  __m128 b = _mm_mul_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  b = _mm_mul_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_mul_ss(b, _mm_movehdup_ps(b)));
}
#else
GH_REDUCE(reduce_mul, a * b)
#endif
// The largest and the least lane, when none is NaN; with NaN, any lane (softmax's sum finds the NaN anyway).
#if defined(GH_AVX512)
GH_INLINE float reduce_max_fast(vf x) {
  __m256 a = _mm256_max_ps(lower(x), upper(x));
  __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  b = _mm_max_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}
GH_INLINE float reduce_min_fast(vf x) { return _mm512_reduce_min_ps((__m512)x.v); }
#elif defined(GH_AVX2)
#define GH_REDUCE_FAST(which)                                                                      \
  GH_INLINE float reduce_##which##_fast(vf x) {                                                    \
    __m256 a = (__m256)x.v;                                                                        \
    __m128 b = _mm_##which##_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));           \
    b = _mm_##which##_ps(b, _mm_movehl_ps(b, b));                                                  \
    return _mm_cvtss_f32(_mm_##which##_ss(b, _mm_movehdup_ps(b)));                                 \
  }
GH_REDUCE_FAST(max)
GH_REDUCE_FAST(min)
#undef GH_REDUCE_FAST
#else
GH_REDUCE(reduce_max_fast, a > b ? a : b)
GH_REDUCE(reduce_min_fast, a < b ? a : b)
#endif
#undef GH_REDUCE
// NaN in any lane gives NaN, as np.max and np.min do.
GH_INLINE float reduce_max(vf x) { return any(is_nan(x)) ? __builtin_nanf("") : reduce_max_fast(x); }
GH_INLINE float reduce_min(vf x) { return any(is_nan(x)) ? __builtin_nanf("") : reduce_min_fast(x); }

// Scalar views of the storage types.
GH_INLINE float to_scalar(float x) { return x; }
GH_INLINE float to_scalar(bf16 x) { return bit_cast<float>((uint32_t)x.bits << 16); }
GH_INLINE float to_scalar(f16 x) { return load(&x, Tail(1)).v[0]; }
GH_INLINE float to_scalar(int8_t x) { return x; }
GH_INLINE float to_scalar(uint8_t x) { return x; }
template <class T>
GH_INLINE T from_scalar(float x) {
  T r;
  store(&r, vf(x), Tail(1));
  return r;
}
template <>
GH_INLINE float from_scalar<float>(float x) { return x; }

// Calls f(i, range) for i = 0, W, 2W, ... < n, with `Full` for whole vectors and `Tail` for the rest.
template <class F>
GH_INLINE void for_each_vector(long n, F f) {
  long i = 0;
  for (; i + W <= n; i += W) f(i, Full{});
  if (i < n) f(i, Tail((int)(n - i)));
}
// Several vectors side by side: f(first element, range of the last vector, strip) with strip.vectors of 8, 2 or 1.
template <int N>
struct Strip {
  static constexpr int vectors = N;
};
template <class F>
GH_INLINE void for_each_strip(long n, F f) {
  long i = 0;
  for (; i + 8 * W <= n; i += 8 * W) f(i, Full{}, Strip<8>{});
  for (; i + 2 * W <= n; i += 2 * W) f(i, Full{}, Strip<2>{});
  for (; i + W <= n; i += W) f(i, Full{}, Strip<1>{});
  if (i < n) f(i, Tail((int)(n - i)), Strip<1>{});
}

// The same, four vectors a round where there are enough: for long rows of cheap work.
template <class F>
GH_INLINE void for_each_vector4(long n, F f) {
  long i = 0;
  for (; i + 4 * W <= n; i += 4 * W) {
    f(i, Full{});
    f(i + W, Full{});
    f(i + 2 * W, Full{});
    f(i + 3 * W, Full{});
  }
  for (; i + W <= n; i += W) f(i, Full{});
  if (i < n) f(i, Tail((int)(n - i)));
}

// As `for_each_strip`, with strip.vectors of 4 or 1: for folds, whose steps wait for each other.
template <class F>
GH_INLINE void for_each_four(long n, F f) {
  long i = 0;
  for (; i + 4 * W <= n; i += 4 * W) f(i, Full{}, Strip<4>{});
  for (; i + W <= n; i += W) f(i, Full{}, Strip<1>{});
  if (i < n) f(i, Tail((int)(n - i)), Strip<1>{});
}

}  // namespace GH_ISA_NS
}  // namespace gh
