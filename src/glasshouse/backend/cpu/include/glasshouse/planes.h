// planes.h: pooling for what pool.h has no vectors for: every element type, three spatial axes, parts of different sizes, indices.
//
// Contract
// - Images are [planes, up to three spatial axes], channels first; fewer axes have leading sizes of 1. What an output element takes
//   in along an axis is a `Span`: `count` elements from `begin` on, `step` apart, all inside of the image.
// - `Windows` gives the spans of a sliding window and how many elements a mean counts; `Parts` those of an adaptive pool: part i of
//   n takes the elements from floor(i * size / n) to ceil((i + 1) * size / n).
// - `plane_max`, `plane_argmax` (the flat index of the first maximum, of the last NaN), `plane_mean`, `plane_max_grad` (g added
//   where the maximum is) and `plane_mean_grad` take either. Half floats are computed in float32, sums of a plane have one order.
#pragma once
#include "context.h"

namespace gh {
inline namespace GH_ISA_NS {

template <class T> GH_INLINE T widen(T x) { return x; }
GH_INLINE float widen(bf16 x) { return to_scalar(x); }
GH_INLINE float widen(f16 x) { return to_scalar(x); }
GH_INLINE float widen(f8e4 x) { return to_scalar(x); }
GH_INLINE float widen(f8e5 x) { return to_scalar(x); }
template <class T> using Wide = decltype(widen(T()));
template <class T>
GH_INLINE T narrow(Wide<T> x) {
  if constexpr (std::is_same<T, Wide<T>>::value) return x;
  else return from_scalar<T>(x);
}

template <class T>
GH_INLINE T lowest() {
  if constexpr (std::is_integral<T>::value) return std::numeric_limits<T>::lowest();
  else return narrow<T>(-std::numeric_limits<Wide<T>>::infinity());
}

struct Span { long begin, count, step; };

struct Planes {
  long planes, size[3], out[3];
  GH_INLINE long area() const { return size[0] * size[1] * size[2]; }
  GH_INLINE long cells() const { return out[0] * out[1] * out[2]; }
};

struct Windows {
  long size[3];
  int kernel[3], stride[3], begin[3], end[3], dilation[3];
  bool count_pad;
  GH_INLINE Span operator()(int axis, long o) const {
    const long d = dilation[axis], at = o * stride[axis] - begin[axis], n = size[axis];
    const long first = at >= 0 ? 0 : (-at + d - 1) / d;
    const long last = at >= n ? 0 : (n - at + d - 1) / d;  // the first tap beyond the image
    const long stop = last < kernel[axis] ? last : kernel[axis];
    return {at + first * d, stop > first ? stop - first : 0, d};
  }
  // Elements that a mean divides by: padding may count, what lies beyond it never does.
  GH_INLINE long counted(int axis, long o) const {
    if (!count_pad) return (*this)(axis, o).count;
    const long d = dilation[axis], at = o * stride[axis] - begin[axis], high = size[axis] + end[axis];
    const long n = at >= high ? 0 : (high - at + d - 1) / d;
    return n < kernel[axis] ? n : kernel[axis];
  }
};
struct Parts {
  long size[3], out[3];
  GH_INLINE Span operator()(int axis, long o) const {
    const long b = o * size[axis] / out[axis], e = ((o + 1) * size[axis] + out[axis] - 1) / out[axis];
    return {b, e - b, 1};
  }
  GH_INLINE long counted(int axis, long o) const { return (*this)(axis, o).count; }
};

// f(plane, cell, d, h, w): the output elements of each plane with their spans; a plane is one thread's.
template <class Spans, class F>
inline void each_cell(Context &ctx, const Planes &s, const Spans &spans, F &&f) {
  ctx.parallel(s.planes, s.planes * s.cells() >= 2048, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      long cell = 0;
      for (long i = 0; i < s.out[0]; i++)
        for (long j = 0; j < s.out[1]; j++)
          for (long k = 0; k < s.out[2]; k++, cell++) f((long)plane, cell, i, j, k);
    }
  });
}
// f(at) for every element inside, in order.
template <class F>
GH_INLINE void each_element(const Planes &s, Span a, Span b, Span c, F &&f) {
  for (long i = 0; i < a.count; i++)
    for (long j = 0; j < b.count; j++) {
      const long row = ((a.begin + i * a.step) * s.size[1] + b.begin + j * b.step) * s.size[2] + c.begin;
      for (long k = 0; k < c.count; k++) f(row + k * c.step);
    }
}
// -1 for a window of which a dilation leaves nothing inside.
template <class T, class Spans>
GH_INLINE long place_of_max(const Planes &s, const Spans &spans, const T *image, long i, long j, long k) {
  long best = -1;
  Wide<T> top = 0;
  each_element(s, spans(0, i), spans(1, j), spans(2, k), [&](long at) {
    const Wide<T> v = widen(image[at]);
    if (best < 0 || v > top || v != v) best = at, top = v;
  });
  return best;
}

