// platform.cuh: what device code needs of its surroundings: types, limits, half floats, collective steps of a warp.
//
// Contract
// - Compiled by NVRTC as it is (no header of the toolkit is needed), or by a host compiler behind the emulator of the tests, which runs
//   blocks one after the other and threads of a block as fibres: tests do so where there is no GPU.
// - `store_vec` of half floats is for global memory; into shared memory they are assigned.
// - Half floats are 16 bits in memory and float in arithmetic: `to_scalar`, `from_scalar`, round to nearest even.
#pragma once
#ifndef GH_EMULATE
#define GH_FN __device__ __forceinline__
#define GH_SHARED_ROOM(name) extern __shared__ __align__(1024) char name[]
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
typedef unsigned long long size_t_;
#define INT64_MIN (-9223372036854775807LL - 1)
#define __builtin_inff() __int_as_float(0x7f800000)
#define __builtin_nanf(text) __int_as_float(0x7fc00000)
#define __builtin_inf() __longlong_as_double(0x7ff0000000000000LL)
#define __builtin_nan(text) __longlong_as_double(0x7ff8000000000000LL)
namespace std {
template <class T> struct numeric_limits;
#define GH_LIMITS(T, low, high)                                   \
  template <> struct numeric_limits<T> {                          \
    __device__ static constexpr T min() { return low; }           \
    __device__ static constexpr T lowest() { return low; }        \
    __device__ static constexpr T max() { return high; }          \
  };
GH_LIMITS(signed char, -128, 127) GH_LIMITS(unsigned char, 0, 255) GH_LIMITS(short, -32768, 32767)
GH_LIMITS(int, (-2147483647 - 1), 2147483647) GH_LIMITS(long long, (-9223372036854775807LL - 1), 9223372036854775807LL)
GH_LIMITS(bool, false, true)
#undef GH_LIMITS
}  // namespace std
#endif

namespace gh {

template <bool C, class A, class B> struct conditional { typedef A type; };
template <class A, class B> struct conditional<false, A, B> { typedef B type; };
template <class A, class B> struct same { static constexpr bool value = false; };
template <class A> struct same<A, A> { static constexpr bool value = true; };
template <bool C> struct enabled {};
template <> struct enabled<true> { typedef int type; };
template <class T> struct is_real { static constexpr bool value = same<T, float>::value || same<T, double>::value; };
template <class T> struct is_int {
  static constexpr bool value = same<T, bool>::value || same<T, int8_t>::value || same<T, uint8_t>::value ||
                                same<T, int16_t>::value || same<T, uint16_t>::value || same<T, int32_t>::value ||
                                same<T, uint32_t>::value || same<T, int64_t>::value || same<T, uint64_t>::value;
};
template <class T> using if_real = typename enabled<is_real<T>::value>::type;
template <class T> using if_int = typename enabled<is_int<T>::value>::type;
template <class T> using if_number = typename enabled<is_int<T>::value || is_real<T>::value>::type;
template <int N> using if_many = typename enabled<(N > 1)>::type;
template <class T> struct unsigned_of;
template <> struct unsigned_of<bool> { typedef uint8_t type; };
template <> struct unsigned_of<int8_t> { typedef uint8_t type; };
template <> struct unsigned_of<uint8_t> { typedef uint8_t type; };
template <> struct unsigned_of<int16_t> { typedef uint16_t type; };
template <> struct unsigned_of<int32_t> { typedef uint32_t type; };
template <> struct unsigned_of<int64_t> { typedef uint64_t type; };

struct f16 { uint16_t bits; };
struct bf16 { uint16_t bits; };
// Two bytes of a row, for what moves half floats: T of a product's first operand; the second is of int8_t.
struct s8x2 { uint16_t bits; };
struct u8x2 { uint16_t bits; };

#ifndef GH_EMULATE
GH_FN float float_of(int bits) { return __int_as_float(bits); }
GH_FN int bits_in(float x) { return __float_as_int(x); }
GH_FN double real_of(uint64_t bits) { return __longlong_as_double((int64_t)bits); }
GH_FN uint64_t bits_in(double x) { return (uint64_t)__double_as_longlong(x); }
GH_FN int64_t whole_of(double x) { return __double2ll_rn(x); }
GH_FN float to_scalar(f16 x) { float r; asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x.bits)); return r; }
GH_FN float to_scalar(bf16 x) { return __int_as_float((int)x.bits << 16); }
GH_FN uint16_t f16_bits(float x) { uint16_t r; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x)); return r; }
GH_FN uint16_t bf16_bits(float x) { uint16_t r; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(x)); return r; }
#else
GH_FN float float_of(int bits) { float r; __builtin_memcpy(&r, &bits, 4); return r; }
GH_FN int bits_in(float x) { int r; __builtin_memcpy(&r, &x, 4); return r; }
GH_FN double real_of(uint64_t bits) { double r; __builtin_memcpy(&r, &bits, 8); return r; }
GH_FN uint64_t bits_in(double x) { uint64_t r; __builtin_memcpy(&r, &x, 8); return r; }
GH_FN int64_t whole_of(double x) { return (int64_t)__builtin_llrint(x); }
GH_FN float to_scalar(f16 x) { _Float16 h; __builtin_memcpy(&h, &x, 2); return (float)h; }
GH_FN float to_scalar(bf16 x) { uint32_t b = (uint32_t)x.bits << 16; float r; __builtin_memcpy(&r, &b, 4); return r; }
GH_FN uint16_t f16_bits(float x) { _Float16 h = (_Float16)x; uint16_t r; __builtin_memcpy(&r, &h, 2); return r; }
GH_FN uint16_t bf16_bits(float x) {
  uint32_t b; __builtin_memcpy(&b, &x, 4);
  if (x != x) return 0x7fff;
  return (uint16_t)((b + 0x7fff + ((b >> 16) & 1)) >> 16);
}
#endif
template <class T, if_number<T> = 0> GH_FN T to_scalar(T x) { return x; }
template <class T> struct Narrow { template <class V> GH_FN static T of(V v) { return T(v); } };
template <> struct Narrow<f16> { GH_FN static f16 of(float v) { f16 r; r.bits = f16_bits(v); return r; } };
template <> struct Narrow<bf16> { GH_FN static bf16 of(float v) { bf16 r; r.bits = bf16_bits(v); return r; } };
template <class T, class V> GH_FN T from_scalar(V v) { return Narrow<T>::of(v); }
template <class T> struct wide_of { typedef T type; };
template <> struct wide_of<f16> { typedef float type; };
template <> struct wide_of<bf16> { typedef float type; };
template <class T> using Wide = typename wide_of<T>::type;

