// reduce.h: sums, products, maxima and minima over rows, columns or everything, with the input read through a functor.
//
// Contract
// - Op: SumOp, ProdOp, MaxOp, MinOp (NaN wins in Max and Min, as in NumPy).
// - `reduce_row<Op>(n, in)`: in(i, range) -> vf; one row on this thread. Four interleaved accumulators, then a fixed tree.
// - `reduce_rows<Op>(pool, rows, n, in, out)`: in(row, i, range) -> vf, out(row, value).
// - `reduce_cols<Op>(pool, outer, n, inner, in, out)`: over the middle axis of [outer, n, inner]; in(o, k, i, range) -> vf,
//   out(o, i, vf, range). Rows of the middle axis are added in order.
// - `reduce_all<Op>(pool, n, in)`: in(i, range) -> vf; cut into chunks of 32768 elements whatever the number of threads, so the
//   result does not depend on it.
// - `reduce_cols_split<Op>`: as reduce_cols with outer = 1 for n much longer than inner (bias gradients, batch statistics):
//   the rows are cut into chunks (fixed, not by threads), whose partial rows are then added in order. `work`: split_work(n, inner).
#pragma once
#include "threadpool.h"
#include "vmath.h"

namespace gh {
inline namespace GH_ISA_NS {

struct SumOp {
  static constexpr float init = 0.0f;
  GH_INLINE static vf merge(vf a, vf b) { return a + b; }
  GH_INLINE static float lanes(vf a) { return reduce_add(a); }
  GH_INLINE static float merge1(float a, float b) { return a + b; }
};
struct ProdOp {
  static constexpr float init = 1.0f;
  GH_INLINE static vf merge(vf a, vf b) { return a * b; }
  GH_INLINE static float lanes(vf a) { return reduce_mul(a); }
  GH_INLINE static float merge1(float a, float b) { return a * b; }
};
struct MaxOp {
  static constexpr float init = -__builtin_inff();
  GH_INLINE static vf merge(vf a, vf b) { return max(a, b); }
  GH_INLINE static float lanes(vf a) { return reduce_max(a); }
  GH_INLINE static float merge1(float a, float b) { return a > b || a != a ? a : b; }
};
struct FastMaxOp {  // NaN may be passed over
  static constexpr float init = -__builtin_inff();
  GH_INLINE static vf merge(vf a, vf b) { return max_fast(a, b); }
  GH_INLINE static float lanes(vf a) { return reduce_max_fast(a); }
};
struct MinOp {
  static constexpr float init = __builtin_inff();
  GH_INLINE static vf merge(vf a, vf b) { return min(a, b); }
  GH_INLINE static float lanes(vf a) { return reduce_min(a); }
  GH_INLINE static float merge1(float a, float b) { return a < b || a != a ? a : b; }
};

// Work below this many elements stays on the caller: a parallel region costs about as much as 4096 cheap vector steps.
constexpr long kMinElements = 16384;
GH_INLINE long row_grain(long n) { return n >= kMinElements ? 1 : kMinElements / (n > 0 ? n : 1); }

template <class Op, class In>
GH_INLINE float reduce_row(long n, In &&in) {
  vf a[4] = {vf(Op::init), vf(Op::init), vf(Op::init), vf(Op::init)};
  long i = 0;
  for (; i + 4 * W <= n; i += 4 * W)
    GH_UNROLL for (int u = 0; u < 4; u++) a[u] = Op::merge(a[u], in(i + u * W, Full{}));
  for (; i + W <= n; i += W) a[0] = Op::merge(a[0], in(i, Full{}));
  if (i < n) {
    Tail t((int)(n - i));
    a[1] = Op::merge(a[1], within(t, in(i, t), vf(Op::init)));
  }
  return Op::lanes(Op::merge(Op::merge(a[0], a[1]), Op::merge(a[2], a[3])));
}

template <class Op, class In, class Out>
inline void reduce_rows(ThreadPool &pool, long rows, long n, In &&in, Out &&out) {
  parallel_for(pool, rows, row_grain(n), [&](long b, long e) {
    for (long r = b; r < e; r++)
      out(r, reduce_row<Op>(n, [&](long i, auto t) __attribute__((always_inline)) { return in(r, i, t); }));
  });
}

template <class Op, class In, class Out>
inline void reduce_cols(ThreadPool &pool, long outer, long n, long inner, In &&in, Out &&out) {
  const long strips = (inner + 4 * W - 1) / (4 * W);
  parallel_for(pool, outer * strips, row_grain(n * 4 * W), [&](long b, long e) {
    for (long s = b; s < e; s++) {
      const long o = s / strips, i0 = s % strips * 4 * W;
      if (i0 + 4 * W <= inner) {
        vf a[4] = {vf(Op::init), vf(Op::init), vf(Op::init), vf(Op::init)};
        for (long k = 0; k < n; k++)
          GH_UNROLL for (int u = 0; u < 4; u++) a[u] = Op::merge(a[u], in(o, k, i0 + u * W, Full{}));
        GH_UNROLL for (int u = 0; u < 4; u++) out(o, i0 + u * W, a[u], Full{});
      } else {
        for (long i = i0; i < inner; i += W) {
          Tail t((int)(inner - i < W ? inner - i : W));
          vf a(Op::init);
          for (long k = 0; k < n; k++) a = Op::merge(a, in(o, k, i, t));
          out(o, i, a, t);
        }
      }
    }
  });
}

constexpr long kChunk = 32768;
template <class Op, class In>
inline float reduce_all(ThreadPool &pool, long n, In &&in) {
  const long chunks = (n + kChunk - 1) / kChunk;
  if (chunks <= 1) return reduce_row<Op>(n, in);
  float *part = (float *)scratch<2>((size_t)chunks * 4);
  parallel_for(pool, chunks, 1, [&](long b, long e) {
    for (long c = b; c < e; c++) {
      long base = c * kChunk, len = n - base < kChunk ? n - base : kChunk;
      part[c] = reduce_row<Op>(len, [&](long i, auto t) __attribute__((always_inline)) { return in(base + i, t); });
    }
  });
  float r = part[0];
  for (long c = 1; c < chunks; c++) r = Op::merge1(r, part[c]);
  return r;
}

constexpr long split_rows = 128;  // rows of a chunk
GH_INLINE size_t split_work(long n, long inner) { return (size_t)((n + split_rows - 1) / split_rows) * inner * 4; }
template <class Op, class In, class Out>
inline void reduce_cols_split(ThreadPool &pool, long n, long inner, float *work, In &&in, Out &&out) {
  const long chunks = (n + split_rows - 1) / split_rows;
  parallel_for(pool, chunks, row_grain(split_rows * inner), [&](long b, long e) {
    for (long c = b; c < e; c++) {
      long k0 = c * split_rows, k1 = k0 + split_rows < n ? k0 + split_rows : n;
      float *p = work + c * inner;
      for_each_vector(inner, [&](long i, auto t) __attribute__((always_inline)) {
        vf a(Op::init);
        for (long k = k0; k < k1; k++) a = Op::merge(a, in(k, i, t));
        store(p + i, a, t);
      });
    }
  });
  for_each_vector(inner, [&](long i, auto t) __attribute__((always_inline)) {
    vf a(Op::init);
    for (long c = 0; c < chunks; c++) a = Op::merge(a, load(work + c * inner + i, t));
    out(i, a, t);
  });
}

}  // namespace GH_ISA_NS
}  // namespace gh
