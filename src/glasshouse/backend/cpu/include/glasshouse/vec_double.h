// vec_double.h: W lanes of float64 (`vd`) in two registers, so that a vector of results has as many lanes in every element type.
//
// Contract
// - What vec.h says of `vf` holds for `vd`: loads and stores with `Full` or `Tail`, comparisons to `vm`, NaN in min and max, fixed
//   order of reductions. `fma(a, b, c)` is one rounding where the chip has the instruction (AVX2, AVX-512), two elsewhere.
// - `widen(vf)` and `narrow(vd)` convert; nothing does so by itself.
#pragma once
#include "vec.h"

namespace gh {
inline namespace GH_ISA_NS {

typedef double nd __attribute__((vector_size(W * 4)));    // half of the lanes: what one register holds
typedef int64_t nl __attribute__((vector_size(W * 4)));
typedef uint64_t nul __attribute__((vector_size(W * 4)));

struct vd {
  nd lo, hi;
  vd() = default;
  GH_INLINE vd(nd a, nd b) : lo(a), hi(b) {}
  GH_INLINE vd(double x) : lo(x - nd{}), hi(lo) {}  // minus zero, not plus: x + 0 would lose the sign of -0
};

// A function of halves, and one of lanes, for vectors.
template <class F> GH_INLINE vd by_halves(vd a, F f) { return {f(a.lo), f(a.hi)}; }
template <class F> GH_INLINE vd by_halves(vd a, vd b, F f) { return {f(a.lo, b.lo), f(a.hi, b.hi)}; }
template <class F> GH_INLINE vd by_lanes(vd a, F f) {
  return by_halves(a, [&](nd x) {
    nd r;
    for (int i = 0; i < W / 2; i++) r[i] = f(x[i]);
    return r;
  });
}

#define GH_OP(op) \
  GH_INLINE vd operator op(vd a, vd b) { return {a.lo op b.lo, a.hi op b.hi}; }
GH_OP(+) GH_OP(-) GH_OP(*) GH_OP(/)
#undef GH_OP
GH_INLINE vd &operator+=(vd &a, vd b) { return a = a + b; }
GH_INLINE vd operator-(vd a) { return by_halves(a, [](nd x) { return (nd)((nul)x ^ 0x8000000000000000u); }); }
GH_INLINE vd abs(vd a) { return by_halves(a, [](nd x) { return (nd)((nul)x & 0x7fffffffffffffffu); }); }
GH_INLINE vd copysign(vd mag, vd sign) {
  return by_halves(mag, sign, [](nd m, nd s) {
    return (nd)(((nul)m & 0x7fffffffffffffffu) | ((nul)s & 0x8000000000000000u));
  });
}

#if defined(GH_AVX512)
#define GH_CMP(op, imm)                                                                                   \
  GH_INLINE vm operator op(vd a, vd b) {                                                                  \
    const unsigned lo = _mm512_cmp_pd_mask((__m512d)a.lo, (__m512d)b.lo, imm);                            \
    return {(__mmask16)(lo | (unsigned)_mm512_cmp_pd_mask((__m512d)a.hi, (__m512d)b.hi, imm) << 8)};      \
  }
GH_CMP(<, _CMP_LT_OQ) GH_CMP(<=, _CMP_LE_OQ) GH_CMP(>, _CMP_GT_OQ) GH_CMP(>=, _CMP_GE_OQ) GH_CMP(==, _CMP_EQ_OQ)
GH_CMP(!=, _CMP_NEQ_UQ)
#undef GH_CMP
GH_INLINE vd select(vm m, vd a, vd b) {
  return {(nd)_mm512_mask_blend_pd((__mmask8)m.m, (__m512d)b.lo, (__m512d)a.lo),
          (nd)_mm512_mask_blend_pd((__mmask8)(m.m >> 8), (__m512d)b.hi, (__m512d)a.hi)};
}
GH_INLINE nd fma_half(nd a, nd b, nd c) { return (nd)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c); }
GH_INLINE vd min_fast(vd a, vd b) { return by_halves(a, b, [](nd x, nd y) { return (nd)_mm512_min_pd((__m512d)x, (__m512d)y); }); }
GH_INLINE vd max_fast(vd a, vd b) { return by_halves(a, b, [](nd x, nd y) { return (nd)_mm512_max_pd((__m512d)x, (__m512d)y); }); }
GH_INLINE vd sqrt(vd a) { return by_halves(a, [](nd x) { return (nd)_mm512_sqrt_pd((__m512d)x); }); }
#define GH_ROUND(name, how) \
  GH_INLINE vd name(vd a) { return by_halves(a, [](nd x) { return (nd)_mm512_roundscale_pd((__m512d)x, how | _MM_FROUND_NO_EXC); }); }
GH_ROUND(rint, _MM_FROUND_TO_NEAREST_INT) GH_ROUND(floor, _MM_FROUND_TO_NEG_INF) GH_ROUND(ceil, _MM_FROUND_TO_POS_INF)
GH_ROUND(trunc, _MM_FROUND_TO_ZERO)
#undef GH_ROUND
GH_INLINE vd load(const double *p, Full = {}) { return {(nd)_mm512_loadu_pd(p), (nd)_mm512_loadu_pd(p + 8)}; }
GH_INLINE vd load(const double *p, Tail t) {
  return {(nd)_mm512_maskz_loadu_pd((__mmask8)t.m.m, p), (nd)_mm512_maskz_loadu_pd((__mmask8)(t.m.m >> 8), p + 8)};
}
GH_INLINE void store(double *p, vd x, Full = {}) {
  _mm512_storeu_pd(p, (__m512d)x.lo);
  _mm512_storeu_pd(p + 8, (__m512d)x.hi);
}
GH_INLINE void store(double *p, vd x, Tail t) {
  _mm512_mask_storeu_pd(p, (__mmask8)t.m.m, (__m512d)x.lo);
  _mm512_mask_storeu_pd(p + 8, (__mmask8)(t.m.m >> 8), (__m512d)x.hi);
}
#else
// A mask has lanes of 32 bits: those of two registers of 64-bit lanes, every second one.
template <int... I>
GH_INLINE vm join_masks(nl lo, nl hi, Lanes<I...>) {
  return {__builtin_shufflevector((ni)lo, (ni)hi, 2 * I...)};
}
template <int First, int... I>
GH_INLINE nl half_mask(vm m, Lanes<I...>) {
  return (nl)__builtin_shufflevector(m.m, m.m, First + I / 2 ...);
}
#define GH_CMP(op) \
  GH_INLINE vm operator op(vd a, vd b) { return join_masks((nl)(a.lo op b.lo), (nl)(a.hi op b.hi), AllLanes{}); }
GH_CMP(<) GH_CMP(<=) GH_CMP(>) GH_CMP(>=) GH_CMP(==) GH_CMP(!=)
#undef GH_CMP
#if defined(GH_AVX2)
}  // namespace GH_ISA_NS
}  // namespace gh
#include "vec_double_avx2.h"
namespace gh {
inline namespace GH_ISA_NS {
#else
GH_INLINE nd blend(nl m, nd a, nd b) { return (nd)(((nl)a & m) | ((nl)b & ~m)); }
GH_INLINE vd select(vm m, vd a, vd b) {
  return {blend(half_mask<0>(m, AllLanes{}), a.lo, b.lo), blend(half_mask<W / 2>(m, AllLanes{}), a.hi, b.hi)};
}
GH_INLINE nd fma_half(nd a, nd b, nd c) { return a * b + c; }
GH_INLINE vd min_fast(vd a, vd b) { return by_halves(a, b, [](nd x, nd y) { return blend((nl)(x < y), x, y); }); }
GH_INLINE vd max_fast(vd a, vd b) { return by_halves(a, b, [](nd x, nd y) { return blend((nl)(x > y), x, y); }); }
GH_INLINE vd sqrt(vd a) { return by_lanes(a, [](double x) { return __builtin_sqrt(x); }); }
GH_INLINE vd rint(vd a) { return by_lanes(a, [](double x) { return __builtin_rint(x); }); }
GH_INLINE vd floor(vd a) { return by_lanes(a, [](double x) { return __builtin_floor(x); }); }
GH_INLINE vd ceil(vd a) { return by_lanes(a, [](double x) { return __builtin_ceil(x); }); }
GH_INLINE vd trunc(vd a) { return by_lanes(a, [](double x) { return __builtin_trunc(x); }); }
GH_INLINE vd load(const double *p, Full = {}) {
  vd r;
  memcpy(&r.lo, p, sizeof r.lo);
  memcpy(&r.hi, p + W / 2, sizeof r.hi);
  return r;
}
GH_INLINE void store(double *p, vd x, Full = {}) {
  memcpy(p, &x.lo, sizeof x.lo);
  memcpy(p + W / 2, &x.hi, sizeof x.hi);
}
GH_INLINE vd load(const double *p, Tail t) {
  double lanes[W] = {};
  for (int i = 0; i < t.n; i++) lanes[i] = p[i];
  return load(lanes);
}
GH_INLINE void store(double *p, vd x, Tail t) {
  double lanes[W];
  store(lanes, x);
  for (int i = 0; i < t.n; i++) p[i] = lanes[i];
}
#endif
#endif

GH_INLINE vd fma(vd a, vd b, vd c) { return {fma_half(a.lo, b.lo, c.lo), fma_half(a.hi, b.hi, c.hi)}; }
GH_INLINE vd fnma(vd a, vd b, vd c) { return fma(-a, b, c); }
GH_INLINE vd min(vd a, vd b) { return select(b != b, b, min_fast(b, a)); }
GH_INLINE vd max(vd a, vd b) { return select(b != b, b, max_fast(b, a)); }
GH_INLINE vm is_nan(vd a) { return a != a; }
GH_INLINE vm is_inf(vd a) { return abs(a) == vd(__builtin_inf()); }
GH_INLINE vd within(Full, vd x, vd) { return x; }
GH_INLINE vd within(Tail t, vd x, vd other) { return select(t.m, x, other); }

GH_INLINE double to_scalar(double x) { return x; }
#if !defined(GH_AVX2)
// By instructions, because g++ takes lanes through memory, and what is stored in parts and loaded as a whole waits (Zen 5: half of `pow`).
#if defined(GH_AVX512)
GH_INLINE vd widen(vf x) {
  const __m256d high = _mm512_extractf64x4_pd((__m512d)x.v, 1);
  return {(nd)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)x.v)), (nd)_mm512_cvtps_pd(_mm256_castpd_ps(high))};
}
GH_INLINE vf narrow(vd x) {
  const __m256 low = _mm512_cvtpd_ps((__m512d)x.lo), high = _mm512_cvtpd_ps((__m512d)x.hi);
  return (nf)_mm512_insertf64x4(_mm512_castps_pd(_mm512_castps256_ps512(low)), _mm256_castps_pd(high), 1);
}
#elif defined(GH_AVX2)
GH_INLINE vd widen(vf x) {
  return {(nd)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)x.v)), (nd)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)x.v, 1))};
}
GH_INLINE vf narrow(vd x) { return (nf)_mm256_set_m128(_mm256_cvtpd_ps((__m256d)x.hi), _mm256_cvtpd_ps((__m256d)x.lo)); }
#else
GH_INLINE vd widen(vf x) {
  float part[W];
  store(part, x);
  vd r;
  for (int i = 0; i < W / 2; i++) r.lo[i] = (double)part[i];
  for (int i = 0; i < W / 2; i++) r.hi[i] = (double)part[W / 2 + i];
  return r;
}
GH_INLINE vf narrow(vd x) {
  float part[W];
  for (int i = 0; i < W / 2; i++) part[i] = (float)x.lo[i];
  for (int i = 0; i < W / 2; i++) part[W / 2 + i] = (float)x.hi[i];
  return load(part);
}
#endif

// Tree order, as for vf.
#define GH_REDUCE(name, a_op_b)                    \
  GH_INLINE double name(vd x) {                    \
    double t[W];                                   \
    store(t, x);                                   \
    GH_UNROLL for (int h = W / 2; h > 0; h >>= 1)  \
      GH_UNROLL for (int i = 0; i < h; i++) {      \
        const double a = t[i], b = t[i + h];       \
        t[i] = a_op_b;                             \
      }                                            \
    return t[0];                                   \
  }
GH_REDUCE(reduce_add, a + b)
GH_REDUCE(reduce_mul, a * b)
GH_REDUCE(reduce_max, a > b || a != a ? a : b)
GH_REDUCE(reduce_min, a < b || a != a ? a : b)
GH_REDUCE(reduce_max_fast, a > b ? a : b)
#undef GH_REDUCE
#endif

}  // namespace GH_ISA_NS
}  // namespace gh
