// resize_windows.h: images made smaller with antialiasing: an element takes in a window that is the wider the more an axis shrinks.
//
// Contract
// - Element i of `count` lies at c = (i + 0.5) step of the axis and takes the elements whose centres are nearer than the filter's reach
//   (1: triangle, 2: cubic with slope -0.5) times max(step, 1), with parts that add up to 1: nothing beyond the border counts, and an
//   element with part 0 is not read (0 * inf would be NaN). Windows are computed once a call, in double.
// - `resize_windows(ctx, r, outer, inner, x, out)`: [outer, length, inner] to [outer, count, inner]; `resize_windows_grad` goes back,
//   from [outer, count, inner] to sums [outer, length, inner]. Neighbours along `inner` are computed side by side; where there are none,
//   kLines lines are turned, so that their elements are neighbours. The order of sums depends neither on threads nor on the shape.
#pragma once
#include "../resize.h"
#include "../transpose.h"
#include "../vec_double.h"

namespace gh {
inline namespace GH_ISA_NS {

// Element i takes `taps[i]` elements from `first[i]` on; their parts lie from factor[i * widest] on.
template <class V>
struct ResizeWindows {
  long widest;
  int32_t *first, *taps;
  V *factor;
};

inline double resize_filter(bool cubic, double x) {
  const double t = x < 0 ? -x : x;
  if (!cubic) return t < 1 ? 1 - t : 0;
  return t < 1 ? (1.5 * t - 2.5) * t * t + 1 : t < 2 ? ((-0.5 * t + 2.5) * t - 4) * t + 2 : 0;
}

template <class V>
inline ResizeWindows<V> resize_windows_of(const Resize &r) {
  const bool cubic = r.mode == ResizeMode::cubic;
  double step = r.scale > 0 ? 1.0 / r.scale : (double)r.length / (double)r.count;
  if (r.places == ResizePlaces::align_corners) step = r.count > 1 ? (double)(r.length - 1) / (double)(r.count - 1) : 0.0;
  const double stretch = step > 1 ? step : 1, reach = (cubic ? 2 : 1) * stretch;
  const long wide = (long)(2 * reach) + 2, widest = wide < r.length ? wide : r.length;
  int32_t *first = (int32_t *)scratch<3>((size_t)r.count * 2 * sizeof(int32_t));
  double *part = (double *)scratch<4>((size_t)widest * sizeof(double));
  V *factor = (V *)scratch<5>((size_t)(r.count * widest) * sizeof(V));
  const ResizeWindows<V> w{widest, first, first + r.count, factor};
  for (long i = 0; i < r.count; i++, factor += widest) {
    const double centre = ((double)i + 0.5) * step;
    const double from = __builtin_floor(centre - reach + 0.5), to = __builtin_floor(centre + reach + 0.5);
    long low = from <= 0 ? 0 : from < (double)r.length ? (long)from : r.length - 1, high = to < (double)r.length ? (long)to : r.length;
    auto at = [&](long j) { return resize_filter(cubic, ((double)j - centre + 0.5) / stretch); };
    while (high - low > 1 && at(low) == 0) low++;
    while (high - low > 1 && at(high - 1) == 0) high--;
    double total = 0;
    for (long j = low; j < high; j++) total += part[j - low] = at(j);
    if (total == 0) total = part[0] = 1;  // beyond the border, by scales that are not the ratio of sizes: the last element
    for (long j = low; j < high; j++) factor[j - low] = (V)(part[j - low] / total);
    w.first[i] = (int32_t)low, w.taps[i] = (int32_t)(high - low);
  }
  return w;
}

// Element i of `inner` lines, whose elements lie `inner` apart.
template <class V, class In, class Out>
GH_INLINE void window_sum(const ResizeWindows<V> &w, long i, long inner, const In *image, Out *out) {
  const V *factor = w.factor + i * w.widest;
  const In *x = image + w.first[i] * inner;
  const long taps = w.taps[i];
  for_each_vector4(inner, [&](long j, auto range) __attribute__((always_inline)) {
    auto sum = load(x + j, range) * decltype(load(x, range))(factor[0]);
    for (long k = 1; k < taps; k++) sum = fma(load(x + k * inner + j, range), decltype(sum)(factor[k]), sum);
    store(out + j, sum, range);
  });
}

// Adds the gradient of element i where the element came from.
template <class V, class In>
GH_INLINE void window_spread(const ResizeWindows<V> &w, long i, long inner, const In *g, V *image) {
  const V *factor = w.factor + i * w.widest;
  V *sums = image + w.first[i] * inner;
  for (long k = 0; k < w.taps[i]; k++, sums += inner)
    for_each_vector(inner, [&](long j, auto range) __attribute__((always_inline)) {
      store(sums + j, fma(load(g + j, range), decltype(load(sums, range))(factor[k]), load(sums + j, range)), range);
    });
}

// f(n, from, to) for kLines lines at a time, of which n are there, turned: [have, n] to [want, n].
constexpr long kLines = 64;
template <class In, class Out, class F>
inline void turned_lines(Context &ctx, long lines, long have, long want, const In *x, Out *out, F &&f) {
  ctx.parallel((lines + kLines - 1) / kLines, lines * (have + want) >= 16384, [&](int64_t begin, int64_t end) {
    In *from = (In *)scratch<6>((size_t)(kLines * have) * sizeof(In));
    Out *to = (Out *)scratch<7>((size_t)(kLines * want) * sizeof(Out));
    for (long line = begin * kLines; line < end * kLines && line < lines; line += kLines) {
      const long n = lines - line < kLines ? lines - line : kLines;
      transpose2d(n, have, x + line * have, have, from, n);
      f(n, from, to);
      transpose2d(want, n, to, n, out + line * want, want);
    }
  });
}

template <class In, class Out>
inline void resize_windows(Context &ctx, const Resize &r, long outer, long inner, const In *x, Out *out) {
  const ResizeWindows<Wide<In>> w = resize_windows_of<Wide<In>>(r);
  if (inner == 1)
    return turned_lines(ctx, outer, r.length, r.count, x, out, [&](long n, const In *from, Out *to) {
      for (long i = 0; i < r.count; i++) window_sum(w, i, n, from, to + i * n);
    });
  ctx.parallel(outer * r.count, outer * r.count * inner >= 8192, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      window_sum(w, (long)row % r.count, inner, x + (long)row / r.count * r.length * inner, out + row * inner);
  });
}

template <class In, class V>
inline void resize_windows_grad(Context &ctx, const Resize &r, long outer, long inner, const In *g, V *sums) {
  const ResizeWindows<V> w = resize_windows_of<V>(r);
  auto image = [&](long n, const In *from, V *to) {
    for (long i = 0; i < r.length * n; i++) to[i] = 0;
    for (long i = 0; i < r.count; i++) window_spread(w, i, n, from + i * n, to);
  };
  if (inner == 1) return turned_lines(ctx, outer, r.count, r.length, g, sums, image);
  ctx.parallel(outer, outer * r.count * inner >= 8192, [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o) image(inner, g + o * r.count * inner, sums + o * r.length * inner);
  });
}

}  // namespace GH_ISA_NS
}  // namespace gh
