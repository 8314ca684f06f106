// vmath.h: elementary functions of a `vf`, the same algorithm on every ISA (so results agree to rounding across machines).
//
// Contract: largest error against float64, in units in the last place (ULP) of the float32 result, over all finite inputs
// (measured by tests/unit/backend/cpu_kernels/test_vmath.py; FMA hardware / without FMA):
//   exp 1/1.2   expm1 1.6   log 1.1   log1p 2.3   tanh 1.5   sigmoid 2.5   silu 3   softplus 2.8   erf 1.7
//   sin, cos 1.5, tan 3 (|x| <= 1e5 / 1e3; above by libm)   atan2 3   fmod_of exact   pow 1 (vmath_double.h)   exp2: libm on each lane
//   gelu, gelu_tanh: absolute error <= 3.5e-7 * max(|result|, 0.1)
//   Results of sigmoid, silu and exp_nonpos below 1.7e-38 may be 0.
// NaN in gives NaN out; infinities as in NumPy and torch: gelu(-inf) = gelu_tanh(-inf) = silu(-inf) = NaN, not the limit 0.
// exp gives denormals near its lower end, as libm does.
#pragma once
#include "vec.h"
#include "vmath_tables.h"
#include <math.h>

namespace gh {
inline namespace GH_ISA_NS {

// Any scalar function, lane by lane: for the rare ones.
template <class F>
GH_INLINE vf map_lanes(vf x, F f) {
  float t[W];
  store(t, x);
  for (int i = 0; i < W; i++) t[i] = f(t[i]);
  return load(t);
}
template <class F>
GH_INLINE vf map_lanes(vf x, vf y, F f) {
  float t[W], u[W];
  store(t, x);
  store(u, y);
  for (int i = 0; i < W; i++) t[i] = f(t[i], u[i]);
  return load(t);
}

// n = round(x / ln2), r = x - n ln2 in two parts; q = (e^r - 1 - r) / r^2.
struct ExpParts { vf n, r, q; };
GH_INLINE ExpParts exp_parts(vf x) {
  const float magic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  vf n = fma(x, vf(1.44269504f), vf(magic)) - vf(magic);
  vf r = fnma(n, vf(0.693359375f), x);           // exact: 0.693359375 has 9 significant bits
  r = fma(n, vf(2.12194440e-4f), r);
  vf q = fma(r, vf(1.985779090e-04f), vf(1.393359737e-03f));
  q = fma(q, r, vf(8.333360776e-03f));
  q = fma(q, r, vf(4.166646674e-02f));
  q = fma(q, r, vf(1.666666716e-01f));
  q = fma(q, r, vf(0.5f));
  return {n, r, q};
}
// 104 and -104 lie beyond overflow (88.73) and the smallest denormal (-103.97). Operand order lets NaN through.
GH_INLINE vf exp(vf x) {
  ExpParts e = exp_parts(min_fast(vf(104.0f), max_fast(vf(-104.0f), x)));
  return scale2_from(-104.0f, x, fma(fma(e.q, e.r, vf(1.0f)), e.r, vf(1.0f)), e.n);
}
// For arguments <= 0 (softmax): results below 1.7e-38 are 0: denormals cost cycles wherever they go, and it saves the second
// scaling where there is no scalef.
GH_INLINE vf exp_nonpos(vf x) {
#if defined(GH_AVX512)
  ExpParts e = exp_parts(x);  // of -inf NaN, which is not kept
  return scale2_from(-87.0f, x, fma(fma(e.q, e.r, vf(1.0f)), e.r, vf(1.0f)), e.n);
#else
  vm tiny = x < vf(-87.0f);
  ExpParts e = exp_parts(max_fast(vf(-87.0f), x));
  vf p = fma(fma(e.q, e.r, vf(1.0f)), e.r, vf(1.0f));
  p = as_float(as_int(p) + (round_to_int(e.n) << 23));
  return select(is_nan(x), x, select(tiny, vf(0.0f), p));
#endif
}
// Softmax's exp(x - m), m the row's maximum. The maximum is subtracted before anything is scaled: x log2 e + m log2 e in one
// multiply-add would keep the rounding of m log2 e, which is 1e3 already where a mask makes m -1e10. The relative error is
// |x - m| * 1.2e-7, so largest where the weight is smallest. Weights below 1.2e-38 are 0. x = -inf gives 0, NaN gives NaN.
GH_INLINE vf softmax_exp(vf x, vf m) {
  vf y = (x - m) * vf(1.44269504f);
#if !defined(GH_AVX512)
  y = max_fast(vf(-150.0f), y);
#endif
  vf n = rint(y), r = y - n;
  vf p = fma(r, vf(1.333353808e-03f), vf(9.666245431e-03f));
  p = fma(p, r, vf(5.550500378e-02f));
  p = fma(p, r, vf(2.402235121e-01f));
  p = fma(p, r, vf(6.931471229e-01f));
  p = fma(p, r, vf(1.0f));
#if defined(GH_AVX512)
  return scale2_from(-126.0f, y, p, n);  // what comes of -inf is not kept
#else
  vf e = as_float(as_int(p) + (round_to_int(n) << 23));
  return select(is_nan(y), y, select(y < vf(-126.0f), vf(0.0f), e));
#endif
}
GH_INLINE vf exp2(vf x) { return map_lanes(x, [](float a) { return ::exp2f(a); }); }
GH_INLINE vf expm1(vf x) {
  vf c = min_fast(vf(104.0f), max_fast(vf(-20.0f), x));
  ExpParts e = exp_parts(c);
  vf p = fma(e.q * e.r, e.r, e.r);               // e^r - 1
  vf s = scale2(vf(1.0f), e.n);
  vf y = fma(p, s, s - vf(1.0f));
  y = select(e.n > vf(127.0f), scale2(p + vf(1.0f), e.n), y);   // s overflows before the result does
  return select(abs(x) < vf(1e-20f), x, y);      // keeps -0 and denormals
}

GH_INLINE vf log_normal(vf m, vf e) {  // log(m 2^e) with sqrt(1/2) <= m < sqrt(2)
  vf f = m - vf(1.0f), z = f * f;
  vf p = fma(f, vf(-7.974208891e-02f), vf(1.265569478e-01f));
  p = fma(p, f, vf(-1.298927814e-01f));
  p = fma(p, f, vf(1.420994550e-01f));
  p = fma(p, f, vf(-1.664158106e-01f));
  p = fma(p, f, vf(2.000120133e-01f));
  p = fma(p, f, vf(-2.500030398e-01f));
  p = fma(p, f, vf(3.333333135e-01f));
  vf y = p * f * z;
  y = fma(e, vf(-2.12194440e-4f), y);
  y = fma(z, vf(-0.5f), y);
  return fma(e, vf(0.693359375f), f + y);
}
GH_INLINE vf log(vf x) {
  vm small = x < vf(1.17549435e-38f);            // denormals (and <= 0, put right below)
  vf y = select(small, x * vf(8388608.0f), x);
  vi b = as_int(y) - vi(0x3f3504f3);             // sqrt(1/2): the exponent then counts from there
  vf e = to_float(b >> 23) - select(small, vf(23.0f), vf(0.0f));
  vf m = as_float((b & vi(0x7fffff)) + vi(0x3f3504f3));
  vf r = log_normal(m, e);
  r = select(x == vf(0.0f), vf(-__builtin_inff()), r);
  r = select(x == vf(__builtin_inff()), x, r);
  return select((x < vf(0.0f)) | is_nan(x), vf(__builtin_nanf("")), r);
}
GH_INLINE vf log1p(vf x) {
  vf u = vf(1.0f) + x, d = u - vf(1.0f);
  vf r = log(u) * (x / d);                       // d carries the rounding of u: the quotient takes it out
  r = select(d == vf(0.0f), x, r);
  r = select(x == vf(__builtin_inff()), x, r);
  return select(x == vf(-1.0f), vf(-__builtin_inff()), r);
}
GH_INLINE vf log2(vf x) { return log(x) * vf(1.44269504f); }

GH_INLINE vf tanh(vf x) {
  vf t = abs(x), s = t * t;
  vf p = fma(s, vf(2.370841103e-03f), vf(-8.410139009e-03f));
  p = fma(p, s, vf(2.178834379e-02f));
  p = fma(p, s, vf(-5.396155640e-02f));
  p = fma(p, s, vf(1.333331317e-01f));
  p = fma(p, s, vf(-3.333333433e-01f));
  vf near = fma(p * s, t, t);
  vf c = min_fast(vf(10.0f), t);
  ExpParts e = exp_parts(c + c);
  vf ex = scale2(fma(fma(e.q, e.r, vf(1.0f)), e.r, vf(1.0f)), e.n);
  vf far = vf(1.0f) - vf(2.0f) / (ex + vf(1.0f));
  return copysign(select(t < vf(0.6f), near, far), x);
}
GH_INLINE vf sigmoid(vf x) { return vf(1.0f) / (vf(1.0f) + exp(-x)); }
GH_INLINE vf silu(vf x) { return x / (vf(1.0f) + exp(-x)); }
GH_INLINE vf softplus(vf x) { return max(x, vf(0.0f)) + log1p(exp(-abs(x))); }

// Piecewise polynomial of t >= 0: the low four bits of the magic sum are the segment's number.
template <int D>
GH_INLINE vf table_poly(const float (&c)[D][16], vf s) {
  const float magic = 12582912.0f;
  vf m = s + vf(magic);
  vi i = as_int(m);
  vf u = s - (m - vf(magic));
  vf y = lookup16(c[D - 1], i);
  GH_UNROLL for (int d = D - 2; d >= 0; d--) y = fma(y, u, lookup16(c[d], i));
  return y;
}
GH_INLINE vf erf(vf x) {
  vf a = abs(x), z = a * a;
  vf p = fma(z, vf(-6.965941866e-04f), vf(5.140183493e-03f));
  p = fma(p, z, vf(-2.684533037e-02f));
  p = fma(p, z, vf(1.128355563e-01f));
  p = fma(p, z, vf(-3.761262894e-01f));
  p = fma(p, z, vf(1.283791661e-01f));
  vf near = fma(p, a, a);                        // |x| < 0.6: relative error stays small down to 0
  vf t = min_fast(vf(3.99f), a);
  vf far = table_poly(erf_table, t * vf(1.0f / erf_step));
  far = select(a > vf(3.92f), vf(1.0f), min_fast(vf(1.0f), far));  // erf(3.92) rounds to 1; NaN is not greater
  return copysign(select(a < vf(0.6f), near, far), x);
}
// gelu(x) = max(x, 0) - |x| (1 - Phi(|x|)): no cancellation, one table, no exp and no division.
template <int D>
GH_INLINE vf gelu_from(const float (&c)[D][16], float step, vf x) {
  const float last = 15.4999f;
  vf t = abs(x), s = t * vf(1.0f / step);
  vf q = t * table_poly(c, min_fast(vf(last), s));
  return max_fast(vf(0.0f), x) - select(s < vf(last), q, min_fast(x, vf(0.0f)) * vf(0.0f));  // NaN at -inf alone
}
GH_INLINE vf gelu(vf x) { return gelu_from(gelu_table, gelu_step, x); }
GH_INLINE vf gelu_tanh(vf x) { return gelu_from(gelu_tanh_table, gelu_tanh_step, x); }

// q = round(2x/pi); r = x - q pi/2 by three parts of pi/2 (7, 11 and 24 bits and the rest).
struct TrigParts { vf s, c; vi q; };
GH_INLINE TrigParts trig_parts(vf x) {
  const float magic = 12582912.0f;
  vf n = fma(x, vf(0.636619772f), vf(magic));
  vi q = as_int(n);
  n = n - vf(magic);
#if defined(GH_AVX512) || defined(GH_AVX2) || defined(__ARM_FEATURE_FMA)
  vf r = fnma(n, vf(1.57079637f), x);
  r = fma(n, vf(4.37113883e-8f), r);
  r = fma(n, vf(1.71512489e-15f), r);
#else
  vf r = fnma(n, vf(1.5703125f), x);
  r = fnma(n, vf(4.83751297e-4f), r);
  r = fnma(n, vf(7.54953362e-8f), r);
  r = fnma(n, vf(2.5633441e-12f), r);
#endif
  vf z = r * r;
  vf s = fma(z, vf(2.724937985e-06f), vf(-1.984008122e-04f));
  s = fma(s, z, vf(8.333331905e-03f));
  s = fma(s, z, vf(-1.666666716e-01f));
  s = fma(s * z, r, r);
  vf c = fma(z, vf(2.454758214e-05f), vf(-1.388830133e-03f));
  c = fma(c, z, vf(4.166666418e-02f));
  c = fma(c, z * z, fma(z, vf(-0.5f), vf(1.0f)));
  return {s, c, q};
}
GH_INLINE vf flip_sign(vf y, vi q) { return as_float(as_int(y) ^ ((q & vi(2)) << 30)); }
#if defined(GH_AVX512) || defined(GH_AVX2) || defined(__ARM_FEATURE_FMA)
constexpr float trig_limit = 1e5f;
#else
constexpr float trig_limit = 1e3f;
#endif
GH_INLINE vf sin(vf x) {
  if (any(!(abs(x) <= vf(trig_limit)))) return map_lanes(x, [](float a) { return ::sinf(a); });
  TrigParts p = trig_parts(x);
  return select(x == vf(0.0f), x, flip_sign(select((p.q & vi(1)) == vi(0), p.s, p.c), p.q));  // -0 stays
}
GH_INLINE vf cos(vf x) {
  if (any(!(abs(x) <= vf(trig_limit)))) return map_lanes(x, [](float a) { return ::cosf(a); });
  TrigParts p = trig_parts(x);
  return flip_sign(select((p.q & vi(1)) == vi(0), p.c, p.s), p.q + vi(1));
}
GH_INLINE vf tan(vf x) {
  if (any(!(abs(x) <= vf(trig_limit)))) return map_lanes(x, [](float a) { return ::tanf(a); });
  TrigParts p = trig_parts(x);
  const vm even = (p.q & vi(1)) == vi(0);
  return select(x == vf(0.0f), x, select(even, p.s, -p.c) / select(even, p.c, p.s));
}
// The angle of the lesser of |x| and |y| over the greater, by a polynomial below tan(pi / 8) and as pi / 4 + the angle of (t - 1) / (t + 1)
// above; then turned into its eighth. Parts of pi that a float does not hold are added last.
GH_INLINE vf atan2(vf y, vf x) {
  const vf ax = abs(x), ay = abs(y), top = max_fast(ax, ay);
  const vf scale = select(top > vf(1e38f), vf(0.25f), vf(1.0f));  // the sum below stays finite
  const vf hi = top * scale, lo = min_fast(ax, ay) * scale;
  const vm same = lo == hi, far = (lo > hi * vf(0.414213562f)) | same;
  const vf t = select(same, vf(0.0f), select(far, lo - hi, lo)) / select(same, vf(1.0f), select(far, lo + hi, hi));
  const vf z = t * t;
  vf a = fma(z, vf(-0.06083457f), vf(0.105960034f));
  a = fma(a, z, vf(-0.14243849f));
  a = fma(a, z, vf(0.1999849f));
  a = fma(a, z, vf(-0.33333316f));
  a = fma(a * z, t, t);
  a = select(far, vf(0.785398185f) + (a - vf(2.18556941e-8f)), a);
  a = select(hi == vf(0.0f), vf(0.0f), a);
  a = select(ay > ax, vf(1.57079637f) - (a + vf(4.37113883e-8f)), a);
  a = select(as_int(x) < vi(0), vf(3.14159274f) - (a + vf(8.74227766e-8f)), a);
  return select(is_nan(x) | is_nan(y), x + y, copysign(a, y));
}
// a - b * trunc(a / b), exact. The quotient is rounded to a whole number at most one too large, and what is left then has the other sign.
GH_INLINE vf fmod_of(vf a, vf b) {
#if defined(GH_AVX512) || defined(GH_AVX2) || defined(__ARM_FEATURE_FMA)
  const vf q = trunc(a / b);
  const vm usual = (abs(q) < vf(8388608.0f)) & (abs(b) <= vf(3.4028234e38f));
  if (!any(!usual)) {
    vf r = fnma(q, b, a);
    r = select(((r < vf(0.0f)) ^ (a < vf(0.0f))) & (r != vf(0.0f)), r + copysign(b, a), r);
    return copysign(r, a);
  }
#endif
  return map_lanes(a, b, [](float x, float y) { return ::fmodf(x, y); });
}
GH_INLINE vf relu(vf x) { return max_fast(vf(0.0f), x); }  // NaN passes: it is the second operand
GH_INLINE vf rsqrt(vf x) { return vf(1.0f) / sqrt(x); }
GH_INLINE vf sign(vf x) {
  vf s = select(x > vf(0.0f), vf(1.0f), select(x < vf(0.0f), vf(-1.0f), vf(0.0f)));
  return select(is_nan(x), x, s);
}

}  // namespace GH_ISA_NS
}  // namespace gh
