// resize.h: images brought to another size, one spatial axis after the other.
//
// Contract
// - Along an axis an output element is a sum of 1 (nearest), 2 (linear) or 4 (cubic, slope -0.75) input elements, the outermost ones
//   again beyond the border. `Resize{length, count, mode, coordinates, scale}`: the axis and its new size; `scale` <= 0 is the ratio.
//   Places are computed in double; nearest in float32, as PyTorch has it: half a unit in the last place decides the element.
// - `resize_axis(ctx, r, outer, inner, x, out)`: [outer, length, inner] to [outer, count, inner]. `resize_axis_grad` goes back: from
//   [outer, count, inner] to sums [outer, length, inner]; the order of sums does not depend on threads.
#pragma once
#include "planes.h"

namespace gh {
inline namespace GH_ISA_NS {

enum class ResizeMode { nearest = 1, linear = 2, cubic = 4 };
enum class ResizePlaces { half_pixel, align_corners, asymmetric };

struct ResizeTaps {
  long at[4];
  double factor[4];
};

struct Resize {
  long length, count;
  ResizeMode mode;
  ResizePlaces places;
  double scale;
  GH_INLINE int taps() const { return (int)mode; }
  GH_INLINE long inside(long i) const { return i < 0 ? 0 : i >= length ? length - 1 : i; }
  ResizeTaps operator()(long i) const {
    const bool corners = places == ResizePlaces::align_corners;
    double step = scale > 0 ? 1.0 / scale : (double)length / (double)count;
    if (corners) step = count > 1 ? (double)(length - 1) / (double)(count - 1) : 0.0;
    const double shift = places == ResizePlaces::half_pixel ? 0.5 : 0.0;
    ResizeTaps t{};
    if (mode == ResizeMode::nearest) {
      float near = ((float)i + (float)shift) * (float)step;
      if (corners) near = near + 0.5f;
      t.at[0] = inside((long)__builtin_floorf(near));
      t.factor[0] = 1.0;
      return t;
    }
    double place = ((double)i + shift) * step - shift;
    if (mode == ResizeMode::linear && place < 0) place = 0;
    const double first = __builtin_floor(place), part = place - first;
    if (mode == ResizeMode::linear) {
      t.factor[0] = 1 - part, t.factor[1] = part;
    } else {
      t.factor[0] = outer(part + 1), t.factor[1] = inner(part), t.factor[2] = inner(1 - part), t.factor[3] = outer(2 - part);
    }
    for (int k = 0; k < taps(); k++) t.at[k] = inside((long)first + k - (mode == ResizeMode::cubic ? 1 : 0));
    return t;
  }
  static constexpr double kSlope = -0.75;
  static double inner(double t) { return ((kSlope + 2) * t - (kSlope + 3)) * t * t + 1; }
  static double outer(double t) { return ((kSlope * t - 5 * kSlope) * t + 8 * kSlope) * t - 4 * kSlope; }
};

template <class In, class Out>
inline void resize_axis(Context &ctx, const Resize &r, long outer, long inner, const In *x, Out *out) {
  ctx.parallel(outer * r.count, outer * r.count * inner >= 8192, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const ResizeTaps t = r((long)row % r.count);
      const In *image = x + (long)row / r.count * r.length * inner;
      Out *o = out + row * inner;
      const In *a = image + t.at[0] * inner;
      if constexpr (std::is_same<In, Out>::value)
        if (r.mode == ResizeMode::nearest) {
          memcpy((void *)o, a, (size_t)inner * sizeof(In));
          continue;
        }
      if constexpr (std::is_floating_point<Wide<In>>::value) {
        typedef Wide<In> V;
        const In *b = image + t.at[1] * inner, *c = image + t.at[2] * inner, *d = image + t.at[3] * inner;
        const V fa = (V)t.factor[0], fb = (V)t.factor[1], fc = (V)t.factor[2], fd = (V)t.factor[3];
        if (r.mode == ResizeMode::linear)
          for (long i = 0; i < inner; i++) o[i] = narrow<Out>(widen(a[i]) * fa + widen(b[i]) * fb);
        else
          for (long i = 0; i < inner; i++)
            o[i] = narrow<Out>(widen(a[i]) * fa + widen(b[i]) * fb + widen(c[i]) * fc + widen(d[i]) * fd);
      }
    }
  });
}

template <class In, class V>
inline void resize_axis_grad(Context &ctx, const Resize &r, long outer, long inner, const In *g, V *sums) {
  ctx.parallel(outer, outer * r.count * inner >= 8192, [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o) {
      V *image = sums + o * r.length * inner;
      for (long i = 0; i < r.length * inner; i++) image[i] = 0;
      for (long row = 0; row < r.count; row++) {
        const ResizeTaps t = r(row);
        const In *from = g + (o * r.count + row) * inner;
        for (int k = 0; k < r.taps(); k++) {
          V *to = image + t.at[k] * inner;
          const V f = (V)t.factor[k];
          for (long i = 0; i < inner; i++) to[i] += (V)widen(from[i]) * f;
        }
      }
    }
  });
}
template <class V, class T>
inline void narrow_all(Context &ctx, long count, const V *from, T *to) {
  ctx.parallel(count, count >= 16384, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = narrow<T>(from[i]);
  });
}

}  // namespace GH_ISA_NS
}  // namespace gh
