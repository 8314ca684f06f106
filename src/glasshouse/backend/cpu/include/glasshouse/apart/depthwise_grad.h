// depthwise_grad.h: gradients of a convolution of every channel by itself, channels last, vectors over channels.
//
// Contract
// - `s` is the forward convolution, with OC = C = groups; weights as `depthwise_pack_weights` makes them, [kh kw][C].
// - `depthwise_input_grad(pool, s, g, packed, epi)`: epi(pixel, c, vf, range) over the pixels of the image.
// - `depthwise_weight_grad(pool, s, x, g, out)`: out [C, kh, kw]. Threads share channels, so sums do not depend on their number.
#pragma once
#include "../depthwise.h"

namespace gh {
inline namespace GH_ISA_NS {

// For every place of an axis and tap: the result that this tap of it reads the place, or -1.
inline long *depthwise_sources(long size, int taps, int step, int pad, int dilation, long results, long *out) {
  for (long p = 0; p < size; p++)
    for (int k = 0; k < taps; k++) {
      const long at = p + pad - (long)k * dilation;
      out[p * taps + k] = at >= 0 && at % step == 0 && at / step < results ? at / step : -1;
    }
  return out;
}

template <class T, class Epi>
inline void depthwise_input_grad(ThreadPool &pool, const ConvShape &s, const T *g, const float *w, Epi &&epi) {
  long *rows = (long *)scratch<11>((size_t)(s.H * s.kh + s.W_in * s.kw + 1) * sizeof(long));
  long *columns = rows + s.H * s.kh;
  depthwise_sources(s.H, s.kh, s.sh, s.ph, s.dh, s.OH, rows);
  depthwise_sources(s.W_in, s.kw, s.sw, s.pw, s.dw, s.OW, columns);
  parallel_for(pool, s.N * s.H, row_grain(s.W_in * s.C * s.kh * s.kw / 8), [&](long begin, long end) {
    for (long r = begin; r < end; r++) {
      const long n = r / s.H, *oh = rows + r % s.H * s.kh;
      for (long x = 0; x < s.W_in; x++) {
        const long *ow = columns + x * s.kw;
        for_each_vector(s.C, [&](long c, auto t) __attribute__((always_inline)) {
          vf sum(0.0f);
          for (int i = 0; i < s.kh; i++) {
            if (oh[i] < 0) continue;
            const T *line = g + (n * s.OH + oh[i]) * s.OW * s.C + c;
            for (int j = 0; j < s.kw; j++)
              if (ow[j] >= 0) sum = fma(load(line + ow[j] * s.C, t), load(w + ((long)i * s.kw + j) * s.C + c, t), sum);
          }
          epi(r * s.W_in + x, c, sum, t);
        });
      }
    }
  });
}

template <class T>
inline void depthwise_weight_grad(ThreadPool &pool, const ConvShape &s, const T *x, const T *g, float *out) {
  const long blocks = (s.C + W - 1) / W, taps = (long)s.kh * s.kw;
  parallel_for(pool, blocks, 1, [&](long begin, long end) {
    const long c0 = begin * W, c1 = end * W < s.C ? end * W : s.C, width = (c1 - c0 + W - 1) / W * W;
    float *sums = (float *)scratch<9>((size_t)(taps * width) * 4);
    for (long i = 0; i < taps * width; i++) sums[i] = 0;
    for (long r = 0; r < s.N * s.OH; r++) {  // row by row, so that all taps and channels find it in cache
      const long n = r / s.OH, oh = r % s.OH;
      const Taps rows = valid_taps(oh, s.kh, s.sh, s.ph, s.dh, s.H);
      for (int i = rows.begin; i < rows.end; i++) {
        const T *line = x + (n * s.H + oh * s.sh - s.ph + (long)i * s.dh) * s.W_in * s.C;
        for (int j = 0; j < s.kw; j++) {
          const long first = s.pw - (long)j * s.dw, last = s.W_in - 1 + first;  // of ow * sw
          const long lo = first > 0 ? (first + s.sw - 1) / s.sw : 0;
          const long hi = last < 0 ? 0 : last / s.sw + 1 < s.OW ? last / s.sw + 1 : s.OW;
          for_each_vector(c1 - c0, [&](long c, auto t) __attribute__((always_inline)) {
            const T *a = line + c0 + c - first * s.C, *b = g + r * s.OW * s.C + c0 + c;
            const long step = (long)s.sw * s.C;
            vf part[4] = {vf(0.0f), vf(0.0f), vf(0.0f), vf(0.0f)};
            long ow = lo;
            for (; ow + 4 <= hi; ow += 4)
              GH_UNROLL for (int u = 0; u < 4; u++)
                part[u] = fma(load(a + (ow + u) * step, t), load(b + (ow + u) * s.C, t), part[u]);
            for (; ow < hi; ow++) part[0] = fma(load(a + ow * step, t), load(b + ow * s.C, t), part[0]);
            float *sum = sums + ((long)i * s.kw + j) * width + c;
            store(sum, load(sum) + ((part[0] + part[1]) + (part[2] + part[3])));
          });
        }
      }
    }
    for (long c = c0; c < c1; c++)
      for (long k = 0; k < taps; k++) out[c * taps + k] = sums[k * width + c - c0];
  });
}

}  // namespace GH_ISA_NS
}  // namespace gh
