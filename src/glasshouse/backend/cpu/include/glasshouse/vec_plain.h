// vec_plain.h: the operations of vec.h over 4-lane GCC vector extensions (SSE2, NEON, anything). Included by vec.h alone.
#pragma once
namespace gh {
inline namespace GH_ISA_NS {

GH_INLINE bool any(vm a) { return (a.m[0] | a.m[1] | a.m[2] | a.m[3]) != 0; }
GH_INLINE bool all(vm a) { return (a.m[0] & a.m[1] & a.m[2] & a.m[3]) != 0; }
GH_INLINE bool lane(vm a, int i) { return a.m[i] != 0; }

#define GH_CMP(op)                                                         \
  GH_INLINE vm operator op(vf a, vf b) { return {(ni)(a.v op b.v)}; }      \
  GH_INLINE vm operator op(vi a, vi b) { return {(ni)(a.v op b.v)}; }
GH_CMP(<) GH_CMP(<=) GH_CMP(>) GH_CMP(>=) GH_CMP(==) GH_CMP(!=)
#undef GH_CMP
GH_INLINE vi select(vm m, vi a, vi b) { return (a.v & m.m) | (b.v & ~m.m); }
GH_INLINE vf select(vm m, vf a, vf b) { return as_float(select(m, as_int(a), as_int(b))); }

#define GH_LANES(r, expr) \
  for (int i = 0; i < W; i++) r[i] = expr;
#if defined(__aarch64__) && defined(__ARM_NEON)
GH_INLINE vf fma(vf a, vf b, vf c) { return (nf)vfmaq_f32((float32x4_t)c.v, (float32x4_t)a.v, (float32x4_t)b.v); }
GH_INLINE vf fnma(vf a, vf b, vf c) { return (nf)vfmsq_f32((float32x4_t)c.v, (float32x4_t)a.v, (float32x4_t)b.v); }
#else
GH_INLINE vf fma(vf a, vf b, vf c) { return a.v * b.v + c.v; }   // two roundings where the target has no FMA
GH_INLINE vf fnma(vf a, vf b, vf c) { return c.v - a.v * b.v; }
#endif
GH_INLINE vf min_fast(vf a, vf b) { return select(a < b, a, b); }
GH_INLINE vf max_fast(vf a, vf b) { return select(a > b, a, b); }
GH_INLINE vi min(vi a, vi b) { return select(a < b, a, b); }
GH_INLINE vi max(vi a, vi b) { return select(a > b, a, b); }
GH_INLINE vf sqrt(vf a) { nf r; GH_LANES(r, __builtin_sqrtf(a.v[i])) return r; }
GH_INLINE vf rint(vf a) { nf r; GH_LANES(r, __builtin_rintf(a.v[i])) return r; }
GH_INLINE vf floor(vf a) { nf r; GH_LANES(r, __builtin_floorf(a.v[i])) return r; }
GH_INLINE vf ceil(vf a) { nf r; GH_LANES(r, __builtin_ceilf(a.v[i])) return r; }
GH_INLINE vf trunc(vf a) { nf r; GH_LANES(r, __builtin_truncf(a.v[i])) return r; }
// Out of range and NaN give INT_MIN, as x86 does, on every target.
GH_INLINE int32_t to_int_lane(float x) { return x >= -2147483648.0f && x < 2147483648.0f ? (int32_t)x : INT32_MIN; }
GH_INLINE vi to_int(vf a) { ni r; GH_LANES(r, to_int_lane(a.v[i])) return r; }
GH_INLINE vi round_to_int(vf a) { return to_int(rint(a)); }
GH_INLINE vf to_float(vi a) { return __builtin_convertvector(a.v, nf); }
GH_INLINE vf gather(const float *p, vi j) { nf r; GH_LANES(r, p[j.v[i]]) return r; }
GH_INLINE vf lookup16(const float *p, vi j) { nf r; GH_LANES(r, p[j.v[i] & 15]) return r; }
#undef GH_LANES

GH_INLINE float f16_to_float(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 1023;
  if (e == 31) return bit_cast<float>(sign | 0x7f800000u | m << 13 | (m ? 0x400000u : 0));
  if (e) return bit_cast<float>(sign | (e + 112) << 23 | m << 13);
  float f = (float)m * 5.9604644775390625e-08f;  // 2^-24
  return sign ? -f : f;
}
GH_INLINE uint16_t float_to_f16(float f) {
  uint32_t b = bit_cast<uint32_t>(f), sign = b >> 16 & 0x8000, a = b & 0x7fffffffu;
  if (a > 0x7f800000u) return (uint16_t)(sign | 0x7e00 | (a >> 13 & 0x3ff));
  if (a >= 0x477ff000u) return (uint16_t)(sign | 0x7c00);          // rounds to 65520 or more: infinity
  if (a < 0x38800000u) {                                           // denormal: let the float adder round
    uint32_t d = bit_cast<uint32_t>(bit_cast<float>(a) + 0.5f) - 0x3f000000u;
    return (uint16_t)(sign | d);
  }
  return (uint16_t)(sign | ((a - 0x38000000u + 0xfff + (a >> 13 & 1)) >> 13));
}
GH_INLINE uint16_t float_to_bf16(float f) {
  uint32_t b = bit_cast<uint32_t>(f);
  if (f != f) return (uint16_t)(b >> 16 | 0x40);
  return (uint16_t)((b + 0x7fff + (b >> 16 & 1)) >> 16);
}

// One lane-wise definition serves Full and Tail: the loop length is a constant for Full.
#define GH_MEM(T, ld, st)                                                                    \
  template <class R> GH_INLINE vf load_lanes(const T *p, R t) { nf r = {}; for (int i = 0; i < t.n; i++) r[i] = ld; return r; } \
  template <class R> GH_INLINE void store_lanes(T *p, vf x, R t) { for (int i = 0; i < t.n; i++) st; }                        \
  GH_INLINE vf load(const T *p, Full t = {}) { return load_lanes(p, t); }                   \
  GH_INLINE vf load(const T *p, Tail t) { return load_lanes(p, t); }                        \
  GH_INLINE void store(T *p, vf x, Full t = {}) { store_lanes(p, x, t); }                   \
  GH_INLINE void store(T *p, vf x, Tail t) { store_lanes(p, x, t); }
GH_MEM(bf16, bit_cast<float>((uint32_t)p[i].bits << 16), p[i].bits = float_to_bf16(x.v[i]))
GH_MEM(f16, f16_to_float(p[i].bits), p[i].bits = float_to_f16(x.v[i]))
#undef GH_MEM
#define GH_MEM(T, V, N)                                                                              \
  GH_INLINE V load(const T *p, Full = {}) { N r; memcpy(&r, p, sizeof r); return r; }                \
  GH_INLINE V load(const T *p, Tail t) { N r = {}; memcpy(&r, p, (size_t)t.n * 4); return r; }       \
  GH_INLINE void store(T *p, V x, Full = {}) { memcpy(p, &x.v, sizeof x.v); }                        \
  GH_INLINE void store(T *p, V x, Tail t) { memcpy(p, &x.v, (size_t)t.n * 4); }
GH_MEM(float, vf, nf)
GH_MEM(int32_t, vi, ni)
#undef GH_MEM
GH_INLINE void store_stream(float *p, vf x) { store(p, x); }
#define GH_MEM(T, lo, hi)                                                                                                     \
  template <class R> GH_INLINE vi load_int_lanes(const T *p, R t) { ni r = {}; for (int i = 0; i < t.n; i++) r[i] = p[i]; return r; } \
  GH_INLINE vi load_int(const T *p, Full t = {}) { return load_int_lanes(p, t); }                                            \
  GH_INLINE vi load_int(const T *p, Tail t) { return load_int_lanes(p, t); }                                                 \
  template <class R> GH_INLINE void store_int_lanes(T *p, vi x, R t) {                                                       \
    x = min(max(x, vi(lo)), vi(hi));                                                                                         \
    for (int i = 0; i < t.n; i++) p[i] = (T)x.v[i];                                                                          \
  }                                                                                                                          \
  GH_INLINE void store_int(T *p, vi x, Full t = {}) { store_int_lanes(p, x, t); }                                            \
  GH_INLINE void store_int(T *p, vi x, Tail t) { store_int_lanes(p, x, t); }
GH_MEM(int8_t, -128, 127)
GH_MEM(uint8_t, 0, 255)
#undef GH_MEM

}  // namespace GH_ISA_NS
}  // namespace gh
