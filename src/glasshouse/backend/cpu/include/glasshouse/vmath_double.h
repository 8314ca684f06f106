// vmath_double.h: elementary functions of a `vd`.
//
// Contract: largest error in units in the last place (ULP) of the float64 result, over all finite inputs (measured by
// tests/unit/backend/cpu_kernels/test_vmath_double.py):
//   exp 1   expm1 2   log 1.5   log1p 3   tanh 3   sigmoid 3   silu 3.5   softplus 4   erf 2   sin, cos 1.5 (|x| <= 1e5; above by libm)
//   All others: libm on each lane. gelu as PyTorch computes it, 0.5 x (1 + erf(x / sqrt 2)), with its loss of digits far below 0.
// NaN and infinities as in vmath.h.
#pragma once
#include "vec_double.h"
#include "vmath.h"

namespace gh {
inline namespace GH_ISA_NS {

template <class F>
GH_INLINE vd map_lanes(vd x, F f) { return by_lanes(x, f); }
template <class F>
GH_INLINE vd map_lanes(vd x, vd y, F f) {
  double t[W], u[W];
  store(t, x);
  store(u, y);
  for (int i = 0; i < W; i++) t[i] = f(t[i], u[i]);
  return load(t);
}

// A polynomial, highest coefficient first.
template <int N>
GH_INLINE vd polynomial(vd x, const double (&c)[N]) {
  vd y(c[0]);
  GH_UNROLL for (int i = 1; i < N; i++) y = fma(y, x, vd(c[i]));
  return y;
}

// x 2^n for whole n, |n| <= 1100: in two steps where there is no instruction, so that neither factor overflows.
GH_INLINE vd scale2(vd x, vd n) {
#if defined(GH_AVX512)
  return by_halves(x, n, [](nd a, nd b) { return (nd)_mm512_scalef_pd((__m512d)a, (__m512d)b); });
#else
  const vd half = trunc(n * vd(0.5));
  auto power = [](vd k) {  // adding 1.5 2^52 puts a whole number into the low bits
    return by_halves(k + vd(6755399441055744.0 + 1023.0), [](nd a) { return (nd)((nl)a << 52); });
  };
  return x * power(half) * power(n - half);
#endif
}

// n = round(x / ln 2), r = x - n ln 2 in two parts, q = (e^r - 1 - r) / r^2 by its series up to r^13 / 13!.
struct ExpPartsD { vd n, r, q; };
GH_INLINE ExpPartsD exp_parts(vd x) {
  const vd n = rint(x * vd(1.4426950408889634));
  vd r = fma(n, vd(-6.93145751953125e-1), x);  // 20 bits of ln 2: exact
  r = fma(n, vd(-1.42860682030941723212e-6), r);
  const vd q = polynomial(r, {1.6059043836821613e-10, 2.08767569878681e-9, 2.505210838544172e-8, 2.755731922398589e-7,
                              2.7557319223985893e-6, 2.48015873015873e-5, 1.984126984126984e-4, 1.388888888888889e-3,
                              8.333333333333333e-3, 4.1666666666666664e-2, 1.6666666666666666e-1, 0.5});
  return {n, r, q};
}
// 710 and -746 lie beyond overflow (709.8) and the smallest denormal (-745.1). Operand order lets NaN through.
GH_INLINE vd exp(vd x) {
  const ExpPartsD e = exp_parts(min_fast(vd(710.0), max_fast(vd(-746.0), x)));
  // 0 is scaled where nothing is left: rounding to 0 takes an Intel core 190 cycles.
  return scale2(select(x < vd(-746.0), vd(0.0), fma(e.q * e.r, e.r, e.r) + vd(1.0)), e.n);
}
GH_INLINE vd softmax_exp(vd x, vd m) { return exp(x - m); }
GH_INLINE vd expm1(vd x) {
  const ExpPartsD e = exp_parts(min_fast(vd(710.0), max_fast(vd(-40.0), x)));
  const vd p = fma(e.q * e.r, e.r, e.r), s = scale2(vd(1.0), e.n);
  const vd y = select(e.n > vd(1023.0), scale2(p + vd(1.0), e.n), fma(p, s, s - vd(1.0)));  // s overflows before the result does
  return select(abs(x) < vd(1e-40), x, y);  // keeps -0 and denormals
}

// x = m 2^e with sqrt(1/2) <= m < sqrt(2); log m = 2 atanh(s) with s = (m - 1) / (m + 1), |s| <= 0.1716, by its series up to s^23.
GH_INLINE vd log(vd x) {
  const vm small = x < vd(2.2250738585072014e-308);  // denormals (and <= 0, put right below)
  const vd y = select(small, x * vd(18014398509481984.0), x);
  vd m, e;
  const auto part = [](nd v, nd &mant, nd &expo) {
    const nl b = (nl)v - (nl{} + 0x3fe6a09e667f3bcd);
    mant = (nd)((b & (nl{} + 0xfffffffffffff)) + (nl{} + 0x3fe6a09e667f3bcd));
    const nl k = b >> 52;  // whole numbers below 2^51 become doubles by way of the low bits of 1.5 2^52
    expo = (nd)(k + (nl)(nd{} + 6755399441055744.0)) - (nd{} + 6755399441055744.0);
  };
  part(y.lo, m.lo, e.lo);
  part(y.hi, m.hi, e.hi);
  e = e - select(small, vd(54.0), vd(0.0));
  const vd f = m - vd(1.0), s = f / (m + vd(1.0)), z = s * s;
  const vd p = polynomial(z, {2.0 / 23, 2.0 / 21, 2.0 / 19, 2.0 / 17, 2.0 / 15, 2.0 / 13, 2.0 / 11, 2.0 / 9, 2.0 / 7, 2.0 / 5, 2.0 / 3});
  // log m = f - (h - s (h + z p)) with h = f^2 / 2: f itself is exact, and what is subtracted small.
  const vd h = vd(0.5) * f * f;
  const vd rest = h - fma(s, fma(z, p, h), e * vd(1.42860682030941723212e-6));
  vd r = fma(e, vd(6.93145751953125e-1), f - rest);
  r = select(x == vd(0.0), vd(-__builtin_inf()), r);
  r = select(x == vd(__builtin_inf()), x, r);
  return select((x < vd(0.0)) | is_nan(x), vd(__builtin_nan("")), r);
}
GH_INLINE vd log1p(vd x) {
  const vd u = vd(1.0) + x, d = u - vd(1.0);
  vd r = log(u) * (x / d);  // d carries the rounding of u: the quotient takes it out
  r = select(d == vd(0.0), x, r);
  r = select(x == vd(__builtin_inf()), x, r);
  return select(x == vd(-1.0), vd(-__builtin_inf()), r);
}

GH_INLINE vd tanh(vd x) {
  const vd t = min_fast(vd(20.0), abs(x)), e = expm1(t + t);
  return select(is_nan(x), x, copysign(e / (e + vd(2.0)), x));
}
GH_INLINE vd sigmoid(vd x) { return vd(1.0) / (vd(1.0) + exp(-x)); }
GH_INLINE vd silu(vd x) { return x / (vd(1.0) + exp(-x)); }
GH_INLINE vd softplus(vd x) { return max(x, vd(0.0)) + log1p(exp(-abs(x))); }
GH_INLINE vd relu(vd x) { return max_fast(vd(0.0), x); }  // NaN passes: it is the second operand
GH_INLINE vd rsqrt(vd x) { return vd(1.0) / sqrt(x); }

// Below 1 a polynomial of x^2; from there on 1 - exp(-x^2) times a polynomial of (x - 2) / (x + 2), best on [1, 6].
GH_INLINE vd erf(vd x) {
  const vd a = min_fast(vd(6.0), abs(x)), z = a * a;
  const vd near = a * polynomial(z, {5.957176147748911e-11, -1.1372848856791674e-09, 1.4659775274047436e-08, -1.6350312701054695e-07,
                                     1.6461000484121368e-06, -1.4925595266831182e-05, 0.0001205533111164271, -0.000854832698083379,
                                     0.0052239776248180145, -0.026866170645076792, 0.11283791670954879, -0.3761263890318375,
                                     1.1283791670955126});
  const vd u = (a - vd(2.0)) / (a + vd(2.0));
  const vd q = polynomial(u, {-2.22812957637235e-07, 4.146302183268488e-06, 1.859427387429402e-06, -1.4166339069117108e-05,
                              -2.7640727821912852e-05, 2.7560352756678313e-05, 0.00017436477257256738, 4.355265359817883e-05,
                              -0.0009819771114740715, -0.0008471431229415333, 0.006997461739200575, 0.0037328924016564484,
                              -0.07897858101571269, 0.24165819424248763, -0.4271858474139585, 0.2553956763105057});
  const vd far = fnma(exp(-z), q, vd(1.0));
  return select(is_nan(x), x, copysign(select(a < vd(1.0), near, far), x));
}
GH_INLINE vd gelu(vd x) { return vd(0.5) * x * (vd(1.0) + erf(x * vd(0.70710678118654752440))); }
GH_INLINE vd gelu_tanh(vd x) {
  return vd(0.5) * x * (vd(1.0) + tanh(vd(0.79788456080286535588) * (x + vd(0.044715) * x * x * x)));
}

// q = round(2 x / pi), r = x - q pi / 2 by three parts of pi / 2, series up to r^17 and r^16.
struct TrigPartsD { vd s, c, q; };
GH_INLINE TrigPartsD trig_parts(vd x) {
  const vd q = rint(x * vd(0.63661977236758134308));
  vd r = fma(q, vd(-1.57079632673412561417), x);  // 33 bits: exact up to 2^20 turns
  r = fma(q, vd(-6.07710050630396597660e-11), r);  // the next 33
  r = fma(q, vd(-2.0222662487959506e-21), r);
  const vd z = r * r;
  const vd s = polynomial(z, {2.8114572543455206e-15, -7.647163731819816e-13, 1.6059043836821613e-10, -2.505210838544172e-8,
                              2.7557319223985893e-6, -1.984126984126984e-4, 8.333333333333333e-3, -1.6666666666666666e-1});
  const vd c = polynomial(z, {4.779477332387385e-14, -1.1470745597729725e-11, 2.08767569878681e-9, -2.755731922398589e-7,
                              2.48015873015873e-5, -1.388888888888889e-3, 4.1666666666666664e-2});
  return {fma(s * z, r, r), fma(c * z, z, fma(z, vd(-0.5), vd(1.0))), q};
}
// The sine of the quarter turns `q` after r: sine or cosine, its sign turned every second one.
GH_INLINE vd quarter(const TrigPartsD &p, vd q) {
  const vd odd = q - vd(2.0) * floor(q * vd(0.5)), four = q - vd(4.0) * floor(q * vd(0.25));
  const vd y = select(odd == vd(0.0), p.s, p.c);
  return select(four >= vd(2.0), -y, y);
}
GH_INLINE vd sin(vd x) {
  if (any(!(abs(x) <= vd(1e5)))) return by_lanes(x, [](double a) { return ::sin(a); });
  const TrigPartsD p = trig_parts(x);
  return select(x == vd(0.0), x, quarter(p, p.q));  // -0 stays
}
GH_INLINE vd cos(vd x) {
  if (any(!(abs(x) <= vd(1e5)))) return by_lanes(x, [](double a) { return ::cos(a); });
  const TrigPartsD p = trig_parts(x);
  return quarter(p, p.q + vd(1.0));
}
#define GH_LANES(name) \
  GH_INLINE vd name(vd x) { return by_lanes(x, [](double a) { return __builtin_##name(a); }); }
GH_LANES(tan) GH_LANES(asin) GH_LANES(acos) GH_LANES(atan) GH_LANES(sinh) GH_LANES(cosh) GH_LANES(asinh) GH_LANES(acosh)
GH_LANES(atanh)
#undef GH_LANES
// Of floats 2^(y log2 x) in double. An exponent reaches 150, so log2 x is good to 1e-12 of itself: with 2^r at 2e-10 that is 0.01 of a float's
// last place, where functions of all digits of a double take 1.9 times as long (Zen 5). x = m 2^e with sqrt(1/2) <= m < sqrt(2), log2 m as
// in `log`. Zero, denormals and what is no usual number go to libm.
GH_INLINE vf pow(vf x, vf y) {
  const vm usual = (x >= vf(1.17549435e-38f)) & (x <= vf(3.4028234e38f)) & (abs(y) <= vf(3.4028234e38f));
  if (any(!usual)) return map_lanes(x, y, [](float a, float b) { return ::powf(a, b); });
  const vi b = as_int(x) - vi(0x3f3504f3);
  const vd m = widen(as_float((b & vi(0x7fffff)) + vi(0x3f3504f3))), e = widen(to_float(b >> 23));
  const vd s = (m - vd(1.0)) / (m + vd(1.0));
  const vd l = s * polynomial(s * s, {0.22195308321368667, 0.2623081892525388, 0.3205988979753252, 0.4121985831111324,
                                      0.5770780163555854, 0.9617966939259757, 2.8853900817779268});
  const vd t = min_fast(vd(200.0), max_fast(vd(-200.0), widen(y) * (e + l))), n = rint(t);
  const vd p = polynomial(t - n, {1.3215486790144309e-06, 1.5252733804059841e-05, 0.0001540353039338161, 0.0013333558146428443,
                                  0.009618129107628477, 0.05550410866482158, 0.2402265069591007, 0.6931471805599453, 1.0});
  return narrow(scale2(p, n));
}
GH_INLINE vd pow(vd x, vd y) { return map_lanes(x, y, [](double a, double b) { return __builtin_pow(a, b); }); }
GH_INLINE vd atan2(vd y, vd x) { return map_lanes(y, x, [](double a, double b) { return __builtin_atan2(a, b); }); }

}  // namespace GH_ISA_NS
}  // namespace gh
