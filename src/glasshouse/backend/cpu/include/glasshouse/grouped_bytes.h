// grouped_bytes.h: convolutions of 8-bit integers in small groups, channels last: lanes of a vector of results belong to several groups.
//
// Contract
// - `lanes_hold_groups(s)`: groups of 2, 4 or 8 results, of channels in whole quads, several to a vector. Each lane multiplies four bytes of its own
//   group: a load of all channels that the vector's groups read, one permutation that brings a quad to each lane, one product. Taking groups
//   together with weights of 0 between them multiplies 16 / og times as much: 32 groups of 4 channels, 56x56, 461 -> 170 us on one core.
//   Also groups of whole vectors of results where windows are three wide: all lanes multiply the same quad.
// - What was brought to the lanes of a pixel serves all windows that it lies in, where these are three wide and move by one or two: one permutation, or
//   one load of a quad, for three products. A product of 14 pixels by one vector of results loads as much as it multiplies.
// - `grouped_bytes_pack(w, so, si, sh, sw, s, out)`: weights of int8, w[o so + i si + kh sh + kw sw] -> grouped_bytes_size(s) bytes.
// - `grouped_bytes(pool, s, x, packed, epi)`: epi(pixel, oc, vi, range) with sum(x w), exact; x is unsigned, and s has no padding.
#pragma once
#include "conv.h"

namespace gh {
inline namespace GH_ISA_NS {

#if defined(GH_VNNI)
constexpr bool windows_share_pixels(const ConvShape &s) { return s.kw == 3 && s.dw == 1 && s.sw <= 2; }
constexpr bool lanes_hold_groups(const ConvShape &s) {
  if (s.groups == 1 || s.C == s.groups || s.OC % W || s.cg() % 4) return false;
  if (s.og() >= W) return !kTiled<TilesI8> && s.og() % W == 0 && windows_share_pixels(s);
  return s.og() > 1 && W % s.og() == 0 && W / s.og() * s.cg() <= 4 * W;
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

// Ways to bring a quad of its own group to each lane, of the channels that a vector's groups read: the first of each group lie at `places` of them, the
// next ones kNext further. Mostly there are 16 bytes: a load of all of them into each quarter, and a permutation inside of quarters, take less time than
// one load and a permutation of the whole (Zen 5, 56x56, 32 groups of 4: 66 -> 54 us).
struct SixteenBytes {
  static constexpr int32_t kNext = 0x04040404;
  GH_INLINE static __m512i places(__m512i quads) {
    return _mm512_add_epi32(_mm512_mullo_epi32(quads, _mm512_set1_epi32(kNext)), _mm512_set1_epi32(0x03020100));
  }
  GH_INLINE __m512i operator()(const uint8_t *p, long, __m512i from) const {
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)p)), from);
  }
};
// A masked load: one of 64 bytes would touch two lines where they lie at the end of one.
struct SomeUnits {
  static constexpr int32_t kNext = 1;
  __mmask16 read;
  GH_INLINE static __m512i places(__m512i quads) { return quads; }
  GH_INLINE __m512i operator()(const uint8_t *p, long, __m512i from) const {
    return _mm512_permutexvar_epi32(from, _mm512_maskz_loadu_epi32(read, p));
  }
};
// One group's quad q, for all lanes.
struct SameQuad : SomeUnits {
  GH_INLINE __m512i operator()(const uint8_t *p, long q, __m512i) const { return _mm512_set1_epi32((int32_t) * (const unit32 *)(p + 4 * q)); }
};

// U results of a row from one tap (0, 0) on, whose channels begin at x.
template <int U, class Quads, class Take>
GH_INLINE void grouped_bytes_columns(const ConvShape &s, const uint8_t *x, const char *weights, long quads, Quads lanes, __m512i first, long pixel,
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
          a[u] = _mm512_dpbusd_epi32(a[u], lanes(tap + u * step, q, from), by);
        from = _mm512_add_epi32(from, _mm512_set1_epi32(Quads::kNext));
      }
    }
  GH_UNROLL for (int u = 0; u < U; u++) take(pixel + u, vi((ni)a[u]));
}

