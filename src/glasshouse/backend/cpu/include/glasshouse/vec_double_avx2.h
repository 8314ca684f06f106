// vec_double_avx2.h: the operations of vec_double.h that have AVX2/FMA instructions of their own. Included by vec_double.h alone.
#pragma once
namespace gh {
inline namespace GH_ISA_NS {

GH_INLINE __m256d by_mask(nl m, nd a, nd b) { return _mm256_blendv_pd((__m256d)b, (__m256d)a, (__m256d)m); }
GH_INLINE vd select(vm m, vd a, vd b) {
  return {(nd)by_mask(half_mask<0>(m, AllLanes{}), a.lo, b.lo), (nd)by_mask(half_mask<W / 2>(m, AllLanes{}), a.hi, b.hi)};
}
GH_INLINE nd fma_half(nd a, nd b, nd c) { return (nd)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c); }
GH_INLINE vd min_fast(vd a, vd b) { return by_halves(a, b, [](nd x, nd y) { return (nd)_mm256_min_pd((__m256d)x, (__m256d)y); }); }
GH_INLINE vd max_fast(vd a, vd b) { return by_halves(a, b, [](nd x, nd y) { return (nd)_mm256_max_pd((__m256d)x, (__m256d)y); }); }
GH_INLINE vd sqrt(vd a) { return by_halves(a, [](nd x) { return (nd)_mm256_sqrt_pd((__m256d)x); }); }
#define GH_ROUND(name, how) \
  GH_INLINE vd name(vd a) { return by_halves(a, [](nd x) { return (nd)_mm256_round_pd((__m256d)x, how | _MM_FROUND_NO_EXC); }); }
GH_ROUND(rint, _MM_FROUND_TO_NEAREST_INT) GH_ROUND(floor, _MM_FROUND_TO_NEG_INF) GH_ROUND(ceil, _MM_FROUND_TO_POS_INF)
GH_ROUND(trunc, _MM_FROUND_TO_ZERO)
#undef GH_ROUND

GH_INLINE vd load(const double *p, Full = {}) { return {(nd)_mm256_loadu_pd(p), (nd)_mm256_loadu_pd(p + 4)}; }
GH_INLINE vd load(const double *p, Tail t) {
  return {(nd)_mm256_maskload_pd(p, (__m256i)half_mask<0>(t.m, AllLanes{})),
          (nd)_mm256_maskload_pd(p + 4, (__m256i)half_mask<W / 2>(t.m, AllLanes{}))};
}
GH_INLINE void store(double *p, vd x, Full = {}) {
  _mm256_storeu_pd(p, (__m256d)x.lo);
  _mm256_storeu_pd(p + 4, (__m256d)x.hi);
}
GH_INLINE void store(double *p, vd x, Tail t) {  // by powers of two, as floats are
  if (t.n == 8) return store(p, x);
  __m256d rest = (__m256d)x.lo;
  if (t.n & 4) {
    _mm256_storeu_pd(p, rest);
    rest = (__m256d)x.hi;
  }
  __m128d low = _mm256_castpd256_pd128(rest);
  if (t.n & 2) {
    _mm_storeu_pd(p + (t.n & 4), low);
    low = _mm256_extractf128_pd(rest, 1);
  }
  if (t.n & 1) _mm_store_sd(p + (t.n & 6), low);
}
GH_INLINE vd widen(vf x) {
  return {(nd)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)x.v)), (nd)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)x.v, 1))};
}
GH_INLINE vf narrow(vd x) { return (nf)_mm256_set_m128(_mm256_cvtpd_ps((__m256d)x.hi), _mm256_cvtpd_ps((__m256d)x.lo)); }

// Tree order, as everywhere: lane i meets lane i + 4, i + 2, i + 1.
#define GH_REDUCE(name, how)                                                              \
  GH_INLINE double name(vd x) {                                                           \
    const __m256d a = _mm256_##how##_pd((__m256d)x.lo, (__m256d)x.hi);                    \
    const __m128d b = _mm_##how##_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1)); \
    return _mm_cvtsd_f64(_mm_##how##_sd(b, _mm_unpackhi_pd(b, b)));                       \
  }
GH_REDUCE(reduce_add, add) GH_REDUCE(reduce_mul, mul) GH_REDUCE(reduce_max_fast, max) GH_REDUCE(reduce_min_fast, min)
#undef GH_REDUCE
GH_INLINE double reduce_max(vd x) { return any(x != x) ? __builtin_nan("") : reduce_max_fast(x); }
GH_INLINE double reduce_min(vd x) { return any(x != x) ? __builtin_nan("") : reduce_min_fast(x); }

}  // namespace GH_ISA_NS
}  // namespace gh
