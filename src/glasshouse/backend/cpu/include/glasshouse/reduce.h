// reduce.h: sums and maxima of rows, with the input read through a functor.
//
// Contract
// - Op: SumOp, MaxOp (NaN wins, as in NumPy), FastMaxOp.
// - `reduce_row<Op>(n, in)`: in(i, range) -> vf, or vd; one row on this thread. Four interleaved accumulators, then a fixed tree; sums of
//   more than 2 kRun elements are those of runs, added in double.
#pragma once
#include "threadpool.h"
#include "vmath_double.h"

namespace gh {
inline namespace GH_ISA_NS {

// What the lanes of long sums add up to: runs of floats are added to it in double.
struct LaneTotals {
  double lane[W] = {};
  GH_INLINE void add(vf x) {
    float part[W];
    store(part, x);
    for (int i = 0; i < W; i++) lane[i] += (double)part[i];
  }
  GH_INLINE vf value(double factor = 1) const {
    float out[W];
    for (int i = 0; i < W; i++) out[i] = (float)(lane[i] * factor);
    return load(out);
  }
};

struct SumOp {
  static constexpr float init = 0.0f;
  template <class V> GH_INLINE static V merge(V a, V b) { return a + b; }
  template <class V> GH_INLINE static auto lanes(V a) { return reduce_add(a); }
  GH_INLINE static float merge1(float a, float b) { return a + b; }
};
struct MaxOp {
  static constexpr float init = -__builtin_inff();
  template <class V> GH_INLINE static V merge(V a, V b) { return max(a, b); }
  GH_INLINE static float lanes(vf a) { return reduce_max(a); }
  GH_INLINE static float merge1(float a, float b) { return a > b || a != a ? a : b; }
};
struct FastMaxOp {  // NaN may be passed over
  static constexpr float init = -__builtin_inff();
  template <class V> GH_INLINE static V merge(V a, V b) { return max_fast(a, b); }
  template <class V> GH_INLINE static auto lanes(V a) { return reduce_max_fast(a); }
};

// Work below this many elements stays on the caller: a parallel region costs about as much as 4096 cheap vector steps.
constexpr long kMinElements = 16384;
GH_INLINE long row_grain(long n) { return n >= kMinElements ? 1 : kMinElements / (n > 0 ? n : 1); }

template <class Op, class In>
GH_INLINE auto reduce_run(long n, In &&in) {
  typedef decltype(in(0, Full{})) V;
  V a[4] = {V(Op::init), V(Op::init), V(Op::init), V(Op::init)};
  long i = 0;
  for (; i + 4 * W <= n; i += 4 * W)
    GH_UNROLL for (int u = 0; u < 4; u++) a[u] = Op::merge(a[u], in(i + u * W, Full{}));
  for (; i + W <= n; i += W) a[0] = Op::merge(a[0], in(i, Full{}));
  if (i < n) {
    Tail t((int)(n - i));
    a[1] = Op::merge(a[1], within(t, in(i, t), V(Op::init)));
  }
  return Op::lanes(Op::merge(Op::merge(a[0], a[1]), Op::merge(a[2], a[3])));
}

constexpr long kRun = 4096;  // elements whose sum may stay in float: 64 to 256 additions for each of the accumulators' lanes
template <class Op, class In>
GH_INLINE auto reduce_row(long n, In &&in) {
  typedef decltype(reduce_run<Op>(n, in)) R;
  if (!std::is_same_v<Op, SumOp> || n <= 2 * kRun) return reduce_run<Op>(n, in);
  double total = 0;
  for (long base = 0; base < n; base += kRun)
    total += reduce_run<Op>(n - base < kRun ? n - base : kRun, [&](long i, auto t) __attribute__((always_inline)) { return in(base + i, t); });
  return (R)total;
}

}  // namespace GH_ISA_NS
}  // namespace gh
