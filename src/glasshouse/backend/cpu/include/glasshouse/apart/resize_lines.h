// resize_lines.h: images resized along their last axis, where the elements of a line lie side by side.
//
// Contract
// - `resize_lines(ctx, r, lines, x, out)`: [lines, length] to [lines, count], as `resize_axis` (resize.h) with an inner size of 1. What
//   each output element takes is computed once for all lines: places and factors take double and a floor, 20 ns an element.
#pragma once
#include "../resize.h"

namespace gh {
inline namespace GH_ISA_NS {

// Factors of tap k at [k * count], places likewise.
template <int N, class V, class In, class Out>
GH_INLINE void resize_line(long count, const int32_t *at, const V *factor, const In *x, Out *out) {
  for (long i = 0; i < count; i++) {
    V sum = (V)widen(x[at[i]]) * factor[i];
    GH_UNROLL for (int k = 1; k < N; k++) sum += (V)widen(x[at[k * count + i]]) * factor[k * count + i];
    out[i] = narrow<Out>(sum);
  }
}

template <class In, class Out>
inline void resize_lines(Context &ctx, const Resize &r, long lines, const In *x, Out *out) {
  const long n = r.count, taps = r.taps();
  int32_t *at = (int32_t *)scratch<3>((size_t)(n * taps) * 4);
  auto places = [&](auto *factor) {
    for (long i = 0; i < n; i++) {
      const ResizeTaps t = r(i);
      for (long k = 0; k < taps; k++) {
        at[k * n + i] = (int32_t)t.at[k];
        if (factor) factor[k * n + i] = (std::remove_reference_t<decltype(*factor)>)t.factor[k];
      }
    }
  };
  auto each = [&](auto line) {
    ctx.parallel(lines, lines * n >= 8192, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) line(x + row * r.length, out + row * n);
    });
  };
  if constexpr (std::is_same<In, Out>::value)
    if (r.mode == ResizeMode::nearest) {
      places((float *)nullptr);
      each([=](const In *from, Out *to) {
        for (long i = 0; i < n; i++) to[i] = from[at[i]];
      });
      return;
    }
  if constexpr (std::is_floating_point<Wide<In>>::value) {
    typedef Wide<In> V;
    V *factor = (V *)scratch<4>((size_t)(n * taps) * sizeof(V));
    places(factor);
    if (r.mode == ResizeMode::linear) each([=](const In *from, Out *to) { resize_line<2>(n, at, factor, from, to); });
    else each([=](const In *from, Out *to) { resize_line<4>(n, at, factor, from, to); });
  }
}

}  // namespace GH_ISA_NS
}  // namespace gh
