// norm.h: softmax, log-softmax, layer norm and RMS norm of rows: the input is read once, the output written once.
//
// Contract
// - `in(i, range) -> vf` reads element i of the row (prologue: scale, mask, residual, cast); `out(i, vf, range)` takes the
//   normalised element (epilogue: weight, bias, activation, cast). The row is kept in `row`, a float buffer of n elements that
//   stays in L1/L2 (the caller's; may be the output itself when that is float32 and `out` writes the same place).
// - `*_row` work on one row on this thread (also as gemm's rows_done); `*_rows(pool, rows, n, ..., in, out)` over all threads
//   with in(r, i, range), out(r, i, vf, range) and scratch of their own.
// - Variance is the mean of squared differences from the mean (two sweeps over the cached row), biased, as torch's layer norm.
// - Softmax of a row with NaN, or of all -inf, is NaN throughout, as in NumPy.
#pragma once
#include "reduce.h"

namespace gh {
inline namespace GH_ISA_NS {

template <class In, class Out>
GH_INLINE void softmax_row(long n, float *row, In &&in, Out &&out) {
  float m = reduce_row<FastMaxOp>(n, [&](long i, auto t) __attribute__((always_inline)) {
    vf x = in(i, t);
    store(row + i, x, t);
    return x;
  });
  const vf top(m);
  float s = reduce_row<SumOp>(n, [&](long i, auto t) __attribute__((always_inline)) {
    vf x = softmax_exp(load(row + i, t), top);
    store(row + i, x, t);
    return x;
  });
  const vf inv(1.0f / s);
  for_each_vector(n, [&](long i, auto t) __attribute__((always_inline)) { out(i, load(row + i, t) * inv, t); });
}

template <class In, class Out>
GH_INLINE void log_softmax_row(long n, float *row, In &&in, Out &&out) {
  float m = reduce_row<FastMaxOp>(n, [&](long i, auto t) __attribute__((always_inline)) {
    vf x = in(i, t);
    store(row + i, x, t);
    return x;
  });
  const vf vmax(m);
  float s = reduce_row<SumOp>(n, [&](long i, auto t) __attribute__((always_inline)) { return exp_nonpos(load(row + i, t) - vmax); });
  const vf rest(::logf(s));  // not added to m first: next to a large maximum it would vanish
  for_each_vector(n, [&](long i, auto t) __attribute__((always_inline)) { out(i, load(row + i, t) - vmax - rest, t); });
}

template <class In, class Out>
GH_INLINE void layer_norm_row(long n, float eps, float *row, In &&in, Out &&out) {
  const float mean = reduce_row<SumOp>(n, [&](long i, auto t) __attribute__((always_inline)) {
    vf x = in(i, t);
    store(row + i, x, t);
    return x;
  }) / (float)n;
  const vf vmean(mean);
  const float var = reduce_row<SumOp>(n, [&](long i, auto t) __attribute__((always_inline)) {
    vf d = load(row + i, t) - vmean;
    return d * d;
  }) / (float)n;
  const vf inv(1.0f / __builtin_sqrtf(var + eps));
  for_each_vector(n, [&](long i, auto t) __attribute__((always_inline)) { out(i, (load(row + i, t) - vmean) * inv, t); });
}

template <class In, class Out>
GH_INLINE void rms_norm_row(long n, float eps, float *row, In &&in, Out &&out) {
  const float ms = reduce_row<SumOp>(n, [&](long i, auto t) __attribute__((always_inline)) {
    vf x = in(i, t);
    store(row + i, x, t);
    return x * x;
  }) / (float)n;
  const vf inv(1.0f / __builtin_sqrtf(ms + eps));
  for_each_vector(n, [&](long i, auto t) __attribute__((always_inline)) { out(i, load(row + i, t) * inv, t); });
}

#define GH_ROWS(name, EPS_PARAM, EPS)                                                                          \
  template <class In, class Out>                                                                               \
  inline void name##_rows(ThreadPool &pool, long rows, long n EPS_PARAM, In &&in, Out &&out) {                 \
    parallel_for(pool, rows, row_grain(2 * n), [&](long b, long e) {                                           \
      float *row = (float *)scratch<3>((size_t)n * 4);                                                         \
      for (long r = b; r < e; r++)                                                                             \
        name##_row(n EPS, row, [&](long i, auto t) __attribute__((always_inline)) { return in(r, i, t); },     \
                   [&](long i, vf x, auto t) __attribute__((always_inline)) { out(r, i, x, t); });             \
    });                                                                                                        \
  }
#define GH_NOTHING
#define GH_COMMA_EPS_PARAM , float eps
#define GH_COMMA_EPS , eps
GH_ROWS(softmax, GH_NOTHING, GH_NOTHING)
GH_ROWS(log_softmax, GH_NOTHING, GH_NOTHING)
GH_ROWS(layer_norm, GH_COMMA_EPS_PARAM, GH_COMMA_EPS)
GH_ROWS(rms_norm, GH_COMMA_EPS_PARAM, GH_COMMA_EPS)
#undef GH_ROWS

}  // namespace GH_ISA_NS
}  // namespace gh
