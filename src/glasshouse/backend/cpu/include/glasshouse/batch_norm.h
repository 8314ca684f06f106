// batch_norm.h: batch normalisation with the batch's own statistics, channels last.
//
// Contract
// - `batch_norm_training(pool, rows, C, eps, x, weight, bias, mean, var, out)`: x is [rows, C], a row for each pixel of the batch;
//   writes mean[C] and the biased var[C]; out(row, c, vf, range) takes (x - mean) / sqrt(var + eps) * weight + bias.
// - x is read twice. Rows are cut into chunks of kMomentRows whatever the number of threads; a chunk's squares are those of
//   differences from its own mean, and chunks are merged in double, so nothing is lost when the mean is far from 0.
#pragma once
#include "reduce.h"

namespace gh {
inline namespace GH_ISA_NS {

constexpr long kMomentRows = 64;

// mean[C] of rows [begin, end) of x, and the sums of squared differences from it.
template <class T>
inline void chunk_moments(long begin, long end, long C, const T *x, float *mean, float *squares) {
  const vf share(1.0f / (float)(end - begin));
  for_each_strip(C, [&](long c, auto t, auto strip) __attribute__((always_inline)) {
    vf m[strip.vectors], q[strip.vectors];
    GH_UNROLL for (int u = 0; u < strip.vectors; u++) m[u] = q[u] = vf(0.0f);
    for (long r = begin; r < end; r++)
      GH_UNROLL for (int u = 0; u < strip.vectors; u++) m[u] += load(x + r * C + c + u * W, t);
    GH_UNROLL for (int u = 0; u < strip.vectors; u++) m[u] *= share;
    for (long r = begin; r < end; r++)
      GH_UNROLL for (int u = 0; u < strip.vectors; u++) {
        const vf d = load(x + r * C + c + u * W, t) - m[u];
        q[u] = fma(d, d, q[u]);
      }
    GH_UNROLL for (int u = 0; u < strip.vectors; u++) {
      store(mean + c + u * W, m[u], t);
      store(squares + c + u * W, q[u], t);
    }
  });
}

template <class T>
inline void column_moments(ThreadPool &pool, long rows, long C, const T *x, float *mean, float *var) {
  const long chunks = (rows + kMomentRows - 1) / kMomentRows;
  float *part = (float *)scratch<8>((size_t)(2 * chunks * C) * 4);
  parallel_for(pool, chunks, row_grain(kMomentRows * C), [&](long b, long e) {
    for (long i = b; i < e; i++) {
      const long begin = i * kMomentRows, end = begin + kMomentRows < rows ? begin + kMomentRows : rows;
      chunk_moments(begin, end, C, x, part + 2 * i * C, part + (2 * i + 1) * C);
    }
  });
  const double share = 1.0 / (double)rows;
  const long last = rows - (chunks - 1) * kMomentRows;  // rows of the last chunk
  for_each_vector(C, [&](long c, auto t) __attribute__((always_inline)) {
    LaneTotals sums, squares;
    for (long i = 0; i < chunks; i++) sums.add(load(part + 2 * i * C + c, t) * vf(i < chunks - 1 ? (float)kMomentRows : (float)last));
    const vf m = sums.value(share);
    for (long i = 0; i < chunks; i++) {
      const vf d = load(part + 2 * i * C + c, t) - m, n(i < chunks - 1 ? (float)kMomentRows : (float)last);
      squares.add(fma(d * d, n, load(part + (2 * i + 1) * C + c, t)));
    }
    store(mean + c, m, t);
    store(var + c, squares.value(share), t);
  });
}

template <class T, class Out>
inline void batch_norm_training(ThreadPool &pool, long rows, long C, float eps, const T *x, const float *weight, const float *bias,
                                float *mean, float *var, Out &&out) {
  if (rows <= 0) return;
  column_moments(pool, rows, C, x, mean, var);
  float *scale = (float *)scratch<8>((size_t)C * 4);
  for_each_vector(C, [&](long c, auto t) __attribute__((always_inline)) {
    store(scale + c, load(weight + c, t) * rsqrt(load(var + c, t) + vf(eps)), t);
  });
  parallel_for(pool, rows, row_grain(C), [&](long b, long e) {
    for (long r = b; r < e; r++)
      for_each_vector(C, [&](long c, auto t) __attribute__((always_inline)) {
        out(r, c, fma(load(x + r * C + c, t) - load(mean + c, t), load(scale + c, t), load(bias + c, t)), t);
      });
  });
}

}  // namespace GH_ISA_NS
}  // namespace gh
