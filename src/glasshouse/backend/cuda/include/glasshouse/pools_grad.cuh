// pools_grad.cuh: gradients of maxima and means over windows: each element of the image adds up what its windows hand back.
//
// Contract
// - `Planes` and `Windows` as in pools.cuh describe the pool: its image is [size, channels], its results and their gradient `g` are
//   [out, channels], `step` channels from one to the next. V neighbouring channels, which lie together, of element `cell` of the image.
// - Windows are added in the order of their results: two runs give the same sums.
// - A maximum's g goes to the first of equals, the last of NaNs. Its place is the number of a tap of its window, row by row; -1 of a type P
//   is none. `KeptPlaces` were found before (`max_taps`, stored by a function of its own), `FoundPlaces` are found again: that is less
//   work where windows do not overlap.
#pragma once
#include "pools.cuh"

namespace gh {

// f(result, its number along each axis, tap) for every window that covers an element.
template <class F> GH_FN void each_covering(const Planes &s, const Windows &w, int cell, F &&f) {
  const int at[3] = {cell / s.size[2] / s.size[1], cell / s.size[2] % s.size[1], cell % s.size[2]};
  int from[3], to[3];
#pragma unroll
  for (int a = 0; a < 3; ++a) {
    const int moved = at[a] + w.begin[a], before = moved - (w.kernel[a] - 1) * w.dilation[a], last = moved / w.stride[a];
    from[a] = before <= 0 ? 0 : (before + w.stride[a] - 1) / w.stride[a], to[a] = last < s.out[a] ? last : s.out[a] - 1;
  }
  for (int i = from[0]; i <= to[0]; ++i) {
    const int p = at[0] + w.begin[0] - i * w.stride[0];
    if (p % w.dilation[0]) continue;
    for (int j = from[1]; j <= to[1]; ++j) {
      const int q = at[1] + w.begin[1] - j * w.stride[1];
      if (q % w.dilation[1]) continue;
      for (int k = from[2]; k <= to[2]; ++k) {
        const int r = at[2] + w.begin[2] - k * w.stride[2];
        if (r % w.dilation[2]) continue;
        const int tap = (p / w.dilation[0] * w.kernel[1] + q / w.dilation[1]) * w.kernel[2] + r / w.dilation[2];
        f((i * s.out[1] + j) * s.out[2] + k, i, j, k, tap);
      }
    }
  }
}

// The tap of a window that is its maximum, for each of V channels.
template <int V, class P, class T>
GH_FN Vec<P, V> max_taps(const Planes &s, const Windows &w, const T *image, int64_t step, int cell) {
  const int o2 = cell % s.out[2], o1 = cell / s.out[2] % s.out[1], o0 = cell / s.out[2] / s.out[1];
  const int a = o0 * w.stride[0] - w.begin[0], b = o1 * w.stride[1] - w.begin[1], c = o2 * w.stride[2] - w.begin[2];
  Wide<T> top[V];
  Vec<P, V> best;
#pragma unroll
  for (int u = 0; u < V; ++u) top[u] = lowest<T>(), best[u] = P(-1);
  for (int i = 0, tap = 0; i < w.kernel[0]; ++i)
    for (int j = 0; j < w.kernel[1]; ++j)
      for (int k = 0; k < w.kernel[2]; ++k, ++tap) {
        const int x = a + i * w.dilation[0], y = b + j * w.dilation[1], z = c + k * w.dilation[2];
        if (x < 0 || x >= s.size[0] || y < 0 || y >= s.size[1] || z < 0 || z >= s.size[2]) continue;
        const Vec<T, V> found = load_vec<V>(image + ((int64_t)(x * s.size[1] + y) * s.size[2] + z) * step);
#pragma unroll
        for (int u = 0; u < V; ++u) {
          const Wide<T> v = to_scalar(found[u]);
          if (best[u] == P(-1) || v > top[u] || v != v) top[u] = v, best[u] = P(tap);
        }
      }
  return best;
}

template <class P> struct KeptPlaces {
  const P *places;
  int64_t step;
  template <int V> GH_FN Vec<P, V> at(const Planes &, const Windows &, int result) const { return load_vec<V>(places + result * step); }
};
template <class T> struct FoundPlaces {
  const T *image;
  int64_t step;
  template <int V> GH_FN Vec<int, V> at(const Planes &s, const Windows &w, int result) const {
    return max_taps<V, int>(s, w, image, step, result);
  }
};

template <int V, class T, class Places>
GH_FN Vec<Wide<T>, V> max_handed_back(const Planes &s, const Windows &w, const T *g, int64_t step, int cell, const Places &places) {
  Vec<Wide<T>, V> sum;
#pragma unroll
  for (int u = 0; u < V; ++u) sum[u] = 0;
  each_covering(s, w, cell, [&](int result, int, int, int, int tap) {
    const Vec<T, V> x = load_vec<V>(g + result * step);
    const auto taken = places.template at<V>(s, w, result);
#pragma unroll
    for (int u = 0; u < V; ++u)
      if ((int)taken[u] == tap) sum[u] += to_scalar(x[u]);
  });
  return sum;
}

template <int V, class T>
GH_FN Vec<Wide<T>, V> mean_handed_back(const Planes &s, const Windows &w, const T *g, int64_t step, int cell) {
  Vec<Wide<T>, V> sum;
#pragma unroll
  for (int u = 0; u < V; ++u) sum[u] = 0;
  each_covering(s, w, cell, [&](int result, int i, int j, int k, int) {
    const Vec<T, V> x = load_vec<V>(g + result * step);
    const Wide<T> shares = Wide<T>(w.counted(0, i) * w.counted(1, j) * w.counted(2, k));
#pragma unroll
    for (int u = 0; u < V; ++u) sum[u] += to_scalar(x[u]) / shares;
  });
  return sum;
}

}  // namespace gh