// N neighbours in memory, moved as one: at most 16 bytes, aligned to their size.
template <class T, int N> struct alignas(sizeof(T) * N) Vec {
  T v[N];
  GH_FN T &operator[](int i) { return v[i]; }
  GH_FN const T &operator[](int i) const { return v[i]; }
};
#ifdef GH_EMULATE
template <int N, class T> inline Vec<T, N> load_vec(const T *p) { return gh_emu::aligned(p, sizeof(T) * N), *(const Vec<T, N> *)p; }
template <int N, class T> inline void store_vec(T *p, const Vec<T, N> &x) { gh_emu::aligned(p, sizeof(T) * N), *(Vec<T, N> *)p = x; }
#else
template <int N, class T> GH_FN Vec<T, N> load_vec(const T *p) { return *(const Vec<T, N> *)p; }
template <int N, class T> GH_FN void store_vec(T *p, const Vec<T, N> &x) { *(Vec<T, N> *)p = x; }
// Half floats of a result, in global memory, as words: the compiler takes runs of them apart now and then, into stores of two bytes.
template <int N, class T> GH_FN void store_halves(T *p, const Vec<T, N> &x) {
  uint32_t w[N / 2];
#pragma unroll
  for (int i = 0; i < N / 2; ++i) w[i] = x[2 * i].bits | (uint32_t)x[2 * i + 1].bits << 16;
  if constexpr (N == 8) asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]) : "memory");
  else if constexpr (N == 4) asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(p), "r"(w[0]), "r"(w[1]) : "memory");
  else asm volatile("st.global.b32 [%0], %1;" ::"l"(p), "r"(w[0]) : "memory");
}
template <int N, if_many<N> = 0> GH_FN void store_vec(f16 *p, const Vec<f16, N> &x) { store_halves(p, x); }
template <int N, if_many<N> = 0> GH_FN void store_vec(bf16 *p, const Vec<bf16, N> &x) { store_halves(p, x); }
#endif

}  // namespace gh
