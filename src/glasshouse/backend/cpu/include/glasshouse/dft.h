// dft.h: short Fourier transforms in registers, and the tables that longer ones are put together with.
//
// Contract
// - `dft<R>(re, im)`: the forward transform of R elements in place, for R of 2, 3, 4, 5, 8 and 16; an element is a number or a vector of them.
// - `turn(i, n, sine)`: cos or sin of i of n parts of a turn, in double.
// - `times(re, im, wr, wi)`: a product with a complex number, each part rounded once where the chip can.
#pragma once
#include "vec.h"

namespace gh {
inline namespace GH_ISA_NS {

// From the first eighth of a turn, so that zeros and halves are exact.
inline double turn(long i, long n, bool sine) {
  long eighth = 8 * (i % n);
  const long part = eighth / n;
  double sign = 1;
  if (part >= 4) sign = -1, eighth -= 4 * n;
  long angle = eighth;  // in [0, 4 n): half a turn
  bool flip = false;
  if (angle > 2 * n) angle = 4 * n - angle, flip = true;  // mirrored: sin stays, cos changes sign
  const bool swap = angle > n;
  const double rad = 0.78539816339744830962 * (double)(swap ? 2 * n - angle : angle) / (double)n;
  const bool as_sine = sine != swap;
  const double value = as_sine ? __builtin_sin(rad) : __builtin_cos(rad);
  return sine ? sign * value : sign * (flip ? -value : value);
}

template <class V> struct NumberOf { typedef decltype(V{}[0] + V{}[0]) type; };
template <> struct NumberOf<float> { typedef float type; };
template <> struct NumberOf<double> { typedef double type; };

// a * b + c of numbers or plain vectors of any length, rounded once where the chip can.
template <class V>
GH_INLINE V add_product(V a, V b, V c) {
#if defined(GH_AVX512) || defined(GH_AVX2)
  constexpr bool is_float = sizeof(typename NumberOf<V>::type) == 4;
  if constexpr (is_float && sizeof(V) == 4) return __builtin_fmaf(a, b, c);
  else if constexpr (is_float && sizeof(V) == 16) return (V)_mm_fmadd_ps((__m128)a, (__m128)b, (__m128)c);
  else if constexpr (is_float && sizeof(V) == 32) return (V)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
  else if constexpr (!is_float && sizeof(V) == 8) return __builtin_fma(a, b, c);
  else if constexpr (!is_float && sizeof(V) == 32) return (V)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#endif
#if defined(GH_AVX512)
  if constexpr (is_float && sizeof(V) == 64) return (V)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
  else if constexpr (!is_float && sizeof(V) == 64) return (V)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#endif
  return a * b + c;
}

template <class V>
GH_INLINE void times(V &re, V &im, V wr, V wi) {
  const V a = re, b = im;
  re = add_product(a, wr, -(b * wi));
  im = add_product(a, wi, b * wr);
}

template <int R, class V>
GH_INLINE void dft(V (&r)[R], V (&i)[R]) {
  typedef typename NumberOf<V>::type T;
  if constexpr (R == 2) {
    const V a = r[0], b = i[0];
    r[0] = a + r[1], i[0] = b + i[1];
    r[1] = a - r[1], i[1] = b - i[1];
  } else if constexpr (R == 3) {
    const T half = T(0.5), root = T(0.86602540378443864676);
    const V sr = r[1] + r[2], si = i[1] + i[2], dr = (r[1] - r[2]) * root, di = (i[1] - i[2]) * root;
    const V cr = r[0] - half * sr, ci = i[0] - half * si;
    r[0] += sr, i[0] += si;
    r[1] = cr + di, i[1] = ci - dr;
    r[2] = cr - di, i[2] = ci + dr;
  } else if constexpr (R == 4) {
    const V ar = r[0] + r[2], ai = i[0] + i[2], br = r[0] - r[2], bi = i[0] - i[2];
    const V cr = r[1] + r[3], ci = i[1] + i[3], er = r[1] - r[3], ei = i[1] - i[3];
    r[0] = ar + cr, i[0] = ai + ci;
    r[1] = br + ei, i[1] = bi - er;
    r[2] = ar - cr, i[2] = ai - ci;
    r[3] = br - ei, i[3] = bi + er;
  } else if constexpr (R == 5) {
    const T c1 = T(0.30901699437494742410), c2 = T(-0.80901699437494742410), s1 = T(0.95105651629515357212), s2 = T(0.58778525229247312917);
    const V ar = r[1] + r[4], ai = i[1] + i[4], br = r[1] - r[4], bi = i[1] - i[4];
    const V cr = r[2] + r[3], ci = i[2] + i[3], er = r[2] - r[3], ei = i[2] - i[3], xr = r[0], xi = i[0];
    const V fr = xr + c1 * ar + c2 * cr, fi = xi + c1 * ai + c2 * ci, gr = xr + c2 * ar + c1 * cr, gi = xi + c2 * ai + c1 * ci;
    const V hr = s1 * br + s2 * er, hi = s1 * bi + s2 * ei, kr = s2 * br - s1 * er, ki = s2 * bi - s1 * ei;
    r[0] = xr + ar + cr, i[0] = xi + ai + ci;
    r[1] = fr + hi, i[1] = fi - hr;
    r[4] = fr - hi, i[4] = fi + hr;
    r[2] = gr + ki, i[2] = gi - kr;
    r[3] = gr - ki, i[3] = gi + kr;
  } else if constexpr (R == 8) {
    const T root = T(0.70710678118654752440);
    V er[4], ei[4], dr[4], di[4];
    GH_UNROLL for (int j = 0; j < 4; j++) er[j] = r[j] + r[j + 4], ei[j] = i[j] + i[j + 4], dr[j] = r[j] - r[j + 4], di[j] = i[j] - i[j + 4];
    const V ar = (dr[1] + di[1]) * root, ai = (di[1] - dr[1]) * root;  // by e^(-i pi / 4)
    const V br = dr[2], cr = (di[3] - dr[3]) * root, ci = -((di[3] + dr[3]) * root);
    dr[1] = ar, di[1] = ai, dr[2] = di[2], di[2] = -br, dr[3] = cr, di[3] = ci;
    dft<4>(er, ei);
    dft<4>(dr, di);
    GH_UNROLL for (int j = 0; j < 4; j++) r[2 * j] = er[j], i[2 * j] = ei[j], r[2 * j + 1] = dr[j], i[2 * j + 1] = di[j];
  } else {
    static_assert(R == 16, "a short transform");
    const T c = T(0.92387953251128675613), s = T(0.38268343236508977173), root = T(0.70710678118654752440);
    V ar[4], ai[4];
    GH_UNROLL for (int j = 0; j < 4; j++) {
      GH_UNROLL for (int k = 0; k < 4; k++) ar[k] = r[j + 4 * k], ai[k] = i[j + 4 * k];
      dft<4>(ar, ai);
      GH_UNROLL for (int k = 0; k < 4; k++) r[j + 4 * k] = ar[k], i[j + 4 * k] = ai[k];
    }
    // Element j + 4 k by e^(-i pi j k / 8).
    auto by = [&](int at, T wr, T wi) __attribute__((always_inline)) {
      const V a = r[at], b = i[at];
      r[at] = a * wr - b * wi, i[at] = a * wi + b * wr;
    };
    by(1 + 4, c, -s), by(2 + 4, root, -root), by(3 + 4, s, -c);
    by(1 + 8, root, -root), by(3 + 8, -root, -root);
    by(1 + 12, s, -c), by(2 + 12, -root, -root), by(3 + 12, -c, s);
    const V turned = r[2 + 8];
    r[2 + 8] = i[2 + 8], i[2 + 8] = -turned;
    V br[16], bi[16];
    GH_UNROLL for (int k = 0; k < 4; k++) {
      GH_UNROLL for (int j = 0; j < 4; j++) ar[j] = r[4 * k + j], ai[j] = i[4 * k + j];
      dft<4>(ar, ai);
      GH_UNROLL for (int j = 0; j < 4; j++) br[k + 4 * j] = ar[j], bi[k + 4 * j] = ai[j];
    }
    GH_UNROLL for (int k = 0; k < 16; k++) r[k] = br[k], i[k] = bi[k];
  }
}

}  // namespace GH_ISA_NS
}  // namespace gh
