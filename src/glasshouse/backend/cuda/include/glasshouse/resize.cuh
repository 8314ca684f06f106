// resize.cuh: images brought to another size: a thread for each result, or for a few neighbouring channels of one.
//
// Contract
// - Along an axis a result is a sum of taps: 1 element (nearest), 2 (linear) or 4 (cubic, slope -0.75), the outermost ones again beyond the
//   border; with `antialias` all within a filter that is as much wider as the axis shrinks (cubic: slope -0.5), and nothing beyond the border.
//   An element at the end of such a filter that has no part in it is not read: 0 times infinity would be NaN.
// - `ResizeAxis{length, count, mode, places, scale}`: the axis and its new size; `scale` <= 0 is the ratio. Places are computed in double; nearest
//   in float32, as PyTorch has it: half a unit in the last place decides the element.
// - `resized<V>`: V neighbouring channels, which lie together, of pixel `cell` of an image [three axes, channels]; the first axes may be 1.
#pragma once
#include "launch.cuh"

namespace gh {

enum class ResizeMode { nearest = 1, linear = 2, cubic = 4 };
enum class ResizePlaces { half_pixel, align_corners, asymmetric };

GH_FN double cubic_near(double t, double slope) { return ((slope + 2) * t - (slope + 3)) * t * t + 1; }
GH_FN double cubic_far(double t, double slope) { return ((slope * t - 5 * slope) * t + 8 * slope) * t - 4 * slope; }

struct ResizeAxis {
  int length, count;
  ResizeMode mode;
  ResizePlaces places;
  double scale;
  GH_FN double step() const {
    if (places == ResizePlaces::align_corners) return count > 1 ? (double)(length - 1) / (double)(count - 1) : 0.0;
    return scale > 0 ? 1.0 / scale : (double)length / (double)count;
  }
  GH_FN int inside(int i) const { return i < 0 ? 0 : i >= length ? length - 1 : i; }
};

// The taps of one result: elements first, first + 1, ... of the axis, kept inside of it.
struct PlainTaps {
  ResizeAxis axis;
  int first, taps;
  double part;
  GH_FN PlainTaps(const ResizeAxis &a, int i) : axis(a), first(0), taps(1), part(0) {
    if (a.length == 1 && a.count == 1) return;
    const double shift = a.places == ResizePlaces::half_pixel ? 0.5 : 0.0;
    if (a.mode == ResizeMode::nearest) {
      float near = ((float)i + (float)shift) * (float)a.step();
      if (a.places == ResizePlaces::align_corners) near = near + 0.5f;
      first = a.inside((int)::floorf(near));
      return;
    }
    double place = ((double)i + shift) * a.step() - shift;
    if (a.mode == ResizeMode::linear && place < 0) place = 0;
    taps = (int)a.mode, first = (int)::floor(place), part = place - ::floor(place);
    if (a.mode == ResizeMode::cubic) first -= 1;
  }
  GH_FN int at(int k) const { return axis.inside(first + k); }
  GH_FN double factor(int k) const {
    if (taps == 1) return 1.0;
    if (taps == 2) return k ? part : 1 - part;
    return k == 0 ? cubic_far(part + 1, -0.75) : k == 1 ? cubic_near(part, -0.75) : k == 2 ? cubic_near(1 - part, -0.75) : cubic_far(2 - part, -0.75);
  }
};

struct FilterTaps {
  int first, taps;
  double centre, stretch, whole;
  bool cubic;
  GH_FN double weight(int at) const {
    const double t = ::fabs(((double)at - centre + 0.5) / stretch);
    if (!cubic) return t < 1 ? 1 - t : 0.0;
    return t <= 1 ? cubic_near(t, -0.5) : t < 2 ? cubic_far(t, -0.5) : 0.0;
  }
  GH_FN FilterTaps(const ResizeAxis &a, int i) : first(0), taps(1), centre(0), stretch(1), whole(0), cubic(a.mode == ResizeMode::cubic) {
    if (a.length == 1 && a.count == 1) return;
    const double step = a.step();
    stretch = step > 1 ? step : 1.0, centre = ((double)i + 0.5) * step;
    const double reach = (cubic ? 2 : 1) * stretch;
    int low = (int)::floor(centre - reach + 0.5), high = (int)::floor(centre + reach + 0.5);
    low = low < 0 ? 0 : low, high = high < a.length ? high : a.length;
    while (low < high && weight(low) == 0) ++low;
    while (low < high && weight(high - 1) == 0) --high;
    first = low, taps = high - low;
    for (int k = low; k < high; ++k) whole += weight(k);
    if (taps <= 0) first = a.length - 1, taps = 1, whole = 0;  // by scales that are not the ratio of sizes
  }
  GH_FN int at(int k) const { return first + k; }
  GH_FN double factor(int k) const { return whole == 0 ? 1.0 : weight(first + k) / whole; }
};

template <class Taps, int V, class T>
GH_FN Vec<Wide<T>, V> resized(const ResizeAxis &a, const ResizeAxis &b, const ResizeAxis &c, const T *image, int64_t channels, int cell) {
  const Taps i(a, cell / c.count / b.count), j(b, cell / c.count % b.count), k(c, cell % c.count);
  Vec<Wide<T>, V> result;
  if (i.taps == 1 && j.taps == 1 && k.taps == 1) {  // copied, whatever it is
    const Vec<T, V> x = load_vec<V>(image + (((int64_t)i.at(0) * b.length + j.at(0)) * c.length + k.at(0)) * channels);
#pragma unroll
    for (int u = 0; u < V; ++u) result[u] = to_scalar(x[u]);
    return result;
  }
  if constexpr (is_int<T>::value) {
    return result;  // numbers that are not real are only copied
  } else {
#pragma unroll
    for (int u = 0; u < V; ++u) result[u] = 0;
    for (int n = 0; n < k.taps; ++n) {
      Wide<T> line[V] = {};
      for (int m = 0; m < j.taps; ++m) {
        Wide<T> row[V] = {};
        for (int l = 0; l < i.taps; ++l) {
          const Vec<T, V> x = load_vec<V>(image + (((int64_t)i.at(l) * b.length + j.at(m)) * c.length + k.at(n)) * channels);
          const Wide<T> f = Wide<T>(i.factor(l));
#pragma unroll
          for (int u = 0; u < V; ++u) row[u] += to_scalar(x[u]) * f;
        }
        const Wide<T> f = Wide<T>(j.factor(m));
#pragma unroll
        for (int u = 0; u < V; ++u) line[u] += row[u] * f;
      }
      const Wide<T> f = Wide<T>(k.factor(n));
#pragma unroll
      for (int u = 0; u < V; ++u) result[u] += line[u] * f;
    }
    return result;
  }
}

}  // namespace gh
