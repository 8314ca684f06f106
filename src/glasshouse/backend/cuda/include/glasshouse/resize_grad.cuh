// resize_grad.cuh: the gradient of resizing: each element of the image adds up what results that have a tap there hand back.
//
// Contract
// - Axes and taps as in resize.cuh describe the resizing: its image is [lengths, channels], the gradient `g` of its results [counts,
//   channels], `channels` from one to the next. V neighbouring channels, which lie together, of element `cell` of the image.
// - Along an axis results are added in order, and the taps of one in theirs: two runs give the same sums.
// - Both ends of a result's taps grow from result to result (`least`, `greatest`): those with a tap at an element lie side by side.
#pragma once
#include "resize.cuh"

namespace gh {

// The first result that may have a tap at element i: about where it lies, then as the taps themselves say.
template <class Taps> GH_FN int first_reaching(const ResizeAxis &a, int i) {
  const double step = a.step(), about = step > 0 ? ((double)i - Taps::reach(step)) / step - 0.5 : 0.0;
  int o = about <= 0 ? 0 : about >= a.count - 1 ? a.count - 1 : (int)about;
  while (o > 0 && Taps(a, o - 1).greatest() >= i) --o;
  while (o < a.count && Taps(a, o).greatest() < i) ++o;
  return o;
}

// f(result, factor) for each tap at element i of an axis.
template <class Taps, class F> GH_FN void each_reaching(const ResizeAxis &a, int i, F &&f) {
  for (int o = first_reaching<Taps>(a, i); o < a.count; ++o) {
    const Taps taps(a, o);
    if (taps.least() > i) return;
    for (int k = 0; k < taps.taps; ++k)
      if (taps.at(k) == i) f(o, taps.factor(k));
  }
}

template <class I, class J, class K, int V, class T>
GH_FN Vec<Wide<T>, V> resized_back(const ResizeAxis &a, const ResizeAxis &b, const ResizeAxis &c, const T *g, int64_t channels, int cell) {
  Vec<Wide<T>, V> result;
#pragma unroll
  for (int u = 0; u < V; ++u) result[u] = 0;
  each_reaching<I>(a, cell / c.length / b.length, [&](int l, double of_plane) {
    Wide<T> plane[V] = {};
    each_reaching<J>(b, cell / c.length % b.length, [&](int m, double of_row) {
      Wide<T> row[V] = {};
      each_reaching<K>(c, cell % c.length, [&](int n, double factor) {
        const Vec<T, V> x = load_vec<V>(g + (((int64_t)l * b.count + m) * c.count + n) * channels);
        const Wide<T> f = Wide<T>(factor);
#pragma unroll
        for (int u = 0; u < V; ++u) row[u] += to_scalar(x[u]) * f;
      });
      const Wide<T> f = Wide<T>(of_row);
#pragma unroll
      for (int u = 0; u < V; ++u) plane[u] += row[u] * f;
    });
    const Wide<T> f = Wide<T>(of_plane);
#pragma unroll
    for (int u = 0; u < V; ++u) result[u] += plane[u] * f;
  });
  return result;
}

}  // namespace gh