// The same of windows three wide that move by S, for NV vectors of results of one group; the first `skip` results are not passed on again.
template <int U, int S, int NV, class Quads, class Take>
GH_NOINLINE void grouped_bytes_windows(const ConvShape &s, const uint8_t *x, const char *weights, long quads, Quads lanes, __m512i first, long pixel,
                                       int skip, const Take (&take)[NV]) {
  constexpr int kAcross = 3;
  const long tap = quads * W * 4, each = s.kh * kAcross * tap;
  __m512i a[NV][U];
  GH_UNROLL for (int v = 0; v < NV; v++)
    GH_UNROLL for (int u = 0; u < U; u++) a[v][u] = _mm512_setzero_si512();
  for (int i = 0; i < s.kh; i++) {
    const uint8_t *row = x + i * s.dh * s.W_in * s.C;
    __m512i from = first;
    for (long q = 0; q < quads; q++) {
      __m512i by[NV][kAcross];
      GH_UNROLL for (int v = 0; v < NV; v++)
        GH_UNROLL for (int j = 0; j < kAcross; j++) by[v][j] = _mm512_loadu_si512(weights + v * each + (i * kAcross + j) * tap + q * W * 4);
      GH_UNROLL for (int c = 0; c < (U - 1) * S + kAcross; c++) {
        const __m512i quad = lanes(row + c * s.C, q, from);
        GH_UNROLL for (int j = 0; j < kAcross; j++)
          if (c >= j && (c - j) % S == 0 && (c - j) / S < U)
            GH_UNROLL for (int v = 0; v < NV; v++) a[v][(c - j) / S] = _mm512_dpbusd_epi32(a[v][(c - j) / S], quad, by[v][j]);
      }
      from = _mm512_add_epi32(from, _mm512_set1_epi32(Quads::kNext));
    }
  }
  GH_UNROLL for (int v = 0; v < NV; v++) {
    const Take own = take[v];  // in registers: through a pointer it would be read again behind every store of bytes
    GH_UNROLL for (int u = 0; u < U; u++)
      if (u >= skip) own(pixel + u, vi((ni)a[v][u]));
  }
}

// A row of results, in pieces of U; the last one begins early where they do not go into it.
template <int U, int S, int NV, class Quads, class Take>
GH_INLINE void grouped_bytes_row(const ConvShape &s, const uint8_t *x, const char *weights, long quads, Quads lanes, __m512i first, long pixel,
                                 const Take (&take)[NV]) {
  for (long ow = 0; ow < s.OW; ow += U) {
    const long at = ow + U <= s.OW ? ow : s.OW - U;
    grouped_bytes_windows<U, S, NV>(s, x + at * S * s.C, weights, quads, lanes, first, pixel + at, (int)(ow - at), take);
  }
}

template <int NV, class Quads, class Epi>
inline void grouped_bytes_by(ThreadPool &pool, const ConvShape &s, const uint8_t *x, const void *packed, Quads lanes, Epi &epi) {
  const long vectors = s.OC / W, pairs = vectors / NV, quads = s.cg() / 4, rows = s.N * s.OH, each = s.kh * s.kw * quads * W * 4;
  alignas(64) int32_t begin_of[W];
  for (long lane = 0; lane < W; lane++) begin_of[lane] = (int32_t)(lane / s.og() * quads);
  const __m512i first = Quads::places(_mm512_load_si512(begin_of));
  const bool by_weights = vectors * each > 24 * 1024;  // more than half of L1: all rows take one vector's weights after the other
  parallel_for(pool, rows * pairs, row_grain(NV * s.OW * each / 4), [&](long begin, long end) {
    for (long k = begin; k < end; k++) {
      const long r = by_weights ? k % rows : k / pairs, v = NV * (by_weights ? k / rows : k % pairs), step = s.sw * s.C;
      const uint8_t *row = x + (r / s.OH * s.H + r % s.OH * s.sh) * s.W_in * s.C + v * W / s.og() * s.cg();
      const char *weights = (const char *)packed + v * each;
      auto of = [&](auto... more) __attribute__((always_inline)) {
        typedef decltype(columns_of(epi, v * W, Full{})) Take;
        const Take take[] = {columns_of(epi, (v + more) * W, Full{})...};
        const long pixel = r * s.OW;
        if (!windows_share_pixels(s) || s.OW < 7) {
          for (int i = 0; i < NV; i++)
            for (long ow = 0; ow < s.OW; ow++)
              grouped_bytes_columns<1>(s, row + ow * step, weights + i * each, quads, lanes, first, pixel + ow, take[i]);
        } else if (NV == 1 && s.OW >= 14) {
          if (s.sw == 1) grouped_bytes_row<14, 1, NV>(s, row, weights, quads, lanes, first, pixel, take);
          else grouped_bytes_row<14, 2, NV>(s, row, weights, quads, lanes, first, pixel, take);
        } else {
          if (s.sw == 1) grouped_bytes_row<7, 1, NV>(s, row, weights, quads, lanes, first, pixel, take);
          else grouped_bytes_row<7, 2, NV>(s, row, weights, quads, lanes, first, pixel, take);
        }
      };
      if constexpr (NV == 1) of(0);
      else of(0, 1);
    }
  });
}
template <class Epi>
inline void grouped_bytes(ThreadPool &pool, const ConvShape &s, const uint8_t *x, const void *packed, Epi &&epi) {
  const long units = W / s.og() * s.cg() / 4;
  if (s.og() % (2 * W) == 0) grouped_bytes_by<2>(pool, s, x, packed, SameQuad{}, epi);
  else if (s.og() >= W) grouped_bytes_by<1>(pool, s, x, packed, SameQuad{}, epi);
  else if (units == 4) grouped_bytes_by<1>(pool, s, x, packed, SixteenBytes{}, epi);
  else grouped_bytes_by<1>(pool, s, x, packed, SomeUnits{(__mmask16)(0xffffu >> (16 - units))}, epi);
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
