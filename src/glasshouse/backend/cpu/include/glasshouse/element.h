// element.h: single elements: the functions of vmath.h for float, double and integers, with NumPy's corner cases, so that
// generated code reads the same whether a variable is one element or a vector of them.
//
// Contract
// - float and double go through libm (at most 1 ULP); integer division by zero gives 0, shifts past the width give 0 (or the
//   sign), as NumPy does; nothing here is undefined behaviour.
// - `min`, `max` propagate NaN. `floor_div`, `floor_mod` round toward minus infinity. Casts of floats to integers
//   do what x86 does: what int32 (int64 for itself) cannot hold, and NaN, is its least value, of which a narrow type keeps the low bits.
#pragma once
#include "vmath_double.h"
#include <limits>
#include <type_traits>

namespace gh {
inline namespace GH_ISA_NS {

template <class T> using if_real = typename std::enable_if<std::is_floating_point<T>::value, int>::type;
template <class T> using if_int = typename std::enable_if<std::is_integral<T>::value, int>::type;
template <class T> using if_number = typename std::enable_if<std::is_arithmetic<T>::value, int>::type;

#define GH_LIBM(name)                                                             \
  GH_INLINE float name(float x) { return __builtin_##name##f(x); }                \
  GH_INLINE double name(double x) { return __builtin_##name(x); }
GH_LIBM(exp) GH_LIBM(expm1) GH_LIBM(log) GH_LIBM(log1p) GH_LIBM(sqrt) GH_LIBM(sin) GH_LIBM(cos) GH_LIBM(tan)
GH_LIBM(asin) GH_LIBM(acos) GH_LIBM(atan) GH_LIBM(sinh) GH_LIBM(cosh) GH_LIBM(tanh) GH_LIBM(asinh) GH_LIBM(acosh)
GH_LIBM(atanh) GH_LIBM(erf) GH_LIBM(rint) GH_LIBM(floor) GH_LIBM(ceil) GH_LIBM(trunc)
#undef GH_LIBM
template <class T, if_int<T> = 0> GH_INLINE T rint(T x) { return x; }
template <class T, if_int<T> = 0> GH_INLINE T floor(T x) { return x; }
template <class T, if_int<T> = 0> GH_INLINE T ceil(T x) { return x; }
template <class T, if_int<T> = 0> GH_INLINE T trunc(T x) { return x; }
#define GH_LANES(name) \
  GH_INLINE vf name(vf x) { return map_lanes(x, [](float a) { return __builtin_##name##f(a); }); }
GH_LANES(asin) GH_LANES(acos) GH_LANES(atan) GH_LANES(sinh) GH_LANES(cosh) GH_LANES(asinh) GH_LANES(acosh) GH_LANES(atanh)
#undef GH_LANES
GH_INLINE float atan2(float y, float x) { return __builtin_atan2f(y, x); }
GH_INLINE double atan2(double y, double x) { return __builtin_atan2(y, x); }
GH_INLINE float pow(float x, float y) { return __builtin_powf(x, y); }
GH_INLINE double pow(double x, double y) { return __builtin_pow(x, y); }

// A number of the same kind as x: an element, or a vector of equal elements.
template <class T, class N> GH_INLINE T like(const T &, N number) { return T(number); }

template <class T, if_number<T> = 0> GH_INLINE T select(bool c, T a, T b) { return c ? a : b; }
GH_INLINE vm select(vm c, vm a, vm b) { return (c & a) | ((!c) & b); }

// Two choices in a row and no `||`: compilers make a jump of that, which data at random mispredict.
template <class T, if_real<T> = 0>
GH_INLINE T min(T a, T b) {
  const T least = a < b ? a : b;
  return a != a ? a : least;
}
template <class T, if_real<T> = 0>
GH_INLINE T max(T a, T b) {
  const T most = a > b ? a : b;
  return a != a ? a : most;
}
template <class T, if_int<T> = 0> GH_INLINE T min(T a, T b) { return a < b ? a : b; }
template <class T, if_int<T> = 0> GH_INLINE T max(T a, T b) { return a > b ? a : b; }
template <class T> GH_INLINE T min_of(T a, T b) { return a < b ? a : b; }
template <class T> GH_INLINE T max_of(T a, T b) { return a > b ? a : b; }

template <class T, if_real<T> = 0> GH_INLINE T abs(T x) { return x < 0 || (x == 0 && 1 / x < 0) ? -x : x; }
template <class T, if_int<T> = 0> GH_INLINE T abs(T x) { return x < 0 ? T(0u - (typename std::make_unsigned<T>::type)x) : x; }
GH_INLINE bool abs(bool x) { return x; }
// The sign of NaN is 0, as in torch.
template <class T, if_number<T> = 0> GH_INLINE T sign_of(T x) { return T((x > 0) - (x < 0)); }
GH_INLINE vf sign_of(vf x) { return select(x > vf(0.0f), vf(1.0f), select(x < vf(0.0f), vf(-1.0f), vf(0.0f))); }
GH_INLINE vd sign_of(vd x) { return select(x > vd(0.0), vd(1.0), select(x < vd(0.0), vd(-1.0), vd(0.0))); }
template <class T, if_real<T> = 0> GH_INLINE bool is_nan(T x) { return x != x; }
template <class T, if_real<T> = 0> GH_INLINE bool is_inf(T x) { return abs(x) == std::numeric_limits<T>::infinity(); }
template <class T, if_int<T> = 0> GH_INLINE bool is_nan(T) { return false; }
template <class T, if_int<T> = 0> GH_INLINE bool is_inf(T) { return false; }

// Integer arithmetic wraps around: computed unsigned, so that overflow is defined.
template <class T> struct wrapping { typedef typename std::make_unsigned<T>::type type; };
template <> struct wrapping<bool> { typedef unsigned char type; };
#define GH_WRAP(name, op)                                                                              \
  template <class T, if_int<T> = 0> GH_INLINE T name(T a, T b) {                                       \
    typedef typename wrapping<T>::type U;                                                              \
    return T((unsigned long long)(U)a op(unsigned long long)(U)b);                                     \
  }                                                                                                    \
  template <class T, if_real<T> = 0> GH_INLINE T name(T a, T b) { return a op b; }                     \
  GH_INLINE vf name(vf a, vf b) { return a op b; }                                                     \
  GH_INLINE vd name(vd a, vd b) { return a op b; }
GH_WRAP(add, +) GH_WRAP(sub, -) GH_WRAP(mul, *)
#undef GH_WRAP
GH_INLINE bool add(bool a, bool b) { return a | b; }
GH_INLINE bool mul(bool a, bool b) { return a & b; }
template <class T, if_int<T> = 0> GH_INLINE T neg(T a) { return sub(T(0), a); }
template <class T, if_real<T> = 0> GH_INLINE T neg(T a) { return -a; }
GH_INLINE vf neg(vf a) { return -a; }
GH_INLINE vd neg(vd a) { return -a; }

template <class T, if_int<T> = 0> GH_INLINE T floor_div(T a, T b) {
  if (b == 0) return 0;
  if (std::is_signed<T>::value && b == T(-1)) return neg(a);
  T q = a / b;
  return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}
template <class T, if_int<T> = 0> GH_INLINE T floor_mod(T a, T b) {
  if (b == 0) return 0;
  if (std::is_signed<T>::value && b == T(-1)) return 0;
  T r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
GH_INLINE float fmod_of(float a, float b) { return __builtin_fmodf(a, b); }
GH_INLINE double fmod_of(double a, double b) { return __builtin_fmod(a, b); }
template <class T, if_real<T> = 0> GH_INLINE T floor_mod(T a, T b) {
  T r = fmod_of(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;  // a zero keeps a's sign, as in PyTorch
}
GH_INLINE vd fmod_of(vd a, vd b) {
  return map_lanes(a, b, [](double x, double y) { return __builtin_fmod(x, y); });
}
template <class V> GH_INLINE V floor_mod_lanes(V a, V b) {
  const V r = fmod_of(a, b), none(0.0f);
  return select((r != none) & ((r < none) ^ (b < none)), r + b, r);
}
GH_INLINE vf floor_mod(vf a, vf b) { return floor_mod_lanes(a, b); }
GH_INLINE vd floor_mod(vd a, vd b) { return floor_mod_lanes(a, b); }
template <class T, if_real<T> = 0> GH_INLINE T floor_div(T a, T b) {
  if (b == 0) return a / b;
  T r = fmod_of(a, b), q = (a - r) / b;
  if (r != 0 && (r < 0) != (b < 0)) q -= 1;
  if (q == 0) return T(__builtin_copysign(0.0, double(a / b)));
  T f = floor(q);
  return q - f > T(0.5) ? f + 1 : f;
}
template <class T, if_int<T> = 0> GH_INLINE T power(T x, T n) {
  if (n < 0) return x == 1 ? T(1) : x == T(-1) ? ((n & 1) ? T(-1) : T(1)) : T(0);
  T r = 1;
  for (; n; n >>= 1, x = mul(x, x))
    if (n & 1) r = mul(r, x);
  return r;
}
template <class T, if_real<T> = 0> GH_INLINE T power(T x, T y) { return pow(x, y); }
GH_INLINE vf power(vf x, vf y) { return pow(x, y); }
GH_INLINE vd power(vd x, vd y) { return pow(x, y); }

template <class T, if_int<T> = 0> GH_INLINE T shift_left(T a, T n) {
  typedef typename wrapping<T>::type U;
  return n < 0 || n >= T(sizeof(T) * 8) ? T(0) : T((unsigned long long)(U)a << n);
}
template <class T, if_int<T> = 0> GH_INLINE T shift_right(T a, T n) {
  return n < 0 || n >= T(sizeof(T) * 8) ? (a < 0 ? T(-1) : T(0)) : T(a >> n);
}

template <class T, if_real<T> = 0> GH_INLINE T rsqrt(T x) { return T(1) / sqrt(x); }
template <class T, if_real<T> = 0> GH_INLINE T sigmoid(T x) { return T(1) / (T(1) + exp(-x)); }
template <class T, if_real<T> = 0> GH_INLINE T silu(T x) { return x / (T(1) + exp(-x)); }
template <class T, if_number<T> = 0> GH_INLINE T relu(T x) { return max(x, T(0)); }
template <class T, if_real<T> = 0> GH_INLINE T softplus(T x) { return max(x, T(0)) + log1p(exp(-abs(x))); }
template <class T, if_real<T> = 0> GH_INLINE T gelu(T x) { return T(0.5) * x * (T(1) + erf(x * T(0.70710678118654752440))); }
template <class T, if_real<T> = 0> GH_INLINE T gelu_tanh(T x) {
  return T(0.5) * x * (T(1) + tanh(T(0.79788456080286535588) * (x + T(0.044715) * x * x * x)));
}

// Conversion of an element to another type.
template <class To, class From> GH_INLINE To to(From x) {
  if (std::is_same<To, bool>::value) return To(x != 0);
  if (std::is_integral<To>::value && std::is_floating_point<From>::value) {
    constexpr bool is_wide = sizeof(To) == 8 || (sizeof(To) == 4 && To(-1) > To(0));
    typedef typename std::conditional<is_wide, int64_t, int32_t>::type Mid;
    const From low = From(std::numeric_limits<Mid>::min());
    if (sizeof(To) == 8 && To(-1) > To(0) && x >= -low && x < -2 * low) return To(x);  // uint64 reaches twice as far
    if (!(x >= low && x < -low)) return To(std::numeric_limits<Mid>::min());
    return To(Mid(x));
  }
  return To(x);
}
GH_INLINE float round_bf16(float x) { return to_scalar(from_scalar<bf16>(x)); }
GH_INLINE float round_f16(float x) { return to_scalar(from_scalar<f16>(x)); }
GH_INLINE float round_f8e4(float x) { return to_scalar(from_scalar<f8e4>(x)); }
GH_INLINE float round_f8e5(float x) { return to_scalar(from_scalar<f8e5>(x)); }
template <class T> GH_INLINE vf rounded(vf x) {
  T t[W];
  store(t, x);
  return load(t);
}
GH_INLINE vf round_bf16(vf x) { return rounded<bf16>(x); }
GH_INLINE vf round_f16(vf x) { return rounded<f16>(x); }
GH_INLINE vf round_f8e4(vf x) { return widen_float8<3>(narrow_float8<3>(x)); }
GH_INLINE vf round_f8e5(vf x) { return widen_float8<2>(narrow_float8<2>(x)); }

// The cast that generated code uses: an element to an element, a vector to another kind of vector or a mask.
template <class To, class From, if_number<From> = 0> GH_INLINE To convert(From x) { return to<To>(x); }
template <class To> struct VectorOf { typedef vf type; };
template <> struct VectorOf<double> { typedef vd type; };
template <> struct VectorOf<bool> { typedef vm type; };
template <class To> GH_INLINE typename VectorOf<To>::type convert(vm m) {
  typedef typename VectorOf<To>::type V;
  if constexpr (std::is_same<To, bool>::value) return m;
  else return select(m, V(To(1)), V(To(0)));
}
template <class To> GH_INLINE typename VectorOf<To>::type convert(vf x) {
  if constexpr (std::is_same<To, bool>::value) return x != vf(0.0f);
  else if constexpr (std::is_same<To, double>::value) return widen(x);
  else return x;
}
template <class To> GH_INLINE typename VectorOf<To>::type convert(vd x) {
  if constexpr (std::is_same<To, bool>::value) return x != vd(0.0);
  else if constexpr (std::is_same<To, double>::value) return x;
  else return narrow(x);
}

// Boolean vectors.
GH_INLINE vm splat(bool b) { return vf(b ? 1.0f : 0.0f) != vf(0.0f); }
GH_INLINE vm equal(vm a, vm b) { return !(a ^ b); }

// What a fold keeps of the last, partial vector.
GH_INLINE vf merge(Full, vf, vf next) { return next; }
GH_INLINE vf merge(Tail t, vf old, vf next) { return select(first_n(t.n), next, old); }
GH_INLINE vd merge(Full, vd, vd next) { return next; }
GH_INLINE vd merge(Tail t, vd old, vd next) { return select(first_n(t.n), next, old); }
GH_INLINE vm merge(Full, vm, vm next) { return next; }
GH_INLINE vm merge(Tail t, vm old, vm next) { return (first_n(t.n) & next) | ((!first_n(t.n)) & old); }

// Places in a tensor that are computed: kept inside it.
GH_INLINE int64_t clamp(int64_t i, int64_t size) { return i < 0 ? 0 : i >= size ? size - 1 : i; }
GH_INLINE int64_t reflect(int64_t i, int64_t size) {
  if (i < 0) i = -i;
  if (i >= size) i = 2 * (size - 1) - i;
  return clamp(i, size);
}

}  // namespace GH_ISA_NS
}  // namespace gh
