// vec_float8.h: 8-bit floats in memory, on every ISA: bits of a float32 moved, rounded to nearest even. Included by vec.h alone.
//
// Contract: what `glasshouse.ir.dtype` says, byte for byte: beyond the largest e4m3fn is the largest, beyond the largest e5m2 infinity;
// every NaN becomes the byte of all ones with its sign.
#pragma once
namespace gh {
inline namespace GH_ISA_NS {

template <int FRACTION> struct Float8Form {
  static constexpr int SHIFT = 23 - FRACTION, BIAS = (1 << (6 - FRACTION)) - 1;
  static constexpr int SPECIAL = FRACTION == 3 ? 0x7f : 0x7c;                // from here on: infinity, NaN
  static constexpr float LIMIT = FRACTION == 3 ? 448.0f : 65536.0f;          // what is larger becomes this: the largest, infinity
  static constexpr float STEP = 1.0f / (float)(1 << (BIAS - 1 + FRACTION));  // of denormals
  static constexpr float ONE = STEP * (float)(1 << 23);                      // whose last bit is worth a step
};

template <int FRACTION> GH_INLINE vf widen_float8(vi bits) {
  typedef Float8Form<FRACTION> F;
  const vi size = bits & vi(0x7f);
  vi wide = (size << F::SHIFT) + vi((127 - F::BIAS) << 23);
  wide = select(size < vi(F::SPECIAL), wide, wide | vi(0x7f800000));
  const vf value = select(size < vi(1 << FRACTION), to_float(size) * vf(F::STEP), as_float(wide));
  return as_float(as_int(value) | (bits & vi(0x80)) << 24);
}
template <int FRACTION> GH_INLINE vi narrow_float8(vf x) {
  typedef Float8Form<FRACTION> F;
  const vf limited = min_fast(vf(F::LIMIT), abs(x));  // NaN stays
  const vi size = as_int(limited), odd = (size >> F::SHIFT) & vi(1);
  const vi normal = ((size + odd + vi((1 << (F::SHIFT - 1)) - 1 - ((127 - F::BIAS) << 23))) >> F::SHIFT);
  const vi denormal = as_int(limited + vf(F::ONE)) - as_int(vf(F::ONE));  // the adder rounds
  const vi found = min(select(size < vi((128 - F::BIAS) << 23), denormal, normal), vi(0x7f));
  return found | (shift_right_logical(as_int(x), 24) & vi(0x80));
}

#define GH_FLOAT8(T, FRACTION)                                                                                              \
  GH_INLINE vf load(const T *p, Full = {}) { return widen_float8<FRACTION>(load_int((const uint8_t *)p)); }                 \
  GH_INLINE vf load(const T *p, Tail t) { return widen_float8<FRACTION>(load_int((const uint8_t *)p, t)); }                 \
  GH_INLINE void store(T *p, vf x, Full = {}) { store_int((uint8_t *)p, narrow_float8<FRACTION>(x)); }                      \
  GH_INLINE void store(T *p, vf x, Tail t) { store_int((uint8_t *)p, narrow_float8<FRACTION>(x), t); }                      \
  GH_INLINE float to_scalar(T x) { return load(&x, Tail(1)).v[0]; }
GH_FLOAT8(f8e4, 3)
GH_FLOAT8(f8e5, 2)
#undef GH_FLOAT8

}  // namespace GH_ISA_NS
}  // namespace gh
