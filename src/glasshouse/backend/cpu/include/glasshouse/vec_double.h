// vec_double.h: W lanes of float64 (`vd`) in two registers, so that a vector of results has as many lanes in every element type.
//
// Contract
// - `load(p)`, `store(p, x)` for double, with `Full` or `Tail` as in vec.h. `fma(a, b, c)` is one rounding where the chip has the
//   instruction (AVX2, AVX-512), two elsewhere.
#pragma once
#include "vec.h"

namespace gh {
inline namespace GH_ISA_NS {

typedef double nd __attribute__((vector_size(W * 4)));  // half of the lanes: what one register holds

struct vd {
  nd lo, hi;
  vd() = default;
  GH_INLINE vd(nd a, nd b) : lo(a), hi(b) {}
  GH_INLINE explicit vd(double x) : lo(nd{} + x), hi(nd{} + x) {}
};
GH_INLINE vd operator+(vd a, vd b) { return {a.lo + b.lo, a.hi + b.hi}; }

GH_INLINE nd fma_half(nd a, nd b, nd c) {
#if defined(GH_AVX512)
  return (nd)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif defined(GH_AVX2)
  return (nd)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#else
  return a * b + c;
#endif
}
GH_INLINE vd fma(vd a, vd b, vd c) { return {fma_half(a.lo, b.lo, c.lo), fma_half(a.hi, b.hi, c.hi)}; }

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

}  // namespace GH_ISA_NS
}  // namespace gh
