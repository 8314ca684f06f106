// pools.cuh: maxima and means over windows, or over the parts of an evenly divided axis.
//
// Contract
// - Images of `Planes` are [planes, up to three spatial axes], channels first; those of `pool_at` lie with their channels last.
// - NaN is the largest and the smallest element, as in NumPy; the first of equal ones counts.
#pragma once
#include "results.cuh"

namespace gh {

template <class T> GH_FN Wide<T> lowest() {
  if constexpr (is_int<T>::value) return std::numeric_limits<T>::lowest();
  else return -Wide<T>(__builtin_inff());
}

struct Span { int begin, count, step; };
struct Planes {
  int size[3], out[3];
  GH_FN int area() const { return size[0] * size[1] * size[2]; }
};
struct Windows {
  int size[3];
  int kernel[3], stride[3], begin[3], end[3], dilation[3];
  bool count_pad;
  GH_FN Span operator()(int axis, int o) const {
    const int d = dilation[axis], at = o * stride[axis] - begin[axis], n = size[axis];
    const int first = at >= 0 ? 0 : (-at + d - 1) / d, last = at >= n ? 0 : (n - at + d - 1) / d;
    const int stop = last < kernel[axis] ? last : kernel[axis];
    return {at + first * d, stop > first ? stop - first : 0, d};
  }
  GH_FN int counted(int axis, int o) const {
    if (!count_pad) return (*this)(axis, o).count;
    const int d = dilation[axis], at = o * stride[axis] - begin[axis], high = size[axis] + end[axis];
    const int n = at >= high ? 0 : (high - at + d - 1) / d;
    return n < kernel[axis] ? n : kernel[axis];
  }
};
struct Parts {
  int size[3], out[3];
  GH_FN Span operator()(int axis, int o) const {
    const int b = o * size[axis] / out[axis], e = ((o + 1) * size[axis] + out[axis] - 1) / out[axis];
    return {b, e - b, 1};
  }
  GH_FN int counted(int axis, int o) const { return (*this)(axis, o).count; }
};

// One result of a pool: over every element inside, each `step` elements apart (1, or the channels where these lie last).
struct PoolMax { static constexpr bool mean = false; };
struct PoolMean { static constexpr bool mean = true; };
template <class Kind, class T, class Spans>
GH_FN Wide<T> pool_at(const Planes &s, const Spans &spans, const T *image, int64_t step, int cell, int64_t *place = nullptr) {
  const int o2 = cell % s.out[2], o1 = cell / s.out[2] % s.out[1], o0 = cell / s.out[2] / s.out[1];
  const Span a = spans(0, o0), b = spans(1, o1), c = spans(2, o2);
  Wide<T> result = Kind::mean ? Wide<T>(0) : lowest<T>();
  int64_t best = -1;
  for (int i = 0; i < a.count; ++i)
    for (int j = 0; j < b.count; ++j)
      for (int k = 0; k < c.count; ++k) {
        const int at = ((a.begin + i * a.step) * s.size[1] + b.begin + j * b.step) * s.size[2] + c.begin + k * c.step;
        const Wide<T> v = to_scalar(image[at * step]);
        if (Kind::mean) result += v;
        else if (best < 0 || v > result || v != v) best = at, result = v;
      }
  if (Kind::mean) {
    const int n = spans.counted(0, o0) * spans.counted(1, o1) * spans.counted(2, o2);
    return result / Wide<T>(n > 0 ? n : 1);
  }
  if (place) *place = best;
  return result;
}

// The same for V neighbouring channels, which lie together.
template <class Kind, int V, class T, class Spans>
GH_FN Vec<Wide<T>, V> pool_beside(const Planes &s, const Spans &spans, const T *image, int64_t step, int cell) {
  const int o2 = cell % s.out[2], o1 = cell / s.out[2] % s.out[1], o0 = cell / s.out[2] / s.out[1];
  const Span a = spans(0, o0), b = spans(1, o1), c = spans(2, o2);
  Vec<Wide<T>, V> result;
#pragma unroll
  for (int u = 0; u < V; ++u) result[u] = Kind::mean ? Wide<T>(0) : lowest<T>();
  for (int i = 0; i < a.count; ++i)
    for (int j = 0; j < b.count; ++j)
      for (int k = 0; k < c.count; ++k) {
        const int at = ((a.begin + i * a.step) * s.size[1] + b.begin + j * b.step) * s.size[2] + c.begin + k * c.step;
        const Vec<T, V> x = load_vec<V>(image + at * step);
#pragma unroll
        for (int u = 0; u < V; ++u) {
          const Wide<T> v = to_scalar(x[u]);
          if (Kind::mean) result[u] += v;
          else if (v > result[u] || v != v) result[u] = v;
        }
      }
  if (Kind::mean) {
    const int n = spans.counted(0, o0) * spans.counted(1, o1) * spans.counted(2, o2);
#pragma unroll
    for (int u = 0; u < V; ++u) result[u] /= Wide<T>(n > 0 ? n : 1);
  }
  return result;
}

}  // namespace gh
