// depthwise.h: convolution of every channel by itself (groups = channels), channels last, vectors over channels.
//
// Contract
// - `depthwise_pack_weights(w, so, sh, sw, s, out)`: w[c so + kh sh + kw sw] -> float (of double, double) [kh kw][C].
// - `depthwise2d(pool, s, x, packed, epi)`: epi(pixel, c, vf, range) as in conv.h. x: float, bf16, f16, or double with vd. OC = C = groups.
// - Limited by loads (5 for every 4 multiply-adds) or by memory, so it never packs or pads.
#pragma once
#include "conv.h"

namespace gh {
inline namespace GH_ISA_NS {

template <class T, class R>
inline void depthwise_pack_weights(const T *w, long so, long sh, long sw, const ConvShape &s, R *out) {
  for (int i = 0; i < s.kh; i++)
    for (int j = 0; j < s.kw; j++)
      for (long c = 0; c < s.C; c++) out[((long)i * s.kw + j) * s.C + c] = to_scalar(w[c * so + i * sh + j * sw]);
}

template <class T, class R, class Epi>
inline void depthwise2d(ThreadPool &pool, const ConvShape &s, const T *x, const R *w, Epi &&epi) {
  typedef decltype(load(w)) V;
  constexpr int U = 4;  // output columns at once
  const Range inner = s.whole_columns();
  const long step = (long)s.sw * s.C;
  parallel_for(pool, s.N * s.OH, row_grain(s.OW * s.C * s.kh * s.kw / 8), [&](long begin, long end) {
    for (long r = begin; r < end; r++) {
      const long n = r / s.OH, oh = r % s.OH;
      const Taps th = valid_taps(oh, s.kh, s.sh, s.ph, s.dh, s.H);
      const T *img = x + (n * s.H + oh * s.sh - s.ph) * s.W_in * s.C;
      auto one = [&](long ow) {
        const Taps tw = valid_taps(ow, s.kw, s.sw, s.pw, s.dw, s.W_in);
        for_each_vector(s.C, [&](long c, auto t) __attribute__((always_inline)) {
          V a(R(0));
          for (int i = th.begin; i < th.end; i++)
            for (int j = tw.begin; j < tw.end; j++)
              a = fma(load(img + ((long)i * s.dh * s.W_in + ow * s.sw - s.pw + (long)j * s.dw) * s.C + c, t),
                      load(w + ((long)i * s.kw + j) * s.C + c, t), a);
          epi(r * s.OW + ow, c, a, t);
        });
      };
      long ow = 0;
      for (; ow < inner.begin; ow++) one(ow);
      for (; ow + U <= inner.end; ow += U)
        for_each_vector(s.C, [&](long c, auto t) __attribute__((always_inline)) {
          V a[U];
          GH_UNROLL for (int u = 0; u < U; u++) a[u] = V(R(0));
          for (int i = th.begin; i < th.end; i++) {
            const T *p = img + ((long)i * s.dh * s.W_in + ow * s.sw - s.pw) * s.C + c;
            for (int j = 0; j < s.kw; j++) {
              const V k = load(w + ((long)i * s.kw + j) * s.C + c, t);
              GH_UNROLL for (int u = 0; u < U; u++) a[u] = fma(load(p + (long)j * s.dw * s.C + u * step, t), k, a[u]);
            }
          }
          GH_UNROLL for (int u = 0; u < U; u++) epi(r * s.OW + ow + u, c, a[u], t);
        });
      for (; ow < s.OW; ow++) one(ow);
    }
  });
}

}  // namespace GH_ISA_NS
}  // namespace gh
