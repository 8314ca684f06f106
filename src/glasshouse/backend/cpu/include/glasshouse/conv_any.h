// conv_any.h: convolutions for what conv.h has no products for: three spatial axes, and element types other than float32 and bf16.
//
// Contract
// - Channels first: x [N, C, size...], w [O, C / groups, kernel...], y [N, O, out...], with `Windows` (planes.h) describing the window.
//   `conv_any` computes y; `conv_any_input_grad` x from y and w; `conv_any_weight_grad` w from x and y. Sums are wide (float32 for
//   half floats), in one order whatever the threads.
// - Plain loops, the innermost along the rows of an image, so that the compiler makes vectors where the stride is 1.
#pragma once
#include "planes.h"

namespace gh {
inline namespace GH_ISA_NS {

struct AnyConv {
  long N, C, O, groups, out[3];
  Windows window;
  GH_INLINE long cg() const { return C / groups; }
  GH_INLINE long og() const { return O / groups; }
  GH_INLINE long taps() const { return (long)window.kernel[0] * window.kernel[1] * window.kernel[2]; }
  GH_INLINE long area() const { return window.size[0] * window.size[1] * window.size[2]; }
  GH_INLINE long cells() const { return out[0] * out[1] * out[2]; }
};

// The outputs for which tap k of an axis lies inside of the image.
struct TapRange { long begin, end, at; };  // `at`: the image's place at output 0
GH_INLINE TapRange tap_range(const AnyConv &s, int axis, int k) {
  const long at = (long)k * s.window.dilation[axis] - s.window.begin[axis], step = s.window.stride[axis];
  const long b = at >= 0 ? 0 : (-at + step - 1) / step;
  const long e = at >= s.window.size[axis] ? 0 : (s.window.size[axis] - at + step - 1) / step;
  return {b, e < s.out[axis] ? e : s.out[axis], at};
}
// f(tap, output row, image row, first, last, place in the image at output 0, step): rows along the last axis.
template <class F>
GH_INLINE void each_tap_row(const AnyConv &s, F &&f) {
  long tap = 0;
  for (int a = 0; a < s.window.kernel[0]; a++)
    for (int b = 0; b < s.window.kernel[1]; b++)
      for (int c = 0; c < s.window.kernel[2]; c++, tap++) {
        const TapRange d = tap_range(s, 0, a), h = tap_range(s, 1, b), w = tap_range(s, 2, c);
        for (long i = d.begin; i < d.end; i++)
          for (long j = h.begin; j < h.end; j++) {
            const long row = (d.at + i * s.window.stride[0]) * s.window.size[1] + h.at + j * s.window.stride[1];
            f(tap, (i * s.out[1] + j) * s.out[2], row * s.window.size[2], w.begin, w.end, w.at, (long)s.window.stride[2]);
          }
      }
}

template <class T>
inline void conv_any(Context &ctx, const AnyConv &s, const T *x, const T *w, Wide<T> *sums, T *out) {
  typedef Wide<T> V;
  ctx.parallel(s.N * s.O, true, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const long n = (long)p / s.O, o = (long)p % s.O, c0 = o / s.og() * s.cg();
      V *y = sums + p * s.cells();
      for (long i = 0; i < s.cells(); i++) y[i] = 0;
      for (long c = 0; c < s.cg(); c++) {
        const T *image = x + (n * s.C + c0 + c) * s.area(), *filter = w + (o * s.cg() + c) * s.taps();
        each_tap_row(s, [&](long tap, long yrow, long xrow, long b, long e, long at, long step) {
          const V f = widen(filter[tap]);
          const T *from = image + xrow + at;
          for (long k = b; k < e; k++) y[yrow + k] += f * widen(from[k * step]);
        });
      }
      if ((void *)sums != (void *)out)
        for (long i = 0; i < s.cells(); i++) out[p * s.cells() + i] = narrow<T>(y[i]);
    }
  });
}

template <class T>
inline void conv_any_input_grad(Context &ctx, const AnyConv &s, const T *g, const T *w, Wide<T> *sums, T *out) {
  typedef Wide<T> V;
  ctx.parallel(s.N * s.C, true, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const long n = (long)p / s.C, c = (long)p % s.C, group = c / s.cg();
      V *image = sums + p * s.area();
      for (long i = 0; i < s.area(); i++) image[i] = 0;
      for (long o = group * s.og(); o < (group + 1) * s.og(); o++) {
        const T *y = g + (n * s.O + o) * s.cells(), *filter = w + (o * s.cg() + c % s.cg()) * s.taps();
        each_tap_row(s, [&](long tap, long yrow, long xrow, long b, long e, long at, long step) {
          const V f = widen(filter[tap]);
          V *to = image + xrow + at;
          for (long k = b; k < e; k++) to[k * step] += f * widen(y[yrow + k]);
        });
      }
      if ((void *)sums != (void *)out)
        for (long i = 0; i < s.area(); i++) out[p * s.area() + i] = narrow<T>(image[i]);
    }
  });
}

template <class T>
inline void conv_any_weight_grad(Context &ctx, const AnyConv &s, const T *x, const T *g, Wide<T> *sums, T *out) {
  typedef Wide<T> V;
  ctx.parallel(s.O * s.cg(), true, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const long o = (long)p / s.cg(), c = o / s.og() * s.cg() + (long)p % s.cg();
      V *filter = sums + p * s.taps();
      for (long i = 0; i < s.taps(); i++) filter[i] = 0;
      for (long n = 0; n < s.N; n++) {
        const T *image = x + (n * s.C + c) * s.area(), *y = g + (n * s.O + o) * s.cells();
        each_tap_row(s, [&](long tap, long yrow, long xrow, long b, long e, long at, long step) {
          const T *from = image + xrow + at;
          V sum = 0;
          for (long k = b; k < e; k++) sum += widen(from[k * step]) * widen(y[yrow + k]);
          filter[tap] += sum;
        });
      }
      if ((void *)sums != (void *)out)
        for (long i = 0; i < s.taps(); i++) out[p * s.taps() + i] = narrow<T>(filter[i]);
    }
  });
}

}  // namespace GH_ISA_NS
}  // namespace gh
