// pool.h: max and average pooling over two spatial axes, channels last (vectors over channels) or channels first.
//
// Contract
// - `PoolShape`: images of C channels, H x W_in inputs, OH x OW outputs, kernel, stride, padding (begin), dilation. Padding is
//   never read: max ignores it, average leaves it out of the sum; `avg` divides by the kernel's size when `count_pad`, by the
//   number of inputs inside the image otherwise (positions beyond the padded image, from ceil_mode, never count).
// - `pool2d_nhwc<MaxOp or SumOp>(pool, s, x, out)`: x is [N, H, W, C]; out(pixel, c, vf or, of double, vd, range), pixel = (n OH + oh) OW + ow.
// - `pool2d_nchw<...>(pool, s, x, out)`: x is [N, C, H, W]; out(index, float), index = ((n C + c) OH + oh) OW + ow.
// - Sums come divided (average); NaN wins in a maximum.
#pragma once
#include "reduce.h"

namespace gh {
inline namespace GH_ISA_NS {

struct PoolShape {
  long N, C, H, W_in, OH, OW;
  int kh, kw, sh, sw, ph, pw, dh = 1, dw = 1;
  int ph_end = 0, pw_end = 0;  // padding at the ends: only what `count_pad` counts
  bool count_pad = true;
};

// Taps k of [0, kernel) whose input o * stride - pad + k * dilation lies in [0, size): a contiguous range.
struct Taps { int begin, end; };
GH_INLINE Taps valid_taps(long o, int k, int stride, int pad, int dilation, long size) {
  long base = o * stride - pad;
  int b = base < 0 ? (int)((-base + dilation - 1) / dilation) : 0;
  long e = (size - base + dilation - 1) / dilation;
  int end = e < 0 ? 0 : e > k ? k : (int)e;
  if (b > k) b = k;
  return {b, end < b ? b : end};
}

template <class Op, class V = vf>
GH_INLINE auto pool_scale(const PoolShape &s, Taps h, Taps w, long oh, long ow) {
  typedef decltype(reduce_add(V())) R;
  if (__is_same(Op, MaxOp)) return R(1);
  if (!s.count_pad) return 1 / (R)((h.end - h.begin) * (w.end - w.begin));
  Taps hp = valid_taps(oh, s.kh, s.sh, 0, s.dh, s.H + s.ph + s.ph_end), wp = valid_taps(ow, s.kw, s.sw, 0, s.dw, s.W_in + s.pw + s.pw_end);
  return 1 / (R)((hp.end - hp.begin) * (wp.end - wp.begin));
}

// Few channels: lanes run over the elements of a row, whatever their channel. The window's rows are merged into one row with borders
// that change nothing, and of that the columns; per pixel only what follows is done. A mean of 7 x 7 of one channel takes a tenth.
template <class Op, class T, class Out>
inline void pool2d_few(ThreadPool &pool, const PoolShape &s, const T *x, Out &&out) {
  const long reach = (s.OW - 1) * s.sw + (long)(s.kw - 1) * s.dw + 1;
  const long wide = (reach > s.pw + s.W_in ? reach : s.pw + s.W_in) * s.C, made = s.OW * s.C, step = (long)s.dw * s.C;
  parallel_for(pool, s.N * s.OH, row_grain((wide * s.kh + made * s.kw) / 4), [&](long b, long e) {
    float *row = (float *)scratch<3>((size_t)(wide + 2 * made) * sizeof(float)), *merged = row + wide, *scale = merged + made;
    for (long i = 0; i < wide; i++) row[i] = Op::init;
    Taps scaled{0, -1};  // rows of the window that `scale` was made for: inside of the image, and inside of it with its borders
    for (long r = b; r < e; r++) {
      const long n = r / s.OH, oh = r % s.OH;
      const Taps th = valid_taps(oh, s.kh, s.sh, s.ph, s.dh, s.H);
      const T *from = x + (n * s.H + oh * s.sh - s.ph) * s.W_in * s.C;
      for_each_vector(s.W_in * s.C, [&](long w, auto t) __attribute__((always_inline)) {
        vf a(Op::init);
        for (int i = th.begin; i < th.end; i++) a = Op::merge(a, load(from + (long)i * s.dh * s.W_in * s.C + w, t));
        store(row + s.pw * s.C + w, a, t);
      });
      if (s.sw == 1) {
        for_each_vector(made, [&](long k, auto t) __attribute__((always_inline)) {
          vf a(Op::init);
          for (int j = 0; j < s.kw; j++) a = Op::merge(a, load(row + k + j * step, t));
          store(merged + k, a, t);
        });
      } else {
        for (long k = 0; k < made; k++) {
          const float *p = row + k / s.C * s.sw * s.C + k % s.C;
          float a = Op::init;
          for (int j = 0; j < s.kw; j++) a = Op::merge1(a, p[j * step]);
          merged[k] = a;
        }
      }
      if (!__is_same(Op, MaxOp)) {
        const Taps hp = valid_taps(oh, s.kh, s.sh, 0, s.dh, s.H + s.ph + s.ph_end), now{th.end - th.begin, hp.end - hp.begin};
        if (now.begin != scaled.begin || now.end != scaled.end) {
          for (long ow = 0; ow < s.OW; ow++) {
            const float one = pool_scale<Op>(s, th, valid_taps(ow, s.kw, s.sw, s.pw, s.dw, s.W_in), oh, ow);
            for (long c = 0; c < s.C; c++) scale[ow * s.C + c] = one;
          }
          scaled = now;
        }
        for_each_vector(made, [&](long k, auto t)
                                  __attribute__((always_inline)) { store(merged + k, load(merged + k, t) * load(scale + k, t), t); });
      }
      for (long ow = 0; ow < s.OW; ow++)
        for_each_vector(s.C, [&](long c, auto t) __attribute__((always_inline)) { out(r * s.OW + ow, c, load(merged + ow * s.C + c, t), t); });
    }
  });
}

template <class Op, class T, class Out>
inline void pool2d_nhwc(ThreadPool &pool, const PoolShape &s, const T *x, Out &&out) {
  typedef decltype(load(x)) V;
  if constexpr (__is_same(V, vf) && sizeof(T) > 1)
    if (s.C <= W / 2 && s.kh * s.kw > 1) return pool2d_few<Op>(pool, s, x, out);
  parallel_for(pool, s.N * s.OH, row_grain(s.OW * s.C * s.kh * s.kw / 4), [&](long b, long e) {
    for (long r = b; r < e; r++) {
      const long n = r / s.OH, oh = r % s.OH;
      const Taps th = valid_taps(oh, s.kh, s.sh, s.ph, s.dh, s.H);
      for (long ow = 0; ow < s.OW; ow++) {
        const Taps tw = valid_taps(ow, s.kw, s.sw, s.pw, s.dw, s.W_in);
        const V scale(pool_scale<Op, V>(s, th, tw, oh, ow));
        const T *img = x + n * s.H * s.W_in * s.C;
        if constexpr (sizeof(T) == 1 && __is_same(Op, MaxOp)) {
          // Bytes are compared as bytes, four times as many at once; those past the last vector, beside zeros.
          typedef T bytes __attribute__((vector_size(4 * W)));
          const T *first = img + ((oh * s.sh - s.ph) * s.W_in + ow * s.sw - s.pw) * s.C;
          for (long c0 = 0; c0 < s.C; c0 += 4 * W) {
            const long count = s.C - c0 < 4 * W ? s.C - c0 : 4 * W;
            bytes top = bytes{} + (T)(__is_same(T, int8_t) ? -128 : 0), one{};
            for (int i = th.begin; i < th.end; i++)
              for (int j = tw.begin; j < tw.end; j++) {
                const T *p = first + ((long)i * s.dh * s.W_in + (long)j * s.dw) * s.C + c0;
                if (count == 4 * W) memcpy(&one, p, sizeof one);
#if defined(GH_AVX512)  // copying some of them through memory took ten times as long: 32 channels, 128x128
                else one = (bytes)_mm512_maskz_loadu_epi8(~0ull >> (64 - count), p);
#else
                else memcpy(&one, p, (size_t)count);
#endif
                top = one > top ? one : top;
              }
            alignas(64) T tops[4 * W];
            memcpy(tops, &top, sizeof top);
            for_each_vector(count, [&](long c, auto t) __attribute__((always_inline)) {
              out((n * s.OH + oh) * s.OW + ow, c0 + c, load(tops + c, t), t);
            });
          }
          continue;
        }
        for_each_vector(s.C, [&](long c, auto t) __attribute__((always_inline)) {
          V a(Op::init);
          for (int i = th.begin; i < th.end; i++) {
            const T *row = img + ((oh * s.sh - s.ph + i * s.dh) * s.W_in + ow * s.sw - s.pw) * s.C + c;
            for (int j = tw.begin; j < tw.end; j++) a = Op::merge(a, load(row + (long)j * s.dw * s.C, t));
          }
          if (!__is_same(Op, MaxOp)) a = a * scale;
          out((n * s.OH + oh) * s.OW + ow, c, a, t);
        });
      }
    }
  });
}

// Channels first: the window's rows are merged as vectors along W into one row, whose columns are then merged one by one.
template <class Op, class T, class Out>
inline void pool2d_nchw(ThreadPool &pool, const PoolShape &s, const T *x, Out &&out) {
  parallel_for(pool, s.N * s.C, row_grain(s.OH * s.OW * s.kh * s.kw), [&](long b, long e) {
    float *row = (float *)scratch<3>((size_t)s.W_in * 4);
    for (long p = b; p < e; p++)
      for (long oh = 0; oh < s.OH; oh++) {
        const Taps th = valid_taps(oh, s.kh, s.sh, s.ph, s.dh, s.H);
        const T *img = x + p * s.H * s.W_in;
        for_each_vector(s.W_in, [&](long w, auto t) __attribute__((always_inline)) {
          vf a(Op::init);
          for (int i = th.begin; i < th.end; i++) a = Op::merge(a, load(img + (oh * s.sh - s.ph + i * s.dh) * s.W_in + w, t));
          store(row + w, a, t);
        });
        for (long ow = 0; ow < s.OW; ow++) {
          const Taps tw = valid_taps(ow, s.kw, s.sw, s.pw, s.dw, s.W_in);
          float a = Op::init;
          for (int j = tw.begin; j < tw.end; j++) a = Op::merge1(a, row[ow * s.sw - s.pw + j * s.dw]);
          if (!__is_same(Op, MaxOp)) a *= pool_scale<Op>(s, th, tw, oh, ow);
          out((p * s.OH + oh) * s.OW + ow, a);
        }
      }
  });
}

}  // namespace GH_ISA_NS
}  // namespace gh
