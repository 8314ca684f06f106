// qr.h: QR of batches of dense matrices by Householder's reflections, row by row, in float or double.
//
// Contract
// - `householder` keeps reflections below the diagonal and their factors beside, with LAPACK's signs; `reflections` gives columns of their product.
// - Panels, products and lanes are those of factor.h.
#pragma once
#include "factor.h"

namespace gh {
inline namespace GH_ISA_NS {

// A reflection I - factor [1; tail] [1; tail]^T that turns [head; tail] into [head', 0]; a column that is as it should be is left.
template <class T> GH_INLINE T reflection(T &head, T *tail, long n) {
  double sum = (double)dot(tail, tail, n);
  if (!(sum > (sizeof(T) == 4 ? 1e-30 : 1e-280) && sum < (sizeof(T) == 4 ? 1e30 : 1e280))) {  // squares may be lost: scaled by the largest
    double most = 0, scaled = 0;
    for (long i = 0; i < n; i++) most = fabs((double)tail[i]) > most || tail[i] != tail[i] ? fabs((double)tail[i]) : most;
    for (long i = 0; i < n && most > 0; i++) scaled += ((double)tail[i] / most) * ((double)tail[i] / most);
    if (most == 0) return 0;
    const double length = hypot((double)head, most * ::sqrt(scaled)), turned = head < 0 ? length : -length;
    const T factor = (T)((turned - (double)head) / turned);
    for (long i = 0; i < n; i++) tail[i] = (T)((double)tail[i] / ((double)head - turned));
    head = (T)turned;
    return factor;
  }
  const double length = ::sqrt((double)head * (double)head + sum), turned = head < 0 ? length : -length;
  const T factor = (T)((turned - (double)head) / turned);
  const Vector<T> by((T)((double)head - turned));
  for_each_vector(n, [&](long i, auto t) { store(tail + i, load(tail + i, t) / by, t); });
  head = (T)turned;
  return factor;
}
// A line (a column that lies turned) after a reflection.
template <class T> GH_INLINE void reflect(T *line, const T *tail, T factor, long n) {
  const T seen = factor * (line[0] + dot(tail, line + 1, n));
  line[0] -= seen;
  less_times(line + 1, seen, tail, n);
}
// Lines [count, m] after the w reflections whose tails stand in `panel` (rows of m, the first from its second element on), all at once:
// I - V S V^T with a triangle S; `back`: the last of them first (S as it is), else the first (S turned).
template <class T>
inline void reflect_block(T *lines, long ld, long count, const T *panel, long ldp, const T *factors, long w, long m, bool back) {
  if (count == 0) return;
  T *v = room<T, 2>(w * m), *by_rows = room<T, 3>(w * m), *inner = room<T, 4>(3 * kPanel * kPanel + 2 * count * kPanel);
  T *triangle = inner + kPanel * kPanel, *products = triangle + kPanel * kPanel, *seen = products + kPanel * kPanel, *shares = seen + count * w;
  for (long i = 0; i < w; i++) {
    memset(v + i * m, 0, (size_t)i * sizeof(T));
    v[i * m + i] = 1;
    memcpy(v + i * m + i + 1, panel + i * ldp + i + 1, (size_t)(m - i - 1) * sizeof(T));
  }
  transpose2d(w, m, v, m, by_rows, w);
  // S, column by column: -factor S (V^T v) above the diagonal.
  memset(products, 0, (size_t)(w * w) * sizeof(T));
  less_product(products, w, v, m, 1L, by_rows, w, w, w, m);  // -V^T V
  memset(inner, 0, (size_t)(w * w) * sizeof(T));
  for (long j = 0; j < w; j++) {
    inner[j * w + j] = factors[j];
    for (long i = 0; i < j; i++) {
      T sum = 0;
      for (long k = i; k < j; k++) sum += inner[i * w + k] * products[k * w + j];
      inner[i * w + j] = factors[j] * sum;
    }
  }
  // Lines are columns that lie turned: what acts on columns from the left acts on lines from the right, turned.
  if (back) transpose2d(w, w, inner, w, triangle, w);
  const T *small = back ? triangle : inner;
  memset(seen, 0, (size_t)(count * w) * sizeof(T));
  memset(shares, 0, (size_t)(count * w) * sizeof(T));
  less_product(seen, w, lines, ld, 1L, by_rows, w, count, w, m);
  less_product(shares, w, seen, w, 1L, small, w, count, w, w);
  less_product(lines, ld, shares, w, 1L, v, m, count, m, w);
}
// The matrix lies turned: a line for each column.
template <class T> inline void householder_lines(T *x, long rows, long cols, T *factors) {
  const long count = rows < cols ? rows : cols;
  for (long j = 0; j < count; j += kPanel) {
    const long w = count - j < kPanel ? count - j : kPanel;
    for (long i = j; i < j + w; i++) {
      T *line = x + i * rows + i;
      factors[i] = reflection(line[0], line + 1, rows - i - 1);
      if (factors[i] != 0)
        for (long c = i + 1; c < j + w; c++) reflect(x + c * rows + i, line + 1, factors[i], rows - i - 1);
    }
    reflect_block(x + (j + w) * rows + j, rows, cols - j - w, x + j * rows + j, rows, factors + j, w, rows - j, false);
  }
}
// What lies in lanes: column c of x [rows][cols] from row j on, after the reflection with that tail in column `of` of v [rows][stored].
template <class T> GH_INLINE void reflect_in_lanes(T *x, long rows, long cols, long c, const T *v, long stored, long of, long j, Vector<T> factor) {
  auto at = [&](long r) { return x + (r * cols + c) * W; };
  Vector<T> seen = load(at(j));
  for (long r = j + 1; r < rows; r++) seen = fma(load(v + (r * stored + of) * W), load(at(r)), seen);
  seen = seen * factor;
  store(at(j), load(at(j)) - seen);
  for (long r = j + 1; r < rows; r++) store(at(r), fnma(load(v + (r * stored + of) * W), seen, load(at(r))));
}
// False where squares may be lost: such matrices are for `householder_lines`.
template <class T> inline bool householder_in_lanes(T *x, long rows, long cols, T *factors) {
  typedef Vector<T> X;
  const X zero(T(0)), one(T(1)), least(T(sizeof(T) == 4 ? 1e-30 : 1e-280)), most(T(sizeof(T) == 4 ? 1e30 : 1e280));
  for (long j = 0; j < rows && j < cols; j++) {
    X sum = zero;
    const X head = load(x + (j * cols + j) * W);
    for (long r = j + 1; r < rows; r++) sum = fma(load(x + (r * cols + j) * W), load(x + (r * cols + j) * W), sum);
    const X all = fma(head, head, sum);
    if (any(all != all) || any(all > most)) return false;
    const auto some = sum > least;
    for (long r = j + 1; r < rows; r++)
      if (any(select(some, zero, load(x + (r * cols + j) * W)) != zero)) return false;
    const X length = sqrt(select(some, all, one)), turned = select(head < zero, length, -length);
    const X factor = select(some, (turned - head) / turned, zero), by = select(some, head - turned, one);
    for (long r = j + 1; r < rows; r++) store(x + (r * cols + j) * W, load(x + (r * cols + j) * W) / by);
    store(x + (j * cols + j) * W, select(some, turned, head)), store(factors + j * W, factor);
    for (long c = j + 1; c < cols; c++) reflect_in_lanes(x, rows, cols, c, x, cols, j, j, factor);
  }
  return true;
}
template <class T>
inline void householder(Context &ctx, long batch, long rows, long cols, const T *a, T *both, T *factors) {
  const long size = rows * cols, count = rows < cols ? rows : cols;
  auto one = [&](long b) {
    T *x = room<T, 0>(size);
    transpose2d(rows, cols, a + b * size, cols, x, rows);
    householder_lines(x, rows, cols, factors + b * count);
    transpose2d(cols, rows, x, rows, both + b * size, cols);
  };
  if (!in_lanes(batch, rows, cols)) return for_matrices(ctx, batch, (double)size * count, one);
  for_lanes(ctx, batch, (double)size * count, [&](long first, long lanes) {
    T *x = room<T, 0>(size * W), *found = room<T, 1>(count * W);
    into_lanes(a + first * size, lanes, size, x);
    if (householder_in_lanes(x, rows, cols, found)) {
      from_lanes(x, lanes, size, both + first * size);
      from_lanes(found, lanes, count, factors + first * count);
    } else {
      for (long b = first; b < first + lanes; b++) one(b);
    }
  });
}
// The first `wanted` columns of the product of all reflections.
template <class T>
inline void reflections(Context &ctx, long batch, long rows, long cols, long count, long wanted, const T *both, const T *factors, T *out) {
  const double work = (double)rows * wanted * count;
  if (in_lanes(batch, rows, cols) && wanted <= kInLanes) {
    for_lanes(ctx, batch, work, [&](long first, long lanes) {
      T *x = room<T, 0>(rows * cols * W), *t = room<T, 1>(count * W), *q = room<T, 2>(rows * wanted * W);
      into_lanes(both + first * rows * cols, lanes, rows * cols, x);
      into_lanes(factors + first * count, lanes, count, t);
      for (long r = 0; r < rows; r++)
        for (long c = 0; c < wanted; c++) store(q + (r * wanted + c) * W, Vector<T>(T(r == c)));
      for (long j = count - 1; j >= 0; j--)
        for (long c = j; c < wanted; c++) reflect_in_lanes(q, rows, wanted, c, x, cols, j, j, load(t + j * W));
      from_lanes(q, lanes, rows * wanted, out + first * rows * wanted);
    });
    return;
  }
  for_matrices(ctx, batch, work, [&](long b) {
    T *x = room<T, 0>(rows * cols), *q = room<T, 1>(rows * wanted);
    transpose2d(rows, cols, both + b * rows * cols, cols, x, rows);
    memset(q, 0, (size_t)(rows * wanted) * sizeof(T));
    for (long i = 0; i < rows && i < wanted; i++) q[i * rows + i] = 1;
    const T *given = factors + b * count;
    for (long j = (count - 1) / kPanel * kPanel; count > 0 && j >= 0; j -= kPanel) {
      const long w = count - j < kPanel ? count - j : kPanel;
      if (wanted <= kPanel / 2)
        for (long i = j + w - 1; i >= j; i--)
          for (long c = i; c < wanted; c++) reflect(q + c * rows + i, x + i * rows + i + 1, given[i], rows - i - 1);
      else reflect_block(q + j * rows + j, rows, wanted - j, x + j * rows + j, rows, given + j, w, rows - j, true);
    }
    transpose2d(wanted, rows, q, rows, out + b * rows * wanted, wanted);
  });
}

}  // namespace GH_ISA_NS
}  // namespace gh