// f(plane, first cell, a, b, counted): the rows of output elements of each plane, with the spans of the two outer axes and how many
// elements a mean counts along both. What the elements of a row take in along the last axis is worked out once, in `across`.
struct Across { Span span; long counted; };
template <class Spans, class F>
inline void each_row(Context &ctx, const Planes &s, const Spans &spans, F &&f) {
  Across *across = (Across *)scratch<3>((size_t)(s.out[2] + 1) * sizeof(Across));
  for (long k = 0; k < s.out[2]; k++) across[k] = {spans(2, k), spans.counted(2, k)};
  ctx.parallel(s.planes, s.planes * s.cells() >= 2048, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      long cell = plane * s.cells();
      for (long i = 0; i < s.out[0]; i++) {
        const Span a = spans(0, i);
        const long deep = spans.counted(0, i);
        for (long j = 0; j < s.out[1]; j++, cell += s.out[2]) f((long)plane, cell, a, spans(1, j), deep * spans.counted(1, j), across);
      }
    }
  });
}
// f(first, row): the rows of an image that a row of output elements takes in, in order; `first` for one alone.
template <class T, class F>
GH_INLINE void each_line(const Planes &s, const T *image, Span a, Span b, F &&f) {
  for (long i = 0; i < a.count; i++)
    for (long j = 0; j < b.count; j++)
      f(i == 0 && j == 0, image + ((a.begin + i * a.step) * s.size[1] + b.begin + j * b.step) * s.size[2]);
}

