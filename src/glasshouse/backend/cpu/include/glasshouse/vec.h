// vec.h: one SIMD vector of float32 (`vf`), int32 (`vi`) and a lane mask (`vm`), the same code on every ISA.
//
// Contract
// - W lanes: 16 (AVX-512 F+BW+DQ+VL), 8 (AVX2+FMA+F16C), 4 (anything else through GCC vector extensions: SSE2, NEON).
//   Chosen by the compiler's -march; -DGH_PLAIN forces the 4-lane path. Everything lives in an inline namespace named
//   after the ISA, so that objects built for different ISAs can be linked together.
// - Memory: `load(p)`, `store(p, x)` for float, bf16, f16, f8e4, f8e5, int8_t, uint8_t, int32_t (values converted to and from float;
//   to narrow floats rounds to nearest even, to integers truncates and saturates). No alignment is required beyond the element's.
// - Tails: every load/store takes an optional last argument, `Full` (all lanes, the default) or `Tail{n}` (lanes < n; the
//   others are never touched in memory and read as 0). Write generic lambdas with `auto t` and pass `t` through.
// - NaN: `min`/`max` propagate NaN like NumPy's minimum/maximum; `min_fast`/`max_fast` return the second operand when
//   either is NaN (one instruction on x86). Comparisons with NaN are false, `!=` is true.
// - Reductions add lanes in a fixed tree order: the same bits on every run.
#pragma once
#include "isa.h"
#include <stddef.h>
#include <string.h>

#if defined(GH_AVX512) || defined(GH_AVX2) || defined(__SSE2__)
#include <immintrin.h>
#elif defined(__aarch64__) && defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#define GH_INLINE inline __attribute__((always_inline))
#define GH_NOINLINE __attribute__((noinline))
#define GH_RESTRICT __restrict__
#define GH_UNROLL _Pragma("GCC unroll 64")

namespace gh {
inline namespace GH_ISA_NS {

template <class To, class From>
GH_INLINE To bit_cast(const From &x) {
  static_assert(sizeof(To) == sizeof(From), "bit_cast: sizes differ");
  To r;
  memcpy(&r, &x, sizeof r);
  return r;
}

#if defined(GH_AVX512)
constexpr int W = 16;
#elif defined(GH_AVX2)
constexpr int W = 8;
#else
constexpr int W = 4;
#endif
typedef float nf __attribute__((vector_size(W * 4)));
typedef int32_t ni __attribute__((vector_size(W * 4)));
typedef uint32_t nu __attribute__((vector_size(W * 4)));

struct vf {
  nf v;
  vf() = default;
  GH_INLINE vf(nf x) : v(x) {}
  GH_INLINE vf(float x) {
#if defined(GH_AVX512)
    v = (nf)_mm512_set1_ps(x);
#elif defined(GH_AVX2)
    v = (nf)_mm256_set1_ps(x);
#else
    v = x - nf{};  // minus zero, not plus: x + 0 would lose the sign of -0
#endif
  }
};
struct vi {
  ni v;
  vi() = default;
  GH_INLINE vi(ni x) : v(x) {}
  GH_INLINE vi(int32_t x) : v(ni{} + x) {}
};

GH_INLINE vf operator+(vf a, vf b) { return a.v + b.v; }
GH_INLINE vf operator-(vf a, vf b) { return a.v - b.v; }
GH_INLINE vf operator*(vf a, vf b) { return a.v * b.v; }
GH_INLINE vf operator/(vf a, vf b) { return a.v / b.v; }
GH_INLINE vf operator-(vf a) { return (nf)((nu)a.v ^ 0x80000000u); }
GH_INLINE vf &operator+=(vf &a, vf b) { a.v += b.v; return a; }
GH_INLINE vf &operator-=(vf &a, vf b) { a.v -= b.v; return a; }
GH_INLINE vf &operator*=(vf &a, vf b) { a.v *= b.v; return a; }
GH_INLINE vi operator+(vi a, vi b) { return (ni)((nu)a.v + (nu)b.v); }
GH_INLINE vi operator-(vi a, vi b) { return (ni)((nu)a.v - (nu)b.v); }
GH_INLINE vi operator*(vi a, vi b) { return (ni)((nu)a.v * (nu)b.v); }
GH_INLINE vi operator&(vi a, vi b) { return a.v & b.v; }
GH_INLINE vi operator|(vi a, vi b) { return a.v | b.v; }
GH_INLINE vi operator^(vi a, vi b) { return a.v ^ b.v; }
GH_INLINE vi operator<<(vi a, int n) { return (ni)((nu)a.v << (nu{} + (uint32_t)n)); }
GH_INLINE vi operator>>(vi a, int n) { return a.v >> (ni{} + n); }              // arithmetic
GH_INLINE vi shift_right_logical(vi a, int n) { return (ni)((nu)a.v >> (nu{} + (uint32_t)n)); }
GH_INLINE vi as_int(vf a) { return (ni)a.v; }
GH_INLINE vf as_float(vi a) { return (nf)a.v; }
GH_INLINE vf abs(vf a) { return (nf)((nu)a.v & 0x7fffffffu); }
GH_INLINE vf copysign(vf mag, vf sign) { return (nf)(((nu)mag.v & 0x7fffffffu) | ((nu)sign.v & 0x80000000u)); }
GH_INLINE vi iota() {
  ni r;
  for (int i = 0; i < W; i++) r[i] = i;
  return r;
}

// The numbers of all lanes, for shuffles.
template <int... I>
struct Lanes {};
template <int N, int... I>
struct MakeLanes : MakeLanes<N - 1, N - 1, I...> {};
template <int... I>
struct MakeLanes<0, I...> {
  typedef Lanes<I...> type;
};
typedef typename MakeLanes<W>::type AllLanes;

// Lane ranges. `Full` costs nothing; `Tail` carries the mask made once per loop.
struct Full { static constexpr int n = W; };

}  // namespace GH_ISA_NS
}  // namespace gh

#if defined(GH_AVX512)
#include "vec_avx512.h"
#elif defined(GH_AVX2)
#include "vec_lane_mask.h"
#include "vec_avx2.h"
#else
#include "vec_lane_mask.h"
#include "vec_plain.h"
#endif
#include "vec_float8.h"
#include "vec_common.h"
