// float8.cuh: 8-bit floats in memory, float in arithmetic, with the bytes that the CPU's `vec_float8.h` writes (of NaN the sign may be lost).
//
// Contract
// - `to_scalar`, `from_scalar`, round to nearest even; beyond the largest e4m3fn is the largest, beyond the largest e5m2 infinity. Chips from
//   sm_89 on have an instruction that narrows; a byte is widened as the upper part of a half float.
// - `f8x2<A, B>`: two bytes of a row, for what moves half floats: A of a product's first operand, B of its second.
#pragma once
#include "platform.cuh"

namespace gh {

struct f8e4 { uint8_t bits; };
struct f8e5 { uint8_t bits; };
template <class A, class B> struct f8x2 { uint16_t bits; };

GH_FN float to_scalar(f8e5 x) { f16 h; h.bits = (uint16_t)(x.bits << 8); return to_scalar(h); }
GH_FN float to_scalar(f8e4 x) {  // with the exponent of a half float: 2^8 less
  f16 h;
  h.bits = (uint16_t)((x.bits & 0x80) << 8 | (x.bits & 0x7f) << 7);
  return (x.bits & 0x7f) == 0x7f ? __builtin_nanf("") : to_scalar(h) * 256.0f;
}

#if !defined(GH_EMULATE) && __CUDA_ARCH__ >= 890
template <int FRACTION> GH_FN uint8_t float8_bits(float x) {
  uint16_t r;
  if constexpr (FRACTION == 3) asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %1;" : "=h"(r) : "f"(x));
  else asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %1;" : "=h"(r) : "f"(x));
  if (FRACTION == 2 && ::fabsf(x) >= 61440.0f) return x < 0.0f ? 0xfc : 0x7c;  // half a step beyond the largest
  return (uint8_t)r;
}
#else
template <int FRACTION> GH_FN uint8_t float8_bits(float x) {
  constexpr int SHIFT = 23 - FRACTION, BIAS = (1 << (6 - FRACTION)) - 1, MOST = FRACTION == 3 ? 0x7e : 0x7c;
  constexpr float STEPS = (float)(1 << (BIAS - 1 + FRACTION));  // of denormals
  const uint32_t bits = (uint32_t)bits_in(x);
  const int size = (int)(bits & 0x7fffffff), sign = (int)(bits >> 24 & 0x80);
  if (size > 0x7f800000) return (uint8_t)(sign | 0x7f);
  const int normal = ((size + (1 << (SHIFT - 1)) - 1 + (size >> SHIFT & 1)) >> SHIFT) - ((127 - BIAS) << FRACTION);
  const int found = size < (128 - BIAS) << 23 ? (int)::rintf(::fabsf(x) * STEPS) : normal;
  return (uint8_t)(sign | (found < MOST ? found : MOST));
}
#endif
template <> struct Narrow<f8e4> { GH_FN static f8e4 of(float v) { f8e4 r; r.bits = float8_bits<3>(v); return r; } };
template <> struct Narrow<f8e5> { GH_FN static f8e5 of(float v) { f8e5 r; r.bits = float8_bits<2>(v); return r; } };
template <> struct wide_of<f8e4> { typedef float type; };
template <> struct wide_of<f8e5> { typedef float type; };

}  // namespace gh
