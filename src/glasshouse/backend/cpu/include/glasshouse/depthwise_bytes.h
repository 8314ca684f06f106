// depthwise_bytes.h: depthwise convolution of 8-bit integers, channels last, vectors over channels, whole sums.
//
// Contract
// - `depthwise_bytes_pack(w, so, sh, sw, s, out)`: w[c so + kh sh + kw sw] -> int32 [kh kw][C].
// - `depthwise_bytes(pool, s, x, packed, zero, epi)`: epi(pixel, c, vi, range) with sum((x - zero) w), exact. x: uint8 or int8 as it
//   lies; taps beyond the image count nothing, because padding stands for the zero point. OC = C = groups.
// - The zero point comes out at the end, as zero * sum(w): one addition a tap for several columns instead of one each.
#pragma once
#include "conv.h"

namespace gh {
inline namespace GH_ISA_NS {

inline void depthwise_bytes_pack(const int8_t *w, long so, long sh, long sw, const ConvShape &s, int32_t *out) {
  for (int i = 0; i < s.kh; i++)
    for (int j = 0; j < s.kw; j++)
      for (long c = 0; c < s.C; c++) out[((long)i * s.kw + j) * s.C + c] = w[c * so + i * sh + j * sw];
}

// U columns from `ow` on, whose taps `tw` all lie inside; p is the tap (0, 0) of the first, `step` elements before the next's.
template <int U, class T, class Epi>
GH_INLINE void depthwise_bytes_columns(const ConvShape &s, const T *p, long step, const int32_t *w, Taps th, Taps tw, int32_t zero,
                                    long pixel, Epi &&epi) {
  for_each_vector(s.C, [&](long c, auto t) __attribute__((always_inline)) {
    vi sums(0), a[U];
    GH_UNROLL for (int u = 0; u < U; u++) a[u] = vi(0);
    for (int i = th.begin; i < th.end; i++)
      for (int j = tw.begin; j < tw.end; j++) {
        const T *q = p + ((long)i * s.dh * s.W_in + (long)j * s.dw) * s.C + c;
        const vi k = load(w + ((long)i * s.kw + j) * s.C + c, t);
        sums = sums + k;
        GH_UNROLL for (int u = 0; u < U; u++) a[u] = a[u] + load_int(q + u * step, t) * k;
      }
    GH_UNROLL for (int u = 0; u < U; u++) epi(pixel + u, c, a[u] - vi(zero) * sums, t);
  });
}

template <class T, class Epi>
inline void depthwise_bytes(ThreadPool &pool, const ConvShape &s, const T *x, const int32_t *w, int32_t zero, Epi &&epi) {
  constexpr int U = 4;
  const Range inner = s.whole_columns();
  const long step = (long)s.sw * s.C;
  parallel_for(pool, s.N * s.OH, row_grain(s.OW * s.C * s.kh * s.kw / 8), [&](long begin, long end) {
    for (long r = begin; r < end; r++) {
      const long n = r / s.OH, oh = r % s.OH;
      const Taps th = valid_taps(oh, s.kh, s.sh, s.ph, s.dh, s.H), all{0, s.kw};
      const T *row = x + ((n * s.H + oh * s.sh - s.ph) * s.W_in - s.pw) * s.C;
      auto one = [&](long ow) {
        const Taps tw = valid_taps(ow, s.kw, s.sw, s.pw, s.dw, s.W_in);
        depthwise_bytes_columns<1>(s, row + ow * step, step, w, th, tw, zero, r * s.OW + ow, epi);
      };
      long ow = 0;
      for (; ow < inner.begin; ow++) one(ow);
      for (; ow + U <= inner.end; ow += U)
        depthwise_bytes_columns<U>(s, row + ow * step, step, w, th, all, zero, r * s.OW + ow, epi);
      for (; ow < s.OW; ow++) one(ow);
    }
  });
}

}  // namespace GH_ISA_NS
}  // namespace gh
