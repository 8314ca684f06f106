// vec_avx2.h: the operations of vec.h that have AVX2/FMA/F16C instructions of their own. Included by vec.h alone.
#pragma once
namespace gh {
inline namespace GH_ISA_NS {

GH_INLINE bool any(vm a) { return _mm256_movemask_ps((__m256)a.m) != 0; }
GH_INLINE bool all(vm a) { return _mm256_movemask_ps((__m256)a.m) == 0xff; }
GH_INLINE bool lane(vm a, int i) { return _mm256_movemask_ps((__m256)a.m) >> i & 1; }

#define GH_CMP(op, imm) \
  GH_INLINE vm operator op(vf a, vf b) { return {(ni)_mm256_cmp_ps((__m256)a.v, (__m256)b.v, imm)}; }
GH_CMP(<, _CMP_LT_OQ) GH_CMP(<=, _CMP_LE_OQ) GH_CMP(>, _CMP_GT_OQ) GH_CMP(>=, _CMP_GE_OQ) GH_CMP(==, _CMP_EQ_OQ)
GH_CMP(!=, _CMP_NEQ_UQ)
#undef GH_CMP
#define GH_CMP(op) \
  GH_INLINE vm operator op(vi a, vi b) { return {a.v op b.v}; }
GH_CMP(<) GH_CMP(<=) GH_CMP(>) GH_CMP(>=) GH_CMP(==) GH_CMP(!=)
#undef GH_CMP
GH_INLINE vf select(vm m, vf a, vf b) { return (nf)_mm256_blendv_ps((__m256)b.v, (__m256)a.v, (__m256)m.m); }
GH_INLINE vi select(vm m, vi a, vi b) { return (ni)_mm256_blendv_epi8((__m256i)b.v, (__m256i)a.v, (__m256i)m.m); }

GH_INLINE vf fma(vf a, vf b, vf c) { return (nf)_mm256_fmadd_ps((__m256)a.v, (__m256)b.v, (__m256)c.v); }
GH_INLINE vf fnma(vf a, vf b, vf c) { return (nf)_mm256_fnmadd_ps((__m256)a.v, (__m256)b.v, (__m256)c.v); }
GH_INLINE vf min_fast(vf a, vf b) { return (nf)_mm256_min_ps((__m256)a.v, (__m256)b.v); }
GH_INLINE vf max_fast(vf a, vf b) { return (nf)_mm256_max_ps((__m256)a.v, (__m256)b.v); }
GH_INLINE vi min(vi a, vi b) { return (ni)_mm256_min_epi32((__m256i)a.v, (__m256i)b.v); }
GH_INLINE vi max(vi a, vi b) { return (ni)_mm256_max_epi32((__m256i)a.v, (__m256i)b.v); }
GH_INLINE vf sqrt(vf a) { return (nf)_mm256_sqrt_ps((__m256)a.v); }
GH_INLINE vf rint(vf a) { return (nf)_mm256_round_ps((__m256)a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
GH_INLINE vf floor(vf a) { return (nf)_mm256_round_ps((__m256)a.v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
GH_INLINE vf ceil(vf a) { return (nf)_mm256_round_ps((__m256)a.v, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }
GH_INLINE vf trunc(vf a) { return (nf)_mm256_round_ps((__m256)a.v, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }
GH_INLINE vi to_int(vf a) { return (ni)_mm256_cvttps_epi32((__m256)a.v); }
GH_INLINE vi round_to_int(vf a) { return (ni)_mm256_cvtps_epi32((__m256)a.v); }
GH_INLINE vf to_float(vi a) { return (nf)_mm256_cvtepi32_ps((__m256i)a.v); }
GH_INLINE vf gather(const float *p, vi i) { return (nf)_mm256_i32gather_ps(p, (__m256i)i.v, 4); }
GH_INLINE vf lookup16(const float *t, vi i) {
  __m256 lo = _mm256_permutevar8x32_ps(_mm256_loadu_ps(t), (__m256i)i.v);
  __m256 hi = _mm256_permutevar8x32_ps(_mm256_loadu_ps(t + 8), (__m256i)i.v);
  return (nf)_mm256_blendv_ps(lo, hi, (__m256)(i << 28).v);  // bit 3 of the index becomes the sign
}

// The first n <= W narrow elements, by powers of two: nothing past the n-th is touched. A copy of unknown length is a call, around which every
// vector goes to memory and back.
template <class T, class V>
GH_INLINE V read_as(const T *p) {
  V v;
  memcpy(&v, p, sizeof v);
  return v;
}
template <class T>
GH_INLINE __m128i load_part(const T *p, int n) {
  static_assert(sizeof(T) <= 2, "narrow elements");
  constexpr int bits = 8 * sizeof(T);
  if (n == 8) return sizeof(T) == 2 ? _mm_loadu_si128((const __m128i *)p) : _mm_loadl_epi64((const __m128i *)p);
  uint64_t low = 0;
  if (n & 1) low = bits == 16 ? read_as<T, uint16_t>(p + n - 1) : read_as<T, uint8_t>(p + n - 1);
  if (n & 2) low = low << 2 * bits | (bits == 16 ? read_as<T, uint32_t>(p + (n & 4)) : read_as<T, uint16_t>(p + (n & 4)));
  if (!(n & 4)) return _mm_cvtsi64_si128((long long)low);
  if (bits == 8) return _mm_cvtsi64_si128((long long)(low << 32 | read_as<T, uint32_t>(p)));
  return _mm_set_epi64x((long long)low, (long long)read_as<T, uint64_t>(p));
}
template <class T>
GH_INLINE void store_part(T *p, __m128i x, int n) {
  static_assert(sizeof(T) <= 2, "narrow elements");
  uint64_t low = (uint64_t)_mm_cvtsi128_si64(x);
  if (n == 8 && sizeof(T) == 2) return _mm_storeu_si128((__m128i *)p, x);
  if (n == 8) return _mm_storel_epi64((__m128i *)p, x);
  if (n & 4) {
    memcpy(p, &low, 4 * sizeof(T));
    low = sizeof(T) == 2 ? (uint64_t)_mm_extract_epi64(x, 1) : low >> 32;
  }
  if (n & 2) {
    memcpy(p + (n & 4), &low, 2 * sizeof(T));
    low >>= 16 * sizeof(T);
  }
  if (n & 1) memcpy(p + (n & 6), &low, sizeof(T));
}

// Masked stores are 42 operations on AMD's cores: rows of 7 floats took 4.4 ns each, and take 1.7 by powers of two (Zen 3). Masked loads are one.
GH_INLINE void store_part(float *p, __m256 x, int n) {
  if (n == 8) return _mm256_storeu_ps(p, x);
  __m128 low = _mm256_castps256_ps128(x);
  if (n & 4) {
    _mm_storeu_ps(p, low);
    low = _mm256_extractf128_ps(x, 1);
  }
  if (n & 2) {
    _mm_storel_epi64((__m128i *)(p + (n & 4)), _mm_castps_si128(low));
    low = _mm_movehl_ps(low, low);
  }
  if (n & 1) _mm_store_ss(p + (n & 6), low);
}

GH_INLINE vf load(const float *p, Full = {}) { return (nf)_mm256_loadu_ps(p); }
GH_INLINE vf load(const float *p, Tail t) { return (nf)_mm256_maskload_ps(p, (__m256i)t.m.m); }
GH_INLINE void store(float *p, vf x, Full = {}) { _mm256_storeu_ps(p, (__m256)x.v); }
GH_INLINE void store(float *p, vf x, Tail t) { store_part(p, (__m256)x.v, t.n); }
GH_INLINE void store_stream(float *p, vf x) { _mm256_stream_ps(p, (__m256)x.v); }
GH_INLINE vi load(const int32_t *p, Full = {}) { return (ni)_mm256_loadu_si256((const __m256i *)p); }
GH_INLINE vi load(const int32_t *p, Tail t) { return (ni)_mm256_maskload_epi32(p, (__m256i)t.m.m); }
GH_INLINE void store(int32_t *p, vi x, Full = {}) { _mm256_storeu_si256((__m256i *)p, (__m256i)x.v); }
GH_INLINE void store(int32_t *p, vi x, Tail t) { store_part((float *)p, (__m256)x.v, t.n); }

GH_INLINE vf widen_bf16(__m128i x) { return (nf)_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16); }
GH_INLINE __m128i narrow_bf16(vf x) {
  vi b = as_int(x);
  vi r = b + vi(0x7fff) + (shift_right_logical(b, 16) & vi(1));
  r = select(x != x, b | vi(0x400000), r);
  __m256i h = _mm256_srli_epi32((__m256i)r.v, 16);
  h = _mm256_permute4x64_epi64(_mm256_packus_epi32(h, h), 0x08);
  return _mm256_castsi256_si128(h);
}
GH_INLINE vf load(const bf16 *p, Full = {}) { return widen_bf16(_mm_loadu_si128((const __m128i *)p)); }
GH_INLINE vf load(const bf16 *p, Tail t) { return widen_bf16(load_part(p, t.n)); }
GH_INLINE void store(bf16 *p, vf x, Full = {}) { _mm_storeu_si128((__m128i *)p, narrow_bf16(x)); }
GH_INLINE void store(bf16 *p, vf x, Tail t) {
  store_part(p, narrow_bf16(x), t.n);
}
GH_INLINE vf load(const f16 *p, Full = {}) { return (nf)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)); }
GH_INLINE vf load(const f16 *p, Tail t) { return (nf)_mm256_cvtph_ps(load_part(p, t.n)); }
GH_INLINE void store(f16 *p, vf x, Full = {}) { _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph((__m256)x.v, 0)); }
GH_INLINE void store(f16 *p, vf x, Tail t) {
  store_part(p, _mm256_cvtps_ph((__m256)x.v, 0), t.n);
}
GH_INLINE vi load_int(const int8_t *p, Full = {}) { return (ni)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)); }
GH_INLINE vi load_int(const int8_t *p, Tail t) { return (ni)_mm256_cvtepi8_epi32(load_part(p, t.n)); }
GH_INLINE vi load_int(const uint8_t *p, Full = {}) { return (ni)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)); }
GH_INLINE vi load_int(const uint8_t *p, Tail t) { return (ni)_mm256_cvtepu8_epi32(load_part(p, t.n)); }
GH_INLINE __m128i narrow_bytes(vi x) {  // values already within the byte's range
  __m256i s = _mm256_shuffle_epi8((__m256i)x.v, _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
                                                                0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1));
  return _mm_unpacklo_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
}
GH_INLINE void store_int(int8_t *p, vi x, Full = {}) {
  _mm_storel_epi64((__m128i *)p, narrow_bytes(min(max(x, vi(-128)), vi(127))));
}
GH_INLINE void store_int(int8_t *p, vi x, Tail t) {
  store_part(p, narrow_bytes(min(max(x, vi(-128)), vi(127))), t.n);
}
GH_INLINE void store_int(uint8_t *p, vi x, Full = {}) {
  _mm_storel_epi64((__m128i *)p, narrow_bytes(min(max(x, vi(0)), vi(255))));
}
GH_INLINE void store_int(uint8_t *p, vi x, Tail t) {
  store_part(p, narrow_bytes(min(max(x, vi(0)), vi(255))), t.n);
}

}  // namespace GH_ISA_NS
}  // namespace gh
