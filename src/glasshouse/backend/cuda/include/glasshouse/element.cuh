// element.cuh: the functions that generated code calls on single elements, with the corner cases of the CPU's `element.h`.
//
// Contract
// - Integer division by zero gives 0, shifts past the width give 0 (or the sign); integer arithmetic wraps around.
// - `min`, `max` propagate NaN. `floor_div`, `floor_mod` round toward minus infinity. Casts of floats to integers give, for what
//   int32 (int64 for itself) cannot hold, its least value.
// - Functions of float are those of CUDA's math library: at most 2 units in the last place, `tan` and `pow` 4 and 8.
#pragma once
#include "float8.cuh"

namespace gh {

#define GH_MATH(name)                                         \
  GH_FN float name(float x) { return ::name##f(x); }          \
  GH_FN double name(double x) { return ::name(x); }
GH_MATH(exp) GH_MATH(expm1) GH_MATH(log) GH_MATH(log1p) GH_MATH(sqrt) GH_MATH(sin) GH_MATH(cos) GH_MATH(tan)
GH_MATH(asin) GH_MATH(acos) GH_MATH(atan) GH_MATH(sinh) GH_MATH(cosh) GH_MATH(asinh) GH_MATH(acosh)
GH_MATH(atanh) GH_MATH(erf) GH_MATH(rint) GH_MATH(floor) GH_MATH(ceil) GH_MATH(trunc)
#undef GH_MATH
template <class T, if_int<T> = 0> GH_FN T rint(T x) { return x; }
template <class T, if_int<T> = 0> GH_FN T floor(T x) { return x; }
template <class T, if_int<T> = 0> GH_FN T ceil(T x) { return x; }
template <class T, if_int<T> = 0> GH_FN T trunc(T x) { return x; }
GH_FN float atan2(float y, float x) { return ::atan2f(y, x); }
GH_FN double atan2(double y, double x) { return ::atan2(y, x); }

template <class T, class N> GH_FN T like(const T &, N number) { return T(number); }
template <class T, if_number<T> = 0> GH_FN T select(bool c, T a, T b) { return c ? a : b; }

template <class T, if_real<T> = 0> GH_FN T min(T a, T b) { return a < b || a != a ? a : b; }
template <class T, if_real<T> = 0> GH_FN T max(T a, T b) { return a > b || a != a ? a : b; }
template <class T, if_int<T> = 0> GH_FN T min(T a, T b) { return a < b ? a : b; }
template <class T, if_int<T> = 0> GH_FN T max(T a, T b) { return a > b ? a : b; }
template <class T> GH_FN T min_of(T a, T b) { return a < b ? a : b; }
template <class T> GH_FN T max_of(T a, T b) { return a > b ? a : b; }

GH_FN float abs(float x) { return ::fabsf(x); }
GH_FN double abs(double x) { return ::fabs(x); }
template <class T, if_int<T> = 0> GH_FN T abs(T x) { return x < 0 ? T(0u - (typename unsigned_of<T>::type)x) : x; }
GH_FN bool abs(bool x) { return x; }
template <class T, if_number<T> = 0> GH_FN T sign_of(T x) { return T((x > 0) - (x < 0)); }
template <class T, if_real<T> = 0> GH_FN bool is_nan(T x) { return x != x; }
template <class T, if_real<T> = 0> GH_FN bool is_inf(T x) { return abs(x) == T(__builtin_inff()); }
template <class T, if_int<T> = 0> GH_FN bool is_nan(T) { return false; }
template <class T, if_int<T> = 0> GH_FN bool is_inf(T) { return false; }

#define GH_WRAP(name, op)                                                                     \
  template <class T, if_int<T> = 0> GH_FN T name(T a, T b) {                                  \
    typedef typename unsigned_of<T>::type U;                                                  \
    return T((uint64_t)(U)a op(uint64_t)(U) b);                                               \
  }                                                                                           \
  template <class T, if_real<T> = 0> GH_FN T name(T a, T b) { return a op b; }
GH_WRAP(add, +) GH_WRAP(sub, -) GH_WRAP(mul, *)
#undef GH_WRAP
GH_FN bool add(bool a, bool b) { return a | b; }
GH_FN bool mul(bool a, bool b) { return a & b; }
template <class T, if_int<T> = 0> GH_FN T neg(T a) { return sub(T(0), a); }
template <class T, if_real<T> = 0> GH_FN T neg(T a) { return -a; }

template <class T, if_int<T> = 0> GH_FN T floor_div(T a, T b) {
  if (b == 0) return 0;
  if (T(-1) < T(0) && b == T(-1)) return neg(a);
  T q = a / b;
  return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}
template <class T, if_int<T> = 0> GH_FN T floor_mod(T a, T b) {
  if (b == 0) return 0;
  if (T(-1) < T(0) && b == T(-1)) return 0;
  T r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
GH_FN float fmod_of(float a, float b) { return ::fmodf(a, b); }
GH_FN double fmod_of(double a, double b) { return ::fmod(a, b); }
template <class T, if_real<T> = 0> GH_FN T floor_mod(T a, T b) {
  T r = fmod_of(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
template <class T, if_real<T> = 0> GH_FN T floor_div(T a, T b) {
  if (b == 0) return a / b;
  T r = fmod_of(a, b), q = (a - r) / b;
  if (r != 0 && (r < 0) != (b < 0)) q -= 1;
  if (q == 0) return T(::copysign(0.0, double(a / b)));
  T f = floor(q);
  return q - f > T(0.5) ? f + 1 : f;
}
template <class T, if_int<T> = 0> GH_FN T power(T x, T n) {
  if (n < 0) return x == 1 ? T(1) : x == T(-1) ? ((n & 1) ? T(-1) : T(1)) : T(0);
  T r = 1;
  for (; n; n >>= 1, x = mul(x, x))
    if (n & 1) r = mul(r, x);
  return r;
}
GH_FN float power(float x, float y) { return ::powf(x, y); }
GH_FN double power(double x, double y) { return ::pow(x, y); }

template <class T, if_int<T> = 0> GH_FN T shift_left(T a, T n) {
  typedef typename unsigned_of<T>::type U;
  return n < 0 || n >= T(sizeof(T) * 8) ? T(0) : T((uint64_t)(U)a << n);
}
template <class T, if_int<T> = 0> GH_FN T shift_right(T a, T n) {
  return n < 0 || n >= T(sizeof(T) * 8) ? (a < 0 ? T(-1) : T(0)) : T(a >> n);
}

template <class T, if_real<T> = 0> GH_FN T rsqrt(T x) { return T(1) / sqrt(x); }
template <class T, if_real<T> = 0> GH_FN T sigmoid(T x) { return T(1) / (T(1) + exp(-x)); }
template <class T, if_real<T> = 0> GH_FN T silu(T x) { return x / (T(1) + exp(-x)); }
template <class T, if_number<T> = 0> GH_FN T relu(T x) { return max(x, T(0)); }
template <class T, if_real<T> = 0> GH_FN T softplus(T x) { return max(x, T(0)) + log1p(exp(-abs(x))); }
GH_FN double tanh(double x) { return ::tanh(x); }
#ifdef GH_HALF_RESULTS
#ifdef GH_EMULATE
GH_FN float quotient_near(float x, float y) { return x / y; }
GH_FN float power_near(float x) { return ::exp2f(x); }
GH_FN float size_at_most(float x, float most) { return ::fabsf(x) > most ? most : ::fabsf(x); }
#else
GH_FN float quotient_near(float x, float y) { return ::__fdividef(x, y); }
GH_FN float power_near(float x) { float r; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
// NaN stays NaN.
GH_FN float size_at_most(float x, float most) { float r; asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(::fabsf(x)), "f"(most)); return r; }
#endif
// Within 2^-18 of itself: from 1/8 on by a power and a reciprocal, below by a polynomial, since 1 - 2 / (1 + e^2x) would lose what is small.
GH_FN float tanh(float x) {
  const float a = size_at_most(x, 16.0f), b = a * a;
  const float large = 1.0f - quotient_near(2.0f, 1.0f + power_near(a * 2.8853900817779268f));
  return ::copysignf(a < 0.125f ? a * (1.0f - b * (0.33333333f - b * 0.13333333f)) : large, x);
}
// Five instructions; a division alone is ten and a branch.
GH_FN float silu(float x) { return quotient_near(x, 1.0f + power_near(-1.44269504f * x)); }
// The share of a normal distribution beyond |x| is 2^p, p a polynomial fitted so that the result is within 0.14 of a float16's last place
// everywhere: ten instructions an element, one of them of the slow unit. From 16 on the share is 0; x + |x| is NaN for minus infinity, as with erf.
GH_FN float gelu(float x) {
  const float a = size_at_most(x, 16.0f);
  const float p = -1.0001024f + a * (-1.14941108f + a * (-0.463677287f + a * (-0.0485549644f + a * (0.00592202554f + a * -0.000330378272f))));
  return 0.5f * (x + ::fabsf(x)) - a * power_near(p);
}
// As x times the sigmoid of twice what tanh is taken of: nothing cancels for negative x. A denominator past 2^126 gives 0, as it should.
GH_FN float gelu_tanh(float x) {
  return x * quotient_near(1.0f, 1.0f + power_near(-2.3022082f * (x + 0.044715f * x * x * x)));
}
#else
GH_FN float tanh(float x) { return ::tanhf(x); }
#endif
template <class T, if_real<T> = 0> GH_FN T gelu(T x) { return T(0.5) * x * (T(1) + erf(x * T(0.70710678118654752440))); }
template <class T, if_real<T> = 0> GH_FN T gelu_tanh(T x) {
  return T(0.5) * x * (T(1) + tanh(T(0.79788456080286535588) * (x + T(0.044715) * x * x * x)));
}

template <class To, class From> GH_FN To to(From x) {
  if constexpr (same<To, bool>::value) {
    return x != From(0);
  } else if constexpr (is_int<To>::value && is_real<From>::value) {
    constexpr bool is_wide = sizeof(To) == 8 || (sizeof(To) == 4 && To(-1) > To(0));
    typedef typename conditional<is_wide, int64_t, int32_t>::type Mid;
    const From low = From(std::numeric_limits<Mid>::min());
    if (sizeof(To) == 8 && To(-1) > To(0) && x >= -low && x < -2 * low) return To(x);  // uint64 reaches twice as far
    if (!(x >= low && x < -low)) return To(std::numeric_limits<Mid>::min());
    return To(Mid(x));
  } else {
    return To(x);
  }
}
template <class To, class From, if_number<From> = 0> GH_FN To convert(From x) { return to<To>(x); }
GH_FN float round_bf16(float x) { return to_scalar(from_scalar<bf16>(x)); }
GH_FN float round_f16(float x) { return to_scalar(from_scalar<f16>(x)); }
GH_FN float round_f8e4(float x) { return to_scalar(from_scalar<f8e4>(x)); }
GH_FN float round_f8e5(float x) { return to_scalar(from_scalar<f8e5>(x)); }

GH_FN int64_t clamp(int64_t i, int64_t size) { return i < 0 ? 0 : i >= size ? size - 1 : i; }
GH_FN int64_t reflect(int64_t i, int64_t size) {
  if (i < 0) i = -i;
  if (i >= size) i = 2 * (size - 1) - i;
  return clamp(i, size);
}

// Bytes are quantized without the slow unit that converts: adding 2^23 + 2^22 to a small number leaves its nearest whole number, the even of
// two, in the low bits. A product of 1024 x 2048 x 512 with a GELU and three such steps behind it: 25 us, with conversions and 64-bit limits 40 (H200).
constexpr float WHOLE = 12582912.0f;
GH_FN float small_float(int x) { return float_of(0x4b400000 + x) - WHOLE; }  // below 2^22 in size
GH_FN int small_int(float x) { return bits_in(x + WHOLE) - 0x4b400000; }
// x / y, rounded as a division is, below 2^22 in size; past that as large at least, which ends at the last byte. Only a y at the ends of all floats is left to the
// division, and its code, 2 KB for each result of a thread, to the compiler: it drops it where y is a constant.
GH_FN float quotient(float x, float y) {
  if (!(y > 1e-36f && y < 1e36f)) return x / y;
  const float r = 1.0f / y, q = x * r;
  return ::fabsf(q) < 4194304.0f ? ::fmaf(::fmaf(-q, y, x), r, q) : q;
}
template <class T, class Z> GH_FN float dequantize(T x, float scale, Z zero) {
  if constexpr (sizeof(T) == 1 && sizeof(Z) == 1) return small_float((int)x - (int)zero) * scale;
  if constexpr (sizeof(T) < 4 && sizeof(Z) < 4) return (float)((int32_t)x - (int32_t)zero) * scale;
  else return (float)((int64_t)x - (int64_t)zero) * scale;
}
template <class T, class Z> GH_FN T quantize(float x, float scale, Z zero, int64_t low, int64_t high) {
  if constexpr (sizeof(T) == 1 && sizeof(Z) == 1) {
    const int z = (int)zero;
    const float exact = quotient(x, scale), steps = exact != exact ? 0.0f : exact;
    return (T)(small_int(::fminf(::fmaxf(steps, small_float((int)low - z)), small_float((int)high - z))) + z);
  }
  float steps = ::rintf(x / scale);
  steps = steps != steps ? 0.0f : steps > 1099511627776.0f ? 1099511627776.0f : steps < -1099511627776.0f ? -1099511627776.0f : steps;
  const int64_t moved = (int64_t)steps + (int64_t)zero;
  return (T)(moved < low ? low : moved > high ? high : moved);
}

// Random numbers are those of `glasshouse.ops.philox`, bit for bit.
struct Philox {
  uint32_t w[4];
  GH_FN Philox(uint64_t seed, uint64_t i) {
    w[0] = (uint32_t)i, w[1] = (uint32_t)(i >> 32), w[2] = 0, w[3] = 0;
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; ++round) {
      const uint64_t p0 = 0xD2511F53ull * w[0], p1 = 0xCD9E8D57ull * w[2];
      const uint32_t a = (uint32_t)(p1 >> 32) ^ w[1] ^ k0, c = (uint32_t)(p0 >> 32) ^ w[3] ^ k1;
      w[0] = a, w[1] = (uint32_t)p1, w[2] = c, w[3] = (uint32_t)p0;
      k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
  }
};
template <class T> GH_FN T uniform(int64_t seed, int64_t i, T low, T width) {
  const float u = (float)(Philox((uint64_t)seed, (uint64_t)i).w[0] >> 8) * 5.9604644775390625e-8f;
  return low + T(u) * width;
}
template <class T> GH_FN T normal(int64_t seed, int64_t i, T mean, T std) {
  const Philox p((uint64_t)seed, (uint64_t)i);
  const float a = (float)((p.w[0] >> 8) + 1) * 5.9604644775390625e-8f, b = (float)(p.w[1] >> 8) * 5.9604644775390625e-8f;
  const float z = ::sqrtf(-2.0f * ::logf(a)) * ::cosf(b * 6.2831855f);
  return mean + T(z) * std;
}
GH_FN bool keeps(int64_t seed, int64_t i, uint32_t limit) { return (Philox((uint64_t)seed, (uint64_t)i).w[0] >> 8) >= limit; }

}  // namespace gh