// Rows are brought together first, column by column, in vectors; then the columns of each window. Equal maxima: the first in the
// order of the image, so the upper one of a column, and of columns the one that comes first.
template <class T, class Spans>
inline void plane_argmax(Context &ctx, const Planes &s, const Spans &spans, const T *x, int64_t *out) {
  typedef Wide<T> V;
  const long n = s.size[2];
  each_row(ctx, s, spans, [&](long plane, long cell, Span a, Span b, long, const Across *across) {
    V *top = (V *)scratch<4>((size_t)n * sizeof(V));
    int32_t *line = (int32_t *)scratch<5>((size_t)n * sizeof(int32_t));
    long *row_at = (long *)scratch<6>((size_t)(a.count * b.count + 1) * sizeof(long));
    const T *image = x + plane * s.area();
    int32_t lines = 0;
    each_line(s, image, a, b, [&](bool first, const T *row) {
      row_at[lines] = row - image;
      if (first) {
        for (long w = 0; w < n; w++) top[w] = widen(row[w]), line[w] = 0;
      } else {
        for (long w = 0; w < n; w++) {
          const V v = widen(row[w]), old = top[w];
          const bool better = (v > old) | (v != v);
          top[w] = better ? v : old;
          line[w] = better ? lines : line[w];
        }
      }
      lines++;
    });
    for (long k = 0; k < s.out[2]; k++) {
      const Span c = across[k].span;
      if (!lines || !c.count) {
        out[cell + k] = -1;
        continue;
      }
      long w = c.begin, best = row_at[line[w]] + w;
      V most = top[w];
      for (long q = 1; q < c.count; q++) {
        w += c.step;
        const V v = top[w];
        const long at = row_at[line[w]] + w;
        const bool better = v != v ? (most == most) | (at > best) : (v > most) | ((v == most) & (at < best));
        best = better ? at : best;
        most = better ? v : most;
      }
      out[cell + k] = best;
    }
  });
}
template <class T, class Spans>
inline void plane_max(Context &ctx, const Planes &s, const Spans &spans, const T *x, T *out) {
  typedef Wide<T> V;
  const long n = s.size[2];
  each_row(ctx, s, spans, [&](long plane, long cell, Span a, Span b, long, const Across *across) {
    V *top = (V *)scratch<4>((size_t)n * sizeof(V));
    each_line(s, x + plane * s.area(), a, b, [&](bool first, const T *row) {
      for (long w = 0; w < n; w++) {
        const V v = widen(row[w]);
        top[w] = first | (v > top[w]) | (v != v) ? v : top[w];
      }
    });
    const bool some = a.count && b.count;
    for (long k = 0; k < s.out[2]; k++) {
      const Span c = across[k].span;
      V most = some && c.count ? top[c.begin] : widen(lowest<T>());
      for (long q = 1; q < (some ? c.count : 0); q++) {
        const V v = top[c.begin + q * c.step];
        most = (v > most) | (v != v) ? v : most;
      }
      out[cell + k] = narrow<T>(most);
    }
  });
}
template <class T, class Spans>
inline void plane_mean(Context &ctx, const Planes &s, const Spans &spans, const T *x, T *out) {
  typedef Wide<T> V;
  const long n = s.size[2];
  each_row(ctx, s, spans, [&](long plane, long cell, Span a, Span b, long counted, const Across *across) {
    V *sums = (V *)scratch<4>((size_t)n * sizeof(V));
    each_line(s, x + plane * s.area(), a, b, [&](bool first, const T *row) {
      for (long w = 0; w < n; w++) sums[w] = first ? widen(row[w]) : sums[w] + widen(row[w]);
    });
    const bool some = a.count && b.count;
    for (long k = 0; k < s.out[2]; k++) {
      const Span c = across[k].span;
      V sum = 0;
      for (long q = 0; q < (some ? c.count : 0); q++) sum += sums[c.begin + q * c.step];
      const long of = counted * across[k].counted;
      out[cell + k] = narrow<T>(sum / (V)(of > 0 ? of : 1));
    }
  });
}

// `sums`: room for the wide gradient of the image; the result itself where T is wide.
template <class T, class Spans, class F>
inline void plane_grad(Context &ctx, const Planes &s, const Spans &spans, Wide<T> *sums, T *out, F &&add) {
  memset((void *)sums, 0, (size_t)(s.planes * s.area()) * sizeof(Wide<T>));
  each_cell(ctx, s, spans, [&](long plane, long cell, long i, long j, long k) {
    add(sums + plane * s.area(), plane, plane * s.cells() + cell, i, j, k);
  });
  if ((void *)sums != (void *)out)
    for (long at = 0; at < s.planes * s.area(); at++) out[at] = narrow<T>(sums[at]);
}
template <class T, class Spans>
inline void plane_max_grad(Context &ctx, const Planes &s, const Spans &spans, const T *g, const T *x, Wide<T> *sums, T *out) {
  plane_grad<T>(ctx, s, spans, sums, out, [&](Wide<T> *image, long plane, long cell, long i, long j, long k) {
    const long at = place_of_max(s, spans, x + plane * s.area(), i, j, k);
    if (at >= 0) image[at] += widen(g[cell]);
  });
}
template <class T, class Spans>
inline void plane_mean_grad(Context &ctx, const Planes &s, const Spans &spans, const T *g, Wide<T> *sums, T *out) {
  plane_grad<T>(ctx, s, spans, sums, out, [&](Wide<T> *image, long, long cell, long i, long j, long k) {
    const long n = spans.counted(0, i) * spans.counted(1, j) * spans.counted(2, k);
    const Wide<T> share = widen(g[cell]) / (Wide<T>)(n > 0 ? n : 1);
    each_element(s, spans(0, i), spans(1, j), spans(2, k), [&](long at) { image[at] += share; });
  });
}

}  // namespace GH_ISA_NS
}  // namespace gh
