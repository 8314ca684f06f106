// resize.cuh: images brought to another size: a thread for each result, or for a few neighbouring channels of one.
//
// Contract
// - Along an axis a result is a sum of taps: 1 element (nearest), 2 (linear) or 4 (cubic, slope -0.75), the outermost ones again beyond the
//   border; with `antialias` all within a filter that is as much wider as the axis shrinks (cubic: slope -0.5), and nothing beyond the border.
//   An element at the end of such a filter that has no part in it is not read: 0 times infinity would be NaN.
// - `ResizeAxis{length, count, places, scale}`: the axis and its new size; `scale` <= 0 is the ratio. Places are computed in double; nearest
//   in float32, as PyTorch has it: half a unit in the last place decides the element.
// - `resized<V>`: V neighbouring channels, which lie together, of pixel `cell` of an image [three axes, channels]; the first axes may be 1.
#pragma once
#include "results.cuh"

namespace gh {

enum class ResizePlaces { half_pixel, align_corners, asymmetric };

GH_FN double cubic_near(double t, double slope) { return ((slope + 2) * t - (slope + 3)) * t * t + 1; }
GH_FN double cubic_far(double t, double slope) { return ((slope * t - 5 * slope) * t + 8 * slope) * t - 4 * slope; }

struct ResizeAxis {
  int length, count;
  ResizePlaces places;
  double scale;
  GH_FN double step() const {
    if (places == ResizePlaces::align_corners) return count > 1 ? (double)(length - 1) / (double)(count - 1) : 0.0;
    return scale > 0 ? 1.0 / scale : (double)length / (double)count;
  }
  GH_FN int inside(int i) const { return i < 0 ? 0 : i >= length ? length - 1 : i; }
};

// The taps of one result: elements of the axis, kept inside of it, with their factors; none lies before `least` or behind `greatest`, and
// about `reach` of them before and behind its place. An axis of size 1 that stays so has one.
struct OneTap {
  GH_FN OneTap(const ResizeAxis &, int) {}
  static constexpr int taps = 1;
  GH_FN int at(int) const { return 0; }
  GH_FN double factor(int) const { return 1.0; }
  static GH_FN double reach(double) { return 0; }
  GH_FN int least() const { return 0; }
  GH_FN int greatest() const { return 0; }
};
template <int TAPS> struct PlainTaps {
  static constexpr int taps = TAPS;
  int places[TAPS];
  double factors[TAPS];
  GH_FN PlainTaps(const ResizeAxis &a, int i) {
    const double shift = a.places == ResizePlaces::half_pixel ? 0.5 : 0.0;
    if constexpr (TAPS == 1) {
      float near = ((float)i + (float)shift) * (float)a.step();
      if (a.places == ResizePlaces::align_corners) near = near + 0.5f;
      places[0] = a.inside((int)::floorf(near)), factors[0] = 1.0;
    } else {
      double place = ((double)i + shift) * a.step() - shift;
      if (TAPS == 2 && place < 0) place = 0;
      const int first = (int)::floor(place) - (TAPS == 4 ? 1 : 0);
      const double part = place - ::floor(place);
#pragma unroll
      for (int k = 0; k < TAPS; ++k) places[k] = a.inside(first + k);
      if constexpr (TAPS == 2) {
        factors[0] = 1 - part, factors[1] = part;
      } else {
        factors[0] = cubic_far(part + 1, -0.75), factors[1] = cubic_near(part, -0.75);
        factors[2] = cubic_near(1 - part, -0.75), factors[3] = cubic_far(2 - part, -0.75);
      }
    }
  }
  GH_FN int at(int k) const { return places[k]; }
  GH_FN double factor(int k) const { return factors[k]; }
  static GH_FN double reach(double) { return TAPS / 2; }
  GH_FN int least() const { return places[0]; }
  GH_FN int greatest() const { return places[TAPS - 1]; }
};

template <bool CUBIC> struct FilterTaps {
  int first, taps, lowest_place, highest_place;
  double centre, stretch, whole;
  GH_FN double weight(int at) const {
    const double t = ::fabs(((double)at - centre + 0.5) / stretch);
    if (!CUBIC) return t < 1 ? 1 - t : 0.0;
    return t <= 1 ? cubic_near(t, -0.5) : t < 2 ? cubic_far(t, -0.5) : 0.0;
  }
  GH_FN FilterTaps(const ResizeAxis &a, int i) : first(0), taps(1), lowest_place(0), highest_place(0), centre(0), stretch(1), whole(0) {
    const double step = a.step();
    stretch = step > 1 ? step : 1.0, centre = ((double)i + 0.5) * step;
    const double far = reach(step);
    int low = (int)::floor(centre - far + 0.5), high = (int)::floor(centre + far + 0.5);
    low = low < 0 ? 0 : low, high = high < a.length ? high : a.length;
    lowest_place = a.inside(low), highest_place = a.inside(high - 1);
    while (low < high && weight(low) == 0) ++low;
    while (low < high && weight(high - 1) == 0) --high;
    first = low, taps = high - low;
    for (int k = low; k < high; ++k) whole += weight(k);
    if (taps <= 0) first = a.length - 1, taps = 1, whole = 0;  // by scales that are not the ratio of sizes
  }
  GH_FN int at(int k) const { return first + k; }
  static GH_FN double reach(double step) { return (CUBIC ? 2 : 1) * (step > 1 ? step : 1.0); }
  GH_FN int least() const { return lowest_place; }  // before those without a part in it went
  GH_FN int greatest() const { return highest_place; }
  GH_FN double factor(int k) const { return whole == 0 ? 1.0 : weight(first + k) / whole; }
};

template <class I, class J, class K, int V, class T>
GH_FN Vec<Wide<T>, V> resized(const ResizeAxis &a, const ResizeAxis &b, const ResizeAxis &c, const T *image, int64_t channels, int cell) {
  const I i(a, cell / c.count / b.count);
  const J j(b, cell / c.count % b.count);
  const K k(c, cell % c.count);
  auto load = [&](int l, int m, int n) {
    return load_vec<V>(image + (((int64_t)i.at(l) * b.length + j.at(m)) * c.length + k.at(n)) * channels);
  };
  Vec<Wide<T>, V> result;
  if constexpr (is_int<T>::value) {  // which is only copied
    const Vec<T, V> x = load(0, 0, 0);
#pragma unroll
    for (int u = 0; u < V; ++u) result[u] = to_scalar(x[u]);
    return result;
  } else {
    if (i.taps == 1 && j.taps == 1 && k.taps == 1) {
      const Vec<T, V> x = load(0, 0, 0);
#pragma unroll
      for (int u = 0; u < V; ++u) result[u] = to_scalar(x[u]);
      return result;
    }
#pragma unroll
    for (int u = 0; u < V; ++u) result[u] = 0;
#pragma unroll
    for (int l = 0; l < i.taps; ++l) {
      Wide<T> plane[V] = {};
#pragma unroll
      for (int m = 0; m < j.taps; ++m) {
        Wide<T> row[V] = {};
#pragma unroll
        for (int n = 0; n < k.taps; ++n) {
          const Vec<T, V> x = load(l, m, n);
          const Wide<T> f = Wide<T>(k.factor(n));
#pragma unroll
          for (int u = 0; u < V; ++u) row[u] += to_scalar(x[u]) * f;
        }
        const Wide<T> f = Wide<T>(j.factor(m));
#pragma unroll
        for (int u = 0; u < V; ++u) plane[u] += row[u] * f;
      }
      const Wide<T> f = Wide<T>(i.factor(l));
#pragma unroll
      for (int u = 0; u < V; ++u) result[u] += plane[u] * f;
    }
    return result;
  }
}

}  // namespace gh
