// conv3d.h: convolutions over three axes as sums, over the taps of depth, of convolutions of planes; and their gradients.
//
// Contract
// - Images are [N, depth, height, width, C], results alike. A plane of the result is the sum of what the taps of depth make of planes of
//   the image; taps outside of the image are left out, so they cost nothing.
// - `over_depth(z, ..., plane, epi)`: plane(n, x, tap, e) convolves n planes that follow each other, from x on, with the weights of one
//   tap, and hands sums over to e(pixel, oc, acc, range). epi is called once for each vector, with pixels counted over the whole result.
// - With steps of 1, planes that follow each other share a call, as many as have sums of 256 KB; otherwise each plane is one.
#pragma once
#include "../conv_grad.h"
#include "../depthwise.h"

namespace gh {
inline namespace GH_ISA_NS {

struct Depth {
  long from, to, taps, step, pad, dilation;  // planes of the image that is read, and of the one that is made
  bool transposed;
  // The plane that tap k of plane o reads, or -1.
  long source(long o, long k) const {
    long i = transposed ? o + pad - k * dilation : o * step + k * dilation - pad;
    if (transposed) {
      if (i % step) return -1;
      i /= step;
    }
    return i >= 0 && i < from ? i : -1;
  }
};

template <class T, class Plane, class Epi>
inline void over_depth(const Depth &z, long batch, long in_plane, long pixels, long channels, const T *x, Plane &&plane, Epi &&epi) {
  constexpr long kSumBytes = 256 * 1024;
  long most = z.step == 1 ? kSumBytes / (pixels * channels * 4 + 1) : 1;
  if (most < 1) most = 1;
  float *sums = (float *)scratch<9>((size_t)(most * pixels * channels + W) * 4);
  for (long b = 0; b < batch; b++)
    for (long o0 = 0; o0 < z.to; o0 += most) {
      const long o1 = o0 + most < z.to ? o0 + most : z.to, base = (b * z.to + o0) * pixels;
      // Which taps are a plane's first and last.
      long *first = (long *)scratch<10>((size_t)(o1 - o0) * 2 * sizeof(long)), *last = first + (o1 - o0);
      for (long o = o0; o < o1; o++) {
        first[o - o0] = last[o - o0] = -1;
        for (long k = 0; k < z.taps; k++)
          if (z.source(o, k) >= 0) {
            if (first[o - o0] < 0) first[o - o0] = k;
            last[o - o0] = k;
          }
        if (last[o - o0] < 0)
          for (long p = 0; p < pixels; p++)
            for_each_vector(channels, [&](long c, auto t) { epi(base + (o - o0) * pixels + p, c, vf(0.0f), t); });
      }
      for (long k = 0; k < z.taps; k++) {
        long lo = o0;
        while (lo < o1 && z.source(lo, k) < 0) lo++;
        long hi = lo;
        while (hi < o1 && z.source(hi, k) >= 0) hi++;
        if (lo == hi) continue;
        const T *from = x + (b * z.from + z.source(lo, k)) * in_plane;
        const long shift = (lo - o0) * pixels;
        plane(hi - lo, from, k, [=, &epi](long pixel, long c, vf acc, auto t) __attribute__((always_inline)) {
          const long at = pixel + shift, o = hi - lo == 1 ? lo - o0 : at / pixels;
          float *sum = sums + at * channels + c;
          if (first[o] != k) acc = acc + load(sum, t);
          if (last[o] == k) epi(base + at, c, acc, t);
          else store(sum, acc, t);
        });
      }
    }
}

// The gradient by weights [O, I / groups, taps, kh, kw] (`s` of one plane): a sum of those of planes, for each tap.
template <class T>
inline void conv3d_weight_grad(ThreadPool &pool, ConvShape s, const Depth &z, long batch, const T *x, const T *g, float *out) {
  const long in_plane = s.H * s.W_in * s.C, out_plane = s.OH * s.OW * s.OC, taps = (long)s.kh * s.kw, pairs = s.OC * s.cg();
  float *part = (float *)scratch<9>((size_t)(pairs * taps + W) * 4);
  memset((void *)out, 0, (size_t)(pairs * z.taps * taps) * 4);
  for (long k = 0; k < z.taps; k++)
    for (long b = 0; b < batch; b++)
      for (long lo = 0, hi; lo < z.to; lo = hi) {
        hi = lo + 1;
        if (z.source(lo, k) < 0) continue;
        if (z.step == 1)
          while (hi < z.to && z.source(hi, k) >= 0) hi++;
        s.N = hi - lo;
        void *work = scratch<8>(conv_weight_grad_bytes(s));
        conv_weight_grad(pool, s, x + (b * z.from + z.source(lo, k)) * in_plane, g + (b * z.to + lo) * out_plane, work, part,
                         s.cg() * taps, taps, (long)s.kw, 1);
        for (long p = 0; p < pairs; p++)
          for (long i = 0; i < taps; i++) out[(p * z.taps + k) * taps + i] += part[p * taps + i];
      }
}

}  // namespace GH_ISA_NS
}  // namespace gh
