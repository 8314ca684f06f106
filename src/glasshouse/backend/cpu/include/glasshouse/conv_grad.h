// conv_grad.h: the gradient of a convolution by its weights, channels last; that by its input is in apart/transposed.h.
//
// Contract (ConvShape s describes the forward convolution: x [N, H, W_in, C] -> y [N, OH, OW, OC])
// - `conv_weight_grad(pool, s, x, g, work, out, so, si, sh, sw)`: float32; writes out[o so + i si + kh sh + kw sw].
//   Sums over pixels in chunks of kPixelChunk, in order. `work`: conv_weight_grad_bytes(s).
#pragma once
#include "conv.h"

namespace gh {
inline namespace GH_ISA_NS {

constexpr long kPixelChunk = 256;
GH_INLINE long weight_grad_stride(const ConvShape &s) { return panels<DotF32>(s.K()) * NR; }
inline size_t conv_weight_grad_bytes(const ConvShape &s) { return (size_t)s.OC * weight_grad_stride(s) * 4 + 64; }

// Columns [k0, k0 + NR) of the im2col matrix for pixels [p0, p0 + n): a panel of B whose K runs over pixels. Without dilation and
// groups a whole kernel row is one run of memory, of which the taps inside the image are copied; else the runs are single taps.
template <class T>
inline void pack_pixels(const ConvShape &s, const T *x, long k0, long p0, long n, float *out) {
  const long cg = s.cg(), K = s.K();
  const bool joined = s.dw == 1 && s.groups == 1;
  const long len = joined ? s.kw * cg : cg;
  for (long p = p0; p < p0 + n; p++, out += NR) {
    const long ow = p % s.OW, q = p / s.OW, oh = q % s.OH, b = q / s.OH;
    const Taps tw = valid_taps(ow, s.kw, s.sw, s.pw, s.dw, s.W_in);
    for (long k = k0; k < k0 + NR;) {
      const long r = k / len, off = k % len;
      long run = len - off < k0 + NR - k ? len - off : k0 + NR - k;
      const long row = joined ? r : r / s.kw, tap = joined ? 0 : r % s.kw;
      const long ih = oh * s.sh - s.ph + row * s.dh;
      float *o = out + (k - k0);
      // [lo, hi): the part of the run whose taps lie inside the image.
      long lo = joined ? tw.begin * cg - off : 0, hi = joined ? tw.end * cg - off : run;
      if (!joined && (tap < tw.begin || tap >= tw.end)) hi = 0;
      if (k >= K) run = k0 + NR - k, hi = 0;
      if (ih < 0 || ih >= s.H) hi = 0;
      lo = lo < 0 ? 0 : lo > run ? run : lo;
      hi = hi < lo ? lo : hi > run ? run : hi;
      if (lo > 0) memset(o, 0, (size_t)lo * 4);
      if (hi > lo) {
        const long iw = ow * s.sw - s.pw + tap * s.dw;
        convert_row(x + ((b * s.H + ih) * s.W_in + iw) * s.C + off + lo, o + lo, hi - lo);
      }
      if (run > hi) memset(o + hi, 0, (size_t)(run - hi) * 4);
      k += run;
    }
  }
}

template <class T>
inline void conv_weight_grad(ThreadPool &pool, const ConvShape &s, const T *x, const T *g, void *work, float *out, long so, long si,
                             long sh, long sw) {
  typedef DotF32 D;
  const long og = s.og(), cg = s.cg(), K = s.K(), np = panels<D>(K), ldw = weight_grad_stride(s), P = s.N * s.OH * s.OW;
  float *acc = (float *)work;
  const int threads = pool.size(), p = row_parts(og, np, P, threads), q = threads / p;
  for (long grp = 0; grp < s.groups; grp++)
    pool.run_parts(threads, [&](int t, int) {
      const Range cols = split(np, t % q, q), pairs = split((og + 1) / 2, t / q, p);
      const long r0 = 2 * pairs.begin, r1 = 2 * pairs.end < og ? 2 * pairs.end : og;
      if (r0 >= r1 || cols.begin >= cols.end) return;
      const RowTiles tiles(r1 - r0, false);
      const long lda = packed_a_stride(kPixelChunk), zero = 0;
      float *A = (float *)scratch<0>((size_t)(r1 - r0) * lda * 4);
      float *B = (float *)scratch<1>((size_t)kPixelChunk * NR * 4);
      for (long p0 = 0; p0 < P || p0 == 0; p0 += kPixelChunk) {
        const long n = P - p0 < kPixelChunk ? P - p0 : kPixelChunk;
        ColsA<T>{g + p0 * s.OC + grp * og, s.OC}.pack(r0, r1 - r0, 0, n, A, lda);
        for (long j = cols.begin; j < cols.end; j++) {
          pack_pixels(s, x + grp * cg, j * NR, p0, n, B);
          for (long i = 0; i < tiles.count; i++) {
            auto tl = tiles[i];
            micro_fn<D, 2>(tl.height)(A + tl.row * lda, lda, B, NR, KSegments{1, n, &zero},
                                      acc + (grp * og + r0 + tl.row) * ldw + j * NR, ldw, p0 > 0);
          }
        }
      }
    });
  const long taps = (long)s.kh * s.kw;
  parallel_for(pool, s.OC, row_grain(K), [&](long b, long e) {
    for (long o = b; o < e; o++) {
      const float *a = acc + o * ldw;
      if (sw == 1 && sh == s.kw && si == taps) {
        transpose2d(taps, cg, a, cg, out + o * so, taps);
        continue;
      }
      for (long k = 0; k < K; k++) out[o * so + k % cg * si + k / cg / s.kw * sh + k / cg % s.kw * sw] = a[k];
    }
  });
}

}  // namespace GH_ISA_NS
}  // namespace gh
