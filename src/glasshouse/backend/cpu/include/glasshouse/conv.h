// conv.h: 2-D convolution, channels last, as matrix products over the taps, with the epilogue inlined.
//
// Contract
// - Weights are packed by conv_weights.h.
// - `conv2d<D>(pool, s, x, packed, work, epi [, hint])`: epi(pixel, oc, acc, range) with pixel = (n OH + oh) OW + ow, as in
//   gemm.h. x may be float, bf16, f16 for DotF32 and DotBF16, double for DotF64, uint8 for DotI8. `work`: conv_work_bytes<D>(s) bytes or more, shared
//   by the threads. It picks, by shape alone (`conv_way`), one of three ways; `conv2d_as<D, way>` is one way alone, which compiles in
//   a third of the time:
//     1x1 without stride   the plain product, x read in place
//     direct               x copied once into a zero-padded image (skipped without padding), tiles of consecutive output columns
//                          read it in place, one segment of K for each kernel row: for wide images
//     im2col               rows of K gathered block by block into L2: everything else (cost about 2 / OC of the product)
// - `pad_image` makes the padded image from [N, H, W, C] or, turning it on the way, from [N, C, H, W] (`conv2d_nchw_input`).
// - Channel-first results: store as [N, OC, OH, OW] with transpose.h afterwards; a strided epilogue would write 4 bytes a line.
#pragma once
#include "conv_weights.h"
#include "gemm.h"
#include "pool.h"

