// conv_grad.h: the gradients of a convolution by its input (also: transposed convolution) and by its weights, channels last.
//
// Contract (ConvShape s describes the forward convolution: x [N, H, W_in, C] -> y [N, OH, OW, OC])
// - `conv_input_grad<D>(pool, s, g, w, work, epi)`: g is [N, OH, OW, OC], w the reordered weights [OC][kh, kw, C/groups] of
//   conv_reorder_weights (float or bf16); epi(pixel, c, acc, range) with pixel = (n H + h) W_in + w. With strides, input pixels fall
//   into sh * sw classes, each of which sees only its own taps: one product a class, no multiplication by inserted zeros.
//   `work`: conv_input_grad_bytes<D>(s). A transposed convolution is the same call with s describing its adjoint.
// - `conv_weight_grad(pool, s, x, g, work, out, so, si, sh, sw)`: float32; writes out[o so + i si + kh sh + kw sw].
//   Sums over pixels in chunks of kPixelChunk, in order. `work`: conv_weight_grad_bytes(s).
#pragma once
#include "conv.h"

namespace gh {
inline namespace GH_ISA_NS {

// One residue of (h + ph) mod sh: its taps (kernel rows) and the image rows that have it.
struct GradAxis {
  int taps[64], shift[64], count = 0;  // output row = a - shift[i] for the class's a-th row
  long first = 0, rows = 0;            // image rows first, first + stride, ...
  GradAxis(int residue, int k, int stride, int pad, int dilation, long size) {
    for (int i = 0; i < k && count < 64; i++)
      if (i * dilation % stride == residue) taps[count] = i, shift[count] = i * dilation / stride, count++;
    // rows h = stride * a + residue - pad >= 0; a starts at a0 so that h is the first one inside.
    long a0 = residue - pad >= 0 ? 0 : (pad - residue + stride - 1) / stride;
    first = stride * a0 + residue - pad;
    rows = first < size ? (size - 1 - first) / stride + 1 : 0;
    for (int i = 0; i < count; i++) shift[i] -= (int)a0;
  }
};

template <class T>
struct GradRows {
  static constexpr bool kDirect = false, kChunks = false;
  const ConvShape *s;
  const GradAxis *h, *w;
  const T *g;  // at the group's first output channel
  template <class D>
  bool in_place(long) const { return false; }
  template <class E>
  void pack(long row, long rows, long, long, E *out, long stride) const {
    const ConvShape &c = *s;
    const long og = c.og();
    for (long r = 0; r < rows; r++, out += stride) {
      const long p = row + r, b = p % w->rows, q = p / w->rows, a = q % h->rows, n = q / h->rows;
      E *o = out;
      for (int i = 0; i < h->count; i++) {
        const long oh = a - h->shift[i];
        for (int j = 0; j < w->count; j++, o += og) {
          const long ow = b - w->shift[j];
          if (oh < 0 || oh >= c.OH || ow < 0 || ow >= c.OW) memset((void *)o, 0, (size_t)og * sizeof(E));
          else convert_row(g + ((n * c.OH + oh) * c.OW + ow) * c.OC, o, og);
        }
      }
    }
  }
};

template <class D>
inline size_t conv_input_grad_bytes(const ConvShape &s) { return packed_b_bytes<D>((long)s.kh * s.kw * s.og() + D::kPer, s.cg()); }

template <class D, class T, class TW, class Epi>
inline void conv_input_grad(ThreadPool &pool, const ConvShape &s, const T *g, const TW *w, void *work, Epi &&epi) {
  const long og = s.og(), cg = s.cg(), KW = s.K();
  for (long grp = 0; grp < s.groups; grp++)
    for (int ry = 0; ry < s.sh; ry++)
      for (int rx = 0; rx < s.sw; rx++) {
        const GradAxis h(ry, s.kh, s.sh, s.ph, s.dh, s.H), v(rx, s.kw, s.sw, s.pw, s.dw, s.W_in);
        const long M = s.N * h.rows * v.rows, K = (long)h.count * v.count * og;
        if (M == 0) continue;
        // B: rows (tap, o), columns c. A float32 panel is filled tap by tap from rows that lie KW apart.
        const long np = panels<D>(cg), ku = units<D>(K);
        parallel_for(pool, np, row_grain(K * NR), [&](long b, long e) {
          for (long j = b; j < e; j++) {
            const long n = cg - j * NR < NR ? cg - j * NR : NR;
            char *panel = (char *)work + (size_t)j * ku * NR * 4;
            if (og % D::kPer == 0) {
              for (int i = 0; i < h.count * v.count; i++) {
                const int tap = h.taps[i / v.count] * s.kw + v.taps[i % v.count];
                pack_b_rows<D>(w + grp * og * KW + tap * cg + j * NR, KW, og, n, panel + (size_t)i * (og / D::kPer) * NR * 4);
              }
            } else {
              typedef typename D::Elem E;
              memset(panel, 0, (size_t)ku * NR * 4);
              for (long k = 0; k < K; k++) {
                const long i = k / og, o = k % og;
                const int tap = h.taps[i / v.count] * s.kw + v.taps[i % v.count];
                for (long c = 0; c < n; c++)
                  convert_row(w + (grp * og + o) * KW + tap * cg + j * NR + c, (E *)panel + (k / D::kPer * NR + c) * D::kPer + k % D::kPer, 1);
              }
            }
          }
        });
        auto e = [&](long r, long c, auto acc, auto t) __attribute__((always_inline)) {
          const long b = r % v.rows, q = r / v.rows, a = q % h.rows, n = q / h.rows;
          epi((n * s.H + h.first + a * s.sh) * s.W_in + v.first + b * s.sw, grp * cg + c, acc, t);
        };
        gemm<D>(pool, M, cg, K, GradRows<T>{&s, &h, &v, g + grp * og}, work, e);
      }
}

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
