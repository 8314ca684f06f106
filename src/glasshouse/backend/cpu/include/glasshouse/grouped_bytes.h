// grouped_bytes.h: convolutions of 8-bit integers in small groups, channels last: lanes of a vector of results belong to several groups.
//
// Contract
// - `lanes_hold_groups(s)`: groups of 2, 4 or 8 results, of channels in whole quads, several to a vector. Each lane multiplies four bytes of its own
//   group: a load of all channels that the vector's groups read, one permutation that brings a quad to each lane, one product. Taking groups
//   together with weights of 0 between them multiplies 16 / og times as much: 32 groups of 4 channels, 56x56, 461 -> 170 us on one core.
// - `grouped_bytes_pack(w, so, si, sh, sw, s, out)`: weights of int8, w[o so + i si + kh sh + kw sw] -> grouped_bytes_size(s) bytes.
// - `grouped_bytes(pool, s, x, packed, epi)`: epi(pixel, oc, vi, range) with sum(x w), exact; x is unsigned, and s has no padding.
#pragma once
#include "conv.h"

namespace gh {
inline namespace GH_ISA_NS {

#if defined(GH_VNNI)
constexpr bool lanes_hold_groups(const ConvShape &s) {
  if (s.groups == 1 || s.C == s.groups) return false;
  return s.og() > 1 && s.og() < W && W % s.og() == 0 && s.OC % W == 0 && s.cg() % 4 == 0 && W / s.og() * s.cg() <= 4 * W;
}

inline size_t grouped_bytes_size(const ConvShape &s) { return (size_t)(s.OC * s.kh * s.kw * s.cg()); }

// For each vector of results, tap and quad of a group's channels: the four weights of every lane.
inline void grouped_bytes_pack(const int8_t *w, long so, long si, long sh, long sw, const ConvShape &s, void *out) {
  int8_t *to = (int8_t *)out;
  for (long o = 0; o < s.OC; o += W)
    for (long t = 0; t < s.kh * s.kw; t++)
      for (long q = 0; q < s.cg(); q += 4)
        for (long lane = 0; lane < W; lane++)
          for (long c = q; c < q + 4; c++) *to++ = w[(o + lane) * so + c * si + t / s.kw * sh + t % s.kw * sw];
}

// The channels of a vector's groups, mostly 16 bytes: a masked load of 64 would touch two lines where they lie at the end of one.
struct SixteenBytes {
  GH_INLINE __m512i operator()(const uint8_t *p) const { return _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)p)); }
};
struct SomeUnits {
  __mmask16 read;
  GH_INLINE __m512i operator()(const uint8_t *p) const { return _mm512_maskz_loadu_epi32(read, p); }
};

// U results of a row from one tap (0, 0) on, whose channels begin at x.
template <int U, class Load, class Take>
GH_INLINE void grouped_bytes_columns(const ConvShape &s, const uint8_t *x, const char *weights, long quads, Load channels, __m512i first, long pixel,
                                     const Take &take) {
  const long step = s.sw * s.C;
  __m512i a[U];
  GH_UNROLL for (int u = 0; u < U; u++) a[u] = _mm512_setzero_si512();
  for (int i = 0; i < s.kh; i++)
    for (int j = 0; j < s.kw; j++) {
      const uint8_t *tap = x + (i * s.dh * s.W_in + j * s.dw) * s.C;
      __m512i from = first;
      for (long q = 0; q < quads; q++, weights += W * 4) {
        const __m512i by = _mm512_loadu_si512(weights);
        GH_UNROLL for (int u = 0; u < U; u++)
          a[u] = _mm512_dpbusd_epi32(a[u], _mm512_permutexvar_epi32(from, channels(tap + u * step)), by);
        from = _mm512_add_epi32(from, _mm512_set1_epi32(1));
      }
    }
  GH_UNROLL for (int u = 0; u < U; u++) take(pixel + u, vi((ni)a[u]));
}

template <class Load, class Epi>
inline void grouped_bytes_by(ThreadPool &pool, const ConvShape &s, const uint8_t *x, const void *packed, Load channels, Epi &epi) {
  const long vectors = s.OC / W, quads = s.cg() / 4, read = W / s.og() * s.cg(), each = s.kh * s.kw * quads * W * 4;
  alignas(64) int32_t begin_of[W];
  for (long lane = 0; lane < W; lane++) begin_of[lane] = (int32_t)(lane / s.og() * quads);
  const __m512i first = _mm512_load_si512(begin_of);
  parallel_for(pool, s.N * s.OH * vectors, row_grain(s.OW * each / 4), [&](long begin, long end) {
    for (long k = begin; k < end; k++) {
      const long r = k / vectors, v = k % vectors, step = s.sw * s.C;
      const uint8_t *row = x + (r / s.OH * s.H + r % s.OH * s.sh) * s.W_in * s.C + v * read;
      const char *weights = (const char *)packed + v * each;
      const auto take = columns_of(epi, v * W, Full{});
      long ow = 0;
      for (; ow + 7 <= s.OW; ow += 7) grouped_bytes_columns<7>(s, row + ow * step, weights, quads, channels, first, r * s.OW + ow, take);
      for (; ow < s.OW; ow++) grouped_bytes_columns<1>(s, row + ow * step, weights, quads, channels, first, r * s.OW + ow, take);
    }
  });
}
template <class Epi>
inline void grouped_bytes(ThreadPool &pool, const ConvShape &s, const uint8_t *x, const void *packed, Epi &&epi) {
  const long units = W / s.og() * s.cg() / 4;
  if (units == 4) grouped_bytes_by(pool, s, x, packed, SixteenBytes{}, epi);
  else grouped_bytes_by(pool, s, x, packed, SomeUnits{(__mmask16)(0xffffu >> (16 - units))}, epi);
}
#else
constexpr bool lanes_hold_groups(const ConvShape &) { return false; }
inline size_t grouped_bytes_size(const ConvShape &) { return 0; }
inline void grouped_bytes_pack(const int8_t *, long, long, long, long, const ConvShape &, void *) {}
template <class Epi>
inline void grouped_bytes(ThreadPool &, const ConvShape &, const uint8_t *, const void *, Epi &&) {}
#endif

}  // namespace GH_ISA_NS
}  // namespace gh