namespace gh {
inline namespace GH_ISA_NS {

// Zero-padded copy [N, hp, wp, C] of x, shifted by (ph, pw). x is [N, H, W, C], or [N, C, H, W] when `channels_first`.
template <class E, class T>
inline void pad_image(ThreadPool &pool, const ConvShape &s, const T *x, bool channels_first, long hp, long wp, E *out) {
  parallel_for(pool, s.N * hp, row_grain(wp * s.C), [&](long begin, long end) {
    for (long r = begin; r < end; r++) {
      const long n = r / hp, h = r % hp - s.ph;
      E *o = out + r * wp * s.C;
      if (h < 0 || h >= s.H) {
        memset((void *)o, 0, (size_t)(wp * s.C) * sizeof(E));
        continue;
      }
      const long left = s.pw < wp ? s.pw : wp, mid = s.W_in < wp - left ? s.W_in : wp - left;
      memset((void *)o, 0, (size_t)(left * s.C) * sizeof(E));
      memset((void *)(o + (left + mid) * s.C), 0, (size_t)((wp - left - mid) * s.C) * sizeof(E));
      o += left * s.C;
      if (!channels_first) {
        convert_row(x + (n * s.H + h) * s.W_in * s.C, o, mid * s.C);
      } else {
        const T *src = x + (n * s.C * s.H + h) * s.W_in;
        if constexpr (sizeof(T) == 4 && sizeof(E) == 4) {
          if (s.C >= W / 2) {
            transpose2d(s.C, mid, (const E *)src, s.H * s.W_in, o, s.C);
            continue;
          }
          const long plane = s.H * s.W_in;
          if (s.C == 3) {  // photographs
            for (long w = 0; w < mid; w++) {
              E a = ((const E *)src)[w], b = ((const E *)src)[w + plane], c = ((const E *)src)[w + 2 * plane];
              o[3 * w] = a, o[3 * w + 1] = b, o[3 * w + 2] = c;
            }
            continue;
          }
        }
        for (long c = 0; c < s.C; c++)
          for (long w = 0; w < mid; w++) convert_row(src + c * s.H * s.W_in + w, o + w * s.C + c, 1);
      }
    }
  });
}

// Source of A for gemm: row = output pixel, K = (kh, kw, c) of one group.
template <class T>
struct Im2col {
  static constexpr bool kDirect = false, kChunks = false;
  const ConvShape *s;
  const T *x;  // already at the group's first channel
  template <class D>
  bool in_place(long) const { return false; }
  template <class E>
  void pack(long row, long rows, long, long, E *out, long stride) const {
    const ConvShape &c = *s;
    const long cg = c.cg();
    for (long r = 0; r < rows; r++, out += stride) {
      const long p = row + r, ow = p % c.OW, q = p / c.OW, oh = q % c.OH, n = q / c.OH;
      const long ih0 = oh * c.sh - c.ph, iw0 = ow * c.sw - c.pw;
      const Taps tw = valid_taps(ow, c.kw, c.sw, c.pw, c.dw, c.W_in);
      E *o = out;
      for (int i = 0; i < c.kh; i++, o += c.kw * cg) {
        const long ih = ih0 + (long)i * c.dh;
        if (ih < 0 || ih >= c.H || tw.begin == tw.end) {
          zero(o, c.kw * cg);
          continue;
        }
        const T *src = x + ((n * c.H + ih) * c.W_in + iw0) * c.C;
        zero(o, tw.begin * cg);
        zero(o + tw.end * cg, (c.kw - tw.end) * cg);
        if (c.dw == 1 && c.groups == 1) {
          convert_row(src + tw.begin * cg, o + tw.begin * cg, (tw.end - tw.begin) * cg);
        } else {
          for (int j = tw.begin; j < tw.end; j++) convert_row(src + (long)j * c.dw * c.C, o + j * cg, cg);
        }
      }
    }
  }
  template <class E>
  GH_INLINE static void zero(E *p, long n) {
    if (n > 0) memset((void *)p, 0, (size_t)n * sizeof(E));
  }
};

// Output columns of one image row make a tile; its rows lie sw * C apart in the padded image. `xp`: [N, hp, wp, C]. What lies together, a segment of
// K, is a kernel row, or in groups the channels of a tap.
template <class D, class Epi>
GH_NOINLINE void conv_direct(ThreadPool &pool, const ConvShape &s, const typename AElem<D>::type *xp, long hp, long wp, const void *Bp,
                        Epi &&epi, OutHint hint = OutHint{}) {
  constexpr int NR = kColumns<D>;
  const long of_group = panels<D>(s.og()), np = s.groups * of_group, ku = units<D>(s.K()), lda = s.sw * s.C / D::kPer;
  const int across = s.groups == 1 ? 1 : s.kw, segments = s.kh * across;
  long offset[64];
  for (int i = 0; i < segments; i++) offset[i] = ((long)(i / across) * s.dh * wp + (long)(i % across) * s.dw) * s.C / D::kPer;
  const RowsOf<D> tiles(s.OW);
  // As many image rows a block as keep their inputs within a quarter of L2, so that every panel of weights is used on all.
  long block = kL2Bytes / 4 / (s.sh * wp * s.C * (long)sizeof(typename AElem<D>::type) + 1);
  if (block < 1) block = 1;
  const long rows = s.N * s.OH;
  const int threads = (double)rows * s.OW * s.OC * s.K() < kWorthThread<D> ? 1 : pool.size();
  const int p = row_parts(rows, np, s.K() * s.OW, threads, NR), q = threads / p;
  auto part = [&](int t, int) {
    const Range c = split(np, t % q, q), r = split(rows, t / q, p);
    KSegments segs{segments, s.K() / segments / D::kPer, offset};
    segs.row_bytes = s.sw * s.C * (long)sizeof(typename AElem<D>::type);
    Micro<D> micro;
    for (long b0 = r.begin; b0 < r.end; b0 += block) {
      const long b1 = b0 + block < r.end ? b0 + block : r.end;
      for (long j = c.begin; j < c.end; j++) {
        const char *panel = (const char *)Bp + (size_t)j * ku * NR * D::kBytes;
        const long group = j / of_group, column = group * s.og() + j % of_group * NR, end = (group + 1) * s.og();
        const bool narrow = end - column <= W;
        for (long row = b0; row < b1; row++) {
          const auto *x = xp + (row / s.OH * hp + row % s.OH * s.sh) * wp * s.C + group * s.cg();
          for (long i = 0; i < tiles.count; i++) {
            auto tl = tiles[i];
            alignas(64) typename D::Out tile[kTallest<D> * NR];
            segs.out = hint.tile(row * s.OW + tl.row, column, end - column, NR);
            micro_product(micro, narrow, tl.height, x + tl.row * s.sw * s.C, lda, panel, segs, tile, NR, false);
            tile_epilogue<D>(tile, NR, tl.skip, tl.height, row * s.OW + tl.row, column, end, epi);
          }
        }
      }
    }
  };
  if (threads == 1) part(0, 1);
  else pool.run_parts(threads, part);
}

// Whether tiles can read a padded image in place: units of K may not straddle what lies together. They may begin at any byte.
template <class D>
constexpr bool conv_can_be_direct(const ConvShape &s) {
  const int per = D::kPer;
  constexpr bool bytes = __is_same(typename D::Out, int32_t);
  if (s.groups > 1) return bytes && !kTiled<D> && s.cg() % per == 0 && s.kh * s.kw <= 64;
  return s.dw == 1 && s.kh <= 64 && s.kw * s.C % per == 0 &&
         (bytes || (s.sw * s.C % per == 0 && s.padded_w() * s.C % per == 0)) && s.W_in * s.C % per == 0;
}
template <class D>
constexpr bool conv_prefers_direct(const ConvShape &s) {
  return conv_can_be_direct<D>(s) && s.sw * s.C * (D::kBytes / D::kPer) % 4096 != 0 && s.OW >= kMaxRows && !s.pointwise();
}
enum class ConvWay { kPointwise, kDirect, kIm2col };
template <class D>
constexpr ConvWay conv_way(const ConvShape &s) {
  return s.pointwise() && s.groups == 1 ? ConvWay::kPointwise : conv_prefers_direct<D>(s) ? ConvWay::kDirect : ConvWay::kIm2col;
}
template <class D>
inline size_t conv_work_bytes(const ConvShape &s) {
  return conv_can_be_direct<D>(s) ? (size_t)s.N * s.padded_h() * s.padded_w() * s.C * (D::kBytes / D::kPer) + 64 : 64;
}

template <class D, ConvWay Way, class T, class Epi>
inline void conv2d_as(ThreadPool &pool, const ConvShape &s, const T *x, const void *Bp, void *work, Epi &&epi,
                   OutHint hint = OutHint{}) {
  typedef typename AElem<D>::type E;
  const long M = s.N * s.OH * s.OW;
  if (M <= 0 || s.OC <= 0) return;
  if constexpr (Way == ConvWay::kPointwise) {
    gemm<D>(pool, M, s.OC, s.C, RowsA<T>{x, s.C}, Bp, epi, hint);
  } else if constexpr (Way == ConvWay::kDirect) {
    const long hp = s.padded_h(), wp = s.padded_w();
    if constexpr (sizeof(T) == sizeof(E)) {
      if (!s.needs_pad()) {
        conv_direct<D>(pool, s, (const E *)x, s.H, s.W_in, Bp, epi, hint);
        return;
      }
    }
    pad_image(pool, s, x, false, hp, wp, (E *)work);
    conv_direct<D>(pool, s, (const E *)work, hp, wp, Bp, epi, hint);
  } else {
    for (long g = 0; g < s.groups; g++) {
      ByColumns e{[&](long c, auto t) __attribute__((always_inline)) { return columns_of(epi, g * s.og() + c, t); }};
      OutHint h = hint;
      if (h.p) h.p = (char *)h.p + g * s.og() * h.elem_bytes;
      gemm<D>(pool, M, s.og(), s.K(), Im2col<T>{&s, x + g * s.cg()},
              (const char *)Bp + g * packed_b_bytes<D>(s.K(), s.og()), e, h);
    }
  }
}

template <class D, class T, class Epi>
inline void conv2d(ThreadPool &pool, const ConvShape &s, const T *x, const void *Bp, void *work, Epi &&epi,
                   OutHint hint = OutHint{}) {
  const ConvWay way = conv_way<D>(s);
  if (way == ConvWay::kPointwise) conv2d_as<D, ConvWay::kPointwise>(pool, s, x, Bp, work, epi, hint);
  else if (way == ConvWay::kDirect) conv2d_as<D, ConvWay::kDirect>(pool, s, x, Bp, work, epi, hint);
  else conv2d_as<D, ConvWay::kIm2col>(pool, s, x, Bp, work, epi, hint);
}

// x is [N, C, H, W]: turned into the padded channels-last image (work: N * padded_h * padded_w * C elements) on the way.
template <class D>
inline size_t conv_nchw_work_bytes(const ConvShape &s) {
  return (size_t)s.N * s.padded_h() * s.padded_w() * s.C * (D::kBytes / D::kPer) + 64;
}
template <class D, class T, class Epi>
inline void conv2d_nchw_input(ThreadPool &pool, const ConvShape &s, const T *x, const void *Bp, void *work, Epi &&epi,
                              OutHint hint = OutHint{}) {
  typedef typename AElem<D>::type E;
  const long hp = s.padded_h(), wp = s.padded_w();
  pad_image(pool, s, x, true, hp, wp, (E *)work);
  if (conv_prefers_direct<D>(s)) {
    conv_direct<D>(pool, s, (const E *)work, hp, wp, Bp, epi, hint);
    return;
  }
  ConvShape p = s;
  p.H = hp, p.W_in = wp, p.ph = p.pw = 0;
  conv2d<D>(pool, p, (const E *)work, Bp, (void *)nullptr, epi, hint);
}

}  // namespace GH_ISA_NS
}  // namespace gh
