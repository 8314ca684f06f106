// vec_avx512.h: the operations of vec.h that have AVX-512 instructions of their own. Included by vec.h alone.
#pragma once
namespace gh {
inline namespace GH_ISA_NS {

struct vm {
  __mmask16 m;
};
GH_INLINE vm operator&(vm a, vm b) { return {(__mmask16)(a.m & b.m)}; }
GH_INLINE vm operator|(vm a, vm b) { return {(__mmask16)(a.m | b.m)}; }
GH_INLINE vm operator^(vm a, vm b) { return {(__mmask16)(a.m ^ b.m)}; }
GH_INLINE vm operator!(vm a) { return {(__mmask16)~a.m}; }
GH_INLINE bool any(vm a) { return a.m != 0; }
GH_INLINE bool all(vm a) { return a.m == 0xffff; }
GH_INLINE bool lane(vm a, int i) { return a.m >> i & 1; }
GH_INLINE vm first_n(int n) { return {(__mmask16)(n >= W ? 0xffffu : (1u << n) - 1)}; }

struct Tail {
  int n;
  vm m;
  GH_INLINE explicit Tail(int count) : n(count), m(first_n(count)) {}
};

#define GH_CMP(op, imm) \
  GH_INLINE vm operator op(vf a, vf b) { return {_mm512_cmp_ps_mask((__m512)a.v, (__m512)b.v, imm)}; }
GH_CMP(<, _CMP_LT_OQ) GH_CMP(<=, _CMP_LE_OQ) GH_CMP(>, _CMP_GT_OQ) GH_CMP(>=, _CMP_GE_OQ) GH_CMP(==, _CMP_EQ_OQ)
GH_CMP(!=, _CMP_NEQ_UQ)
#undef GH_CMP
#define GH_CMP(op, imm) \
  GH_INLINE vm operator op(vi a, vi b) { return {_mm512_cmp_epi32_mask((__m512i)a.v, (__m512i)b.v, imm)}; }
GH_CMP(<, _MM_CMPINT_LT) GH_CMP(<=, _MM_CMPINT_LE) GH_CMP(>, _MM_CMPINT_NLE) GH_CMP(>=, _MM_CMPINT_NLT)
GH_CMP(==, _MM_CMPINT_EQ) GH_CMP(!=, _MM_CMPINT_NE)
#undef GH_CMP
GH_INLINE vf select(vm m, vf a, vf b) { return (nf)_mm512_mask_blend_ps(m.m, (__m512)b.v, (__m512)a.v); }
GH_INLINE vi select(vm m, vi a, vi b) { return (ni)_mm512_mask_blend_epi32(m.m, (__m512i)b.v, (__m512i)a.v); }

GH_INLINE vf fma(vf a, vf b, vf c) { return (nf)_mm512_fmadd_ps((__m512)a.v, (__m512)b.v, (__m512)c.v); }
GH_INLINE vf fnma(vf a, vf b, vf c) { return (nf)_mm512_fnmadd_ps((__m512)a.v, (__m512)b.v, (__m512)c.v); }
GH_INLINE vf min_fast(vf a, vf b) { return (nf)_mm512_min_ps((__m512)a.v, (__m512)b.v); }
GH_INLINE vf max_fast(vf a, vf b) { return (nf)_mm512_max_ps((__m512)a.v, (__m512)b.v); }
GH_INLINE vi min(vi a, vi b) { return (ni)_mm512_min_epi32((__m512i)a.v, (__m512i)b.v); }
GH_INLINE vi max(vi a, vi b) { return (ni)_mm512_max_epi32((__m512i)a.v, (__m512i)b.v); }
GH_INLINE vf sqrt(vf a) { return (nf)_mm512_sqrt_ps((__m512)a.v); }
GH_INLINE vf rint(vf a) { return (nf)_mm512_roundscale_ps((__m512)a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
GH_INLINE vf floor(vf a) { return (nf)_mm512_roundscale_ps((__m512)a.v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
GH_INLINE vf ceil(vf a) { return (nf)_mm512_roundscale_ps((__m512)a.v, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }
GH_INLINE vf trunc(vf a) { return (nf)_mm512_roundscale_ps((__m512)a.v, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }
GH_INLINE vi to_int(vf a) { return (ni)_mm512_cvttps_epi32((__m512)a.v); }        // truncates
GH_INLINE vi round_to_int(vf a) { return (ni)_mm512_cvtps_epi32((__m512)a.v); }   // to nearest even
GH_INLINE vf to_float(vi a) { return (nf)_mm512_cvtepi32_ps((__m512i)a.v); }
GH_INLINE vf gather(const float *p, vi i) { return (nf)_mm512_i32gather_ps((__m512i)i.v, p, 4); }
GH_INLINE vf lookup16(const float *table, vi i) { return (nf)_mm512_permutexvar_ps((__m512i)i.v, _mm512_loadu_ps(table)); }

GH_INLINE vf load(const float *p, Full = {}) { return (nf)_mm512_loadu_ps(p); }
GH_INLINE vf load(const float *p, Tail t) { return (nf)_mm512_maskz_loadu_ps(t.m.m, p); }
GH_INLINE void store(float *p, vf x, Full = {}) { _mm512_storeu_ps(p, (__m512)x.v); }
GH_INLINE void store(float *p, vf x, Tail t) { _mm512_mask_storeu_ps(p, t.m.m, (__m512)x.v); }
GH_INLINE void store_stream(float *p, vf x) { _mm512_stream_ps(p, (__m512)x.v); }  // p aligned to 64
GH_INLINE vi load(const int32_t *p, Full = {}) { return (ni)_mm512_loadu_si512(p); }
GH_INLINE vi load(const int32_t *p, Tail t) { return (ni)_mm512_maskz_loadu_epi32(t.m.m, p); }
GH_INLINE void store(int32_t *p, vi x, Full = {}) { _mm512_storeu_si512(p, (__m512i)x.v); }
GH_INLINE void store(int32_t *p, vi x, Tail t) { _mm512_mask_storeu_epi32(p, t.m.m, (__m512i)x.v); }

GH_INLINE vf widen_bf16(__m256i x) { return (nf)_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16); }
GH_INLINE __m256i narrow_bf16(vf x) {
#if defined(GH_BF16)
  // vcvtneps2bf16 flushes denormals, which a copy must keep; there are hardly ever any (class 0x20).
  if (__builtin_expect(_mm512_fpclass_ps_mask((__m512)x.v, 0x20) == 0, 1)) return (__m256i)_mm512_cvtneps_pbh((__m512)x.v);
#endif
  __m512i b = (__m512i)x.v;
  __m512i r = _mm512_add_epi32(b, _mm512_add_epi32(_mm512_set1_epi32(0x7fff),
                                                   _mm512_and_si512(_mm512_srli_epi32(b, 16), _mm512_set1_epi32(1))));
  __mmask16 nan = _mm512_cmp_ps_mask((__m512)x.v, (__m512)x.v, _CMP_UNORD_Q);
  r = _mm512_mask_or_epi32(r, nan, b, _mm512_set1_epi32(0x400000));
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(r, 16));
}
GH_INLINE vf load(const bf16 *p, Full = {}) { return widen_bf16(_mm256_loadu_si256((const __m256i *)p)); }
GH_INLINE vf load(const bf16 *p, Tail t) { return widen_bf16(_mm256_maskz_loadu_epi16(t.m.m, p)); }
GH_INLINE void store(bf16 *p, vf x, Full = {}) { _mm256_storeu_si256((__m256i *)p, narrow_bf16(x)); }
GH_INLINE void store(bf16 *p, vf x, Tail t) { _mm256_mask_storeu_epi16(p, t.m.m, narrow_bf16(x)); }
GH_INLINE vf load(const f16 *p, Full = {}) { return (nf)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)); }
GH_INLINE vf load(const f16 *p, Tail t) { return (nf)_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(t.m.m, p)); }
GH_INLINE void store(f16 *p, vf x, Full = {}) { _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph((__m512)x.v, 0)); }
GH_INLINE void store(f16 *p, vf x, Tail t) { _mm256_mask_storeu_epi16(p, t.m.m, _mm512_cvtps_ph((__m512)x.v, 0)); }
GH_INLINE vi load_int(const int8_t *p, Full = {}) { return (ni)_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)); }
GH_INLINE vi load_int(const int8_t *p, Tail t) { return (ni)_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(t.m.m, p)); }
GH_INLINE vi load_int(const uint8_t *p, Full = {}) { return (ni)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)); }
GH_INLINE vi load_int(const uint8_t *p, Tail t) { return (ni)_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(t.m.m, p)); }
GH_INLINE void store_int(int8_t *p, vi x, Full = {}) { _mm_storeu_si128((__m128i *)p, _mm512_cvtsepi32_epi8((__m512i)x.v)); }
GH_INLINE void store_int(int8_t *p, vi x, Tail t) { _mm_mask_storeu_epi8(p, t.m.m, _mm512_cvtsepi32_epi8((__m512i)x.v)); }
GH_INLINE void store_int(uint8_t *p, vi x, Full = {}) {
  _mm_storeu_si128((__m128i *)p, _mm512_cvtusepi32_epi8((__m512i)max(x, vi(0)).v));
}
GH_INLINE void store_int(uint8_t *p, vi x, Tail t) {
  _mm_mask_storeu_epi8(p, t.m.m, _mm512_cvtusepi32_epi8((__m512i)max(x, vi(0)).v));
}
// Boolean bytes (0 or 1), as NumPy stores bool.
GH_INLINE vm load_mask(const void *p, Full = {}) {
  __m128i b = _mm_loadu_si128((const __m128i *)p);
  return {_mm_test_epi8_mask(b, b)};
}
GH_INLINE vm load_mask(const void *p, Tail t) {
  __m128i b = _mm_maskz_loadu_epi8(t.m.m, p);
  return {_mm_test_epi8_mask(b, b)};
}
GH_INLINE void store_mask(void *p, vm m, Full = {}) { _mm_storeu_si128((__m128i *)p, _mm_maskz_set1_epi8(m.m, 1)); }
GH_INLINE void store_mask(void *p, vm m, Tail t) { _mm_mask_storeu_epi8(p, t.m.m, _mm_maskz_set1_epi8(m.m, 1)); }

// 2^round(n) * x with the right overflow and denormals.
GH_INLINE vf scale2(vf x, vf n) { return (nf)_mm512_scalef_ps((__m512)x.v, (__m512)n.v); }
// The same, and 0 where y is below `least`: a denormal, or what is rounded to 0, takes an Intel core 190 cycles.
GH_INLINE vf scale2_from(float least, vf y, vf x, vf n) {
  const __mmask16 kept = _mm512_cmp_ps_mask((__m512)y.v, _mm512_set1_ps(least), _CMP_NLT_UQ);
  return (nf)_mm512_maskz_scalef_ps(kept, (__m512)x.v, (__m512)n.v);
}

}  // namespace GH_ISA_NS
}  // namespace gh
