// factor.h: triangles, LU and Cholesky of batches of dense matrices, row by row, in float or double.
//
// Contract
// - `lu`: L and U in one matrix, rows exchanged for the largest pivot, the first of equals; NaN is never larger. Pivots count from 1, as LAPACK's.
//   A pivot of 0 is not divided by. `cholesky` reads the lower triangle; where it fails the diagonal is not above 0. `triangle_solve` reads one triangle.
// - Large matrices go by panels of `kPanel` columns, which lie turned meanwhile: what a column is made of is then contiguous. The rest is
//   products (`less_product`), on the memory as it is: they are 32 deep, and packing would cost as much as it saves.
// - Up to kInLanes rows, W matrices of a batch are computed at a time, one in each lane: a 4 x 4 matrix fills no vector.
#pragma once
#include "../context.h"
#include "../transpose.h"
#include "../vec_double.h"
#include <math.h>

namespace gh {
inline namespace GH_ISA_NS {

template <class T> using Vector = typename VectorOf<T>::type;
constexpr long kPanel = 32, kInLanes = 16;

// ------------------------------------------------------------------------------------------------------------------------ products
// C[r, c] -= sum over k of S[r, k] V[k, c] for R rows and N vectors; `t` is the range of the last vector.
template <class T, int R, int N, class Range>
GH_INLINE void less_tile(T *C, long ldc, const T *S, long row, long col, const T *V, long ldv, long depth, Range t) {
  typedef Vector<T> X;
  X sum[R][N];
  GH_UNROLL for (int r = 0; r < R; r++) {
    GH_UNROLL for (int n = 0; n + 1 < N; n++) sum[r][n] = load(C + r * ldc + n * W);
    sum[r][N - 1] = load(C + r * ldc + (N - 1) * W, t);
  }
  for (long k = 0; k < depth; k++) {
    X v[N];
    GH_UNROLL for (int n = 0; n + 1 < N; n++) v[n] = load(V + k * ldv + n * W);
    v[N - 1] = load(V + k * ldv + (N - 1) * W, t);
    GH_UNROLL for (int r = 0; r < R; r++) {
      const X s(S[r * row + k * col]);
      GH_UNROLL for (int n = 0; n < N; n++) sum[r][n] = fnma(s, v[n], sum[r][n]);
    }
  }
  GH_UNROLL for (int r = 0; r < R; r++) {
    GH_UNROLL for (int n = 0; n + 1 < N; n++) store(C + r * ldc + n * W, sum[r][n]);
    store(C + r * ldc + (N - 1) * W, sum[r][N - 1], t);
  }
}
template <class T, int N, class Range>
GH_INLINE void less_strip(T *C, long ldc, const T *S, long row, long col, const T *V, long ldv, long rows, long depth, Range t) {
  long r = 0;
  for (; r + 6 <= rows; r += 6) less_tile<T, 6, N>(C + r * ldc, ldc, S + r * row, row, col, V, ldv, depth, t);
  for (; r + 2 <= rows; r += 2) less_tile<T, 2, N>(C + r * ldc, ldc, S + r * row, row, col, V, ldv, depth, t);
  if (r < rows) less_tile<T, 1, N>(C + r * ldc, ldc, S + r * row, row, col, V, ldv, depth, t);
}
// C -= S V; S is read by single elements, (row, col) apart, V and C by rows.
template <class T>
inline GH_NOINLINE void less_product(T *C, long ldc, const T *S, long row, long col, const T *V, long ldv, long rows, long cols,
                                     long depth) {
  constexpr int N = sizeof(T) == 4 ? 2 : 1;  // a vector of doubles is two registers
  long c = 0;
  for (; c + N * W <= cols; c += N * W) less_strip<T, N>(C + c, ldc, S, row, col, V + c, ldv, rows, depth, Full{});
  for (; c + W <= cols; c += W) less_strip<T, 1>(C + c, ldc, S, row, col, V + c, ldv, rows, depth, Full{});
  if (c < cols) less_strip<T, 1>(C + c, ldc, S, row, col, V + c, ldv, rows, depth, Tail((int)(cols - c)));
}

template <class T> GH_INLINE void less_times(T *y, T factor, const T *x, long n) {
  for_each_vector(n, [&](long i, auto t) { store(y + i, fnma(Vector<T>(factor), load(x + i, t), load(y + i, t)), t); });
}
template <class T> GH_INLINE T dot(const T *x, const T *y, long n) {
  Vector<T> a(T(0)), b(T(0));
  long i = 0;
  for (; i + 2 * W <= n; i += 2 * W) a = fma(load(x + i), load(y + i), a), b = fma(load(x + i + W), load(y + i + W), b);
  for (; i < n; i += W) {
    if (i + W <= n) a = fma(load(x + i), load(y + i), a);
    else b = fma(load(x + i, Tail((int)(n - i))), load(y + i, Tail((int)(n - i))), b);
  }
  return reduce_add(a + b);
}
template <class T> GH_INLINE void swap_rows(T *x, T *y, long n) {
  for_each_vector(n, [&](long i, auto t) {
    const Vector<T> a = load(x + i, t), b = load(y + i, t);
    store(x + i, b, t), store(y + i, a, t);
  });
}

// ---------------------------------------------------------------------------------------------------------------- batches of matrices
// f(number) for each matrix of a batch; `work` is about how many multiply-adds one takes.
template <class F> GH_INLINE void for_matrices(Context &ctx, long batch, double work, F f) {
  ctx.parallel(batch, batch * work > 60000, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; b++) f(b);
  });
}
GH_INLINE bool in_lanes(long batch, long rows, long cols) { return batch >= W / 2 && rows <= kInLanes && cols <= kInLanes; }
// f(first, count) for W matrices at a time.
template <class F> GH_INLINE void for_lanes(Context &ctx, long batch, double work, F f) {
  ctx.parallel((batch + W - 1) / W, batch * work > 60000, [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; g++) f(g * W, batch - g * W < W ? batch - g * W : W);
  });
}
// Matrices of `size` elements, and their elements side by side: [size][W]; lanes without a matrix hold 0.
template <class T> GH_INLINE void into_lanes(const T *src, long count, long size, T *dst) {
  if (count < W) memset(dst, 0, (size_t)(size * W) * sizeof(T));
  transpose2d(count, size, src, size, dst, (long)W);
}
template <class T> GH_INLINE void from_lanes(const T *src, long count, long size, T *dst) { transpose2d(size, count, src, (long)W, dst, size); }
template <class T, int Slot> GH_INLINE T *room(long elements) { return (T *)scratch<Slot>((size_t)(elements + W) * sizeof(T)); }

// -------------------------------------------------------------------------------------------------------------------------------- LU
// Where the largest element of a column is.
template <class T> GH_INLINE long largest(const T *x, long n) {
  if (x[0] != x[0]) return 0;
  Vector<T> most(T(0));
  for_each_vector(n, [&](long i, auto t) { most = max_fast(abs(load(x + i, t)), most); });  // the second where the first is NaN
  const T best = reduce_max_fast(most);
  for (long i = 0; i < n; i++)
    if ((x[i] < 0 ? -x[i] : x[i]) == best) return i;
  return 0;
}
// Columns of m elements, ld apart.
template <class T> inline GH_NOINLINE void lu_panel(T *p, long m, long w, long ld, int32_t *pivots, bool pivot) {
  for (long j = 0; j < w && j < m; j++) {
    T *column = p + j * ld;
    const long best = j + (pivot ? largest(column + j, m - j) : 0);
    pivots[j] = (int32_t)best;
    if (best != j)
      for (long c = 0; c < w; c++) {
        const T held = p[c * ld + j];
        p[c * ld + j] = p[c * ld + best], p[c * ld + best] = held;
      }
    const long below = m - j - 1;
    T *low = column + j + 1;
    if (column[j] != 0) {
      const Vector<T> by(column[j]);
      for_each_vector(below, [&](long i, auto t) { store(low + i, load(low + i, t) / by, t); });
    }
    for (long c = j + 1; c < w; c++) less_times(p + c * ld + j + 1, p[c * ld + j], low, below);
  }
}
template <class T> inline void lu_matrix(Context &ctx, T *a, long rows, long cols, int32_t *pivots, bool pivot, bool alone) {
  const long count = rows < cols ? rows : cols, ld = cols, ldp = rows + (W - rows % W) % W + W;
  T *panel = room<T, 0>(kPanel * ldp);
  for (long j = 0; j < count; j += kPanel) {
    const long w = count - j < kPanel ? count - j : kPanel, m = rows - j, rest = cols - j - w;
    T *corner = a + j * ld + j;
    transpose2d(m, w, corner, ld, panel, ldp);
    lu_panel(panel, m, w, ldp, pivots + j, pivot);
    transpose2d(w, m, panel, ldp, corner, ld);
    for (long i = 0; i < w; i++) {
      const long other = pivots[j + i];
      if (other != i) {
        swap_rows(a + (j + i) * ld, a + (j + other) * ld, j);
        swap_rows(corner + i * ld + w, corner + other * ld + w, rest);
      }
      pivots[j + i] = (int32_t)(j + other + 1);
    }
    if (rest == 0) continue;
    for (long i = 1; i < w; i++) less_product(corner + i * ld + w, ld, corner + i * ld, ld, 1L, corner + w, ld, 1, rest, i);
    constexpr long kBlock = 48;
    ctx.parallel((m - w + kBlock - 1) / kBlock, alone && (double)(m - w) * rest * w > 1e6, [&](int64_t begin, int64_t end) {
      const long first = w + begin * kBlock, last = w + end * kBlock < m ? w + end * kBlock : m;
      less_product(corner + first * ld + w, ld, corner + first * ld, ld, 1L, corner + w, ld, last - first, rest, w);
    });
  }
}
template <class T> inline void lu_in_lanes(T *x, long rows, long cols, T *pivots, bool pivot) {
  typedef Vector<T> X;
  auto at = [&](long r, long c) { return x + (r * cols + c) * W; };
  for (long j = 0; j < rows && j < cols; j++) {
    X best = abs(load(at(j, j))), place = X((T)j);
    for (long i = j + 1; pivot && i < rows; i++) {
      const X v = abs(load(at(i, j)));
      const auto larger = v > best;
      best = select(larger, v, best), place = select(larger, X((T)i), place);
    }
    store(pivots + j * W, place + X(T(1)));
    for (long i = j + 1; pivot && i < rows; i++) {
      const auto here = place == X((T)i);
      if (!any(here)) continue;
      for (long c = 0; c < cols; c++) {
        const X a = load(at(j, c)), b = load(at(i, c));
        store(at(j, c), select(here, b, a)), store(at(i, c), select(here, a, b));
      }
    }
    const X p = load(at(j, j)), by = select(p == X(T(0)), X(T(1)), p);
    for (long i = j + 1; i < rows; i++) {
      const X share = load(at(i, j)) / by;
      store(at(i, j), share);
      for (long c = j + 1; c < cols; c++) store(at(i, c), fnma(share, load(at(j, c)), load(at(i, c))));
    }
  }
}
template <class T>
inline void lu(Context &ctx, long batch, long rows, long cols, const T *a, T *both, int32_t *pivots, bool pivot) {
  const long size = rows * cols, count = rows < cols ? rows : cols;
  const double work = (double)size * count / 2;
  if (in_lanes(batch, rows, cols)) {
    for_lanes(ctx, batch, work, [&](long first, long lanes) {
      T *x = room<T, 0>(size * W), *places = room<T, 1>(count * W);
      into_lanes(a + first * size, lanes, size, x);
      lu_in_lanes(x, rows, cols, places, pivot);
      from_lanes(x, lanes, size, both + first * size);
      for (long b = 0; b < lanes; b++)
        for (long j = 0; j < count; j++) pivots[(first + b) * count + j] = (int32_t)places[j * W + b];
    });
    return;
  }
  auto one = [&](long b, bool alone) {
    if (both + b * size != a + b * size) memcpy(both + b * size, a + b * size, (size_t)size * sizeof(T));
    lu_matrix(ctx, both + b * size, rows, cols, pivots + b * count, pivot, alone);
  };
  if (batch == 1) return one(0, true);
  for_matrices(ctx, batch, work, [&](long b) { one(b, false); });
}
// The order of rows after the exchanges that pivots name.
inline void row_order(Context &ctx, long batch, long count, long rows, const int32_t *pivots, int64_t *order) {
  for (long b = 0; b < batch; b++, pivots += count, order += rows) {
    for (long i = 0; i < rows; i++) order[i] = i;
    for (long i = 0; i < count; i++) {
      const int64_t other = ctx.index((int64_t)pivots[i] - 1, rows), held = order[i];
      order[i] = order[other], order[other] = held;
    }
  }
}

// -------------------------------------------------------------------------------------------------------------------------- triangles
// Few columns, each by itself: sums along rows of the triangle.
template <class T> inline void triangle_by_dots(const T *a, const T *b, T *x, long n, long k, bool upper, bool unit) {
  T *turned = room<T, 0>(n * k);
  transpose2d(n, k, b, k, turned, n);
  for (long s = 0; s < n; s++) {
    const long i = upper ? n - 1 - s : s, from = upper ? i + 1 : 0;
    const T *row = a + i * n;
    for (long c = 0; c < k; c++) {
      T *y = turned + c * n;
      const T left = y[i] - dot(row + from, y + from, s);
      y[i] = unit ? left : left / row[i];
    }
  }
  transpose2d(k, n, turned, n, x, k);
}
// Many columns: rows of x, in blocks behind which what is known is a product.
template <class T> inline void triangle_by_rows(const T *a, T *x, long n, long k, bool upper, bool unit) {
  constexpr long kBlock = 24;
  for (long s = 0; s < n; s += kBlock) {
    const long size = n - s < kBlock ? n - s : kBlock, first = upper ? n - s - size : s;
    const long from = upper ? first + size : 0;  // `s` rows are known from there on
    if (s) less_product(x + first * k, k, a + first * n + from, n, 1L, x + from * k, k, size, k, s);
    for (long j = 0; j < size; j++) {
      const long i = upper ? first + size - 1 - j : first + j, known = upper ? i + 1 : first;
      if (j) less_product(x + i * k, k, a + i * n + known, n, 1L, x + known * k, k, 1, k, j);
      if (unit) continue;
      const Vector<T> by(a[i * n + i]);
      for_each_vector(k, [&](long c, auto t) { store(x + i * k + c, load(x + i * k + c, t) / by, t); });
    }
  }
}
template <class T> inline void triangle_in_lanes(const T *a, T *x, long n, long k, bool upper, bool unit) {
  typedef Vector<T> X;
  for (long s = 0; s < n; s++) {
    const long i = upper ? n - 1 - s : s, from = upper ? i + 1 : 0;
    for (long c = 0; c < k; c++) {
      X left = load(x + (i * k + c) * W);
      for (long j = from; j < from + s; j++) left = fnma(load(a + (i * n + j) * W), load(x + (j * k + c) * W), left);
      store(x + (i * k + c) * W, unit ? left : left / load(a + (i * n + i) * W));
    }
  }
}
template <class T>
inline void triangle_solve(Context &ctx, long batch, long n, long k, const T *a, const T *b, T *x, bool upper, bool unit) {
  const double work = (double)n * n * k / 2;
  if (in_lanes(batch, n, k)) {
    for_lanes(ctx, batch, work, [&](long first, long lanes) {
      T *m = room<T, 0>(n * n * W), *y = room<T, 1>(n * k * W);
      into_lanes(a + first * n * n, lanes, n * n, m);
      into_lanes(b + first * n * k, lanes, n * k, y);
      triangle_in_lanes(m, y, n, k, upper, unit);
      from_lanes(y, lanes, n * k, x + first * n * k);
    });
    return;
  }
  for_matrices(ctx, batch, work, [&](long i) {
    const T *m = a + i * n * n, *given = b + i * n * k;
    T *y = x + i * n * k;
    if (k <= W / 4) return triangle_by_dots(m, given, y, n, k, upper, unit);
    if (y != given) memcpy(y, given, (size_t)(n * k) * sizeof(T));
    triangle_by_rows(m, y, n, k, upper, unit);
  });
}

// --------------------------------------------------------------------------------------------------------------------------- Cholesky
template <class T> inline void cholesky_matrix(T *a, long n) {
  const long ldp = n + (W - n % W) % W + W;
  T *panel = room<T, 0>(kPanel * ldp);
  for (long j = 0; j < n; j += kPanel) {
    const long w = n - j < kPanel ? n - j : kPanel, m = n - j;
    T *corner = a + j * n + j;
    transpose2d(m, w, corner, n, panel, ldp);
    for (long i = 0; i < w; i++) {
      T *column = panel + i * ldp;
      T *low = column + i + 1;
      column[i] = column[i] < 0 ? (T)NAN : (T)::sqrt((double)column[i]);  // of a float exact, too: double has twice its digits
      const Vector<T> by(column[i]);
      for_each_vector(m - i - 1, [&](long r, auto t) { store(low + r, load(low + r, t) / by, t); });
      for (long c = i + 1; c < w; c++) less_times(panel + c * ldp + c, column[c], column + c, m - c);
    }
    transpose2d(w, m, panel, ldp, corner, n);
    constexpr long kBlock = 24;
    for (long r = w; r < m; r += kBlock) {
      const long end = r + kBlock < m ? r + kBlock : m;
      less_product(corner + r * n + w, n, corner + r * n, n, 1L, panel + w, ldp, end - r, end - w, w);
    }
  }
  for (long r = 0; r < n; r++) memset(a + r * n + r + 1, 0, (size_t)(n - r - 1) * sizeof(T));
}
template <class T> inline void cholesky_in_lanes(T *x, long n) {
  typedef Vector<T> X;
  auto at = [&](long r, long c) { return x + (r * n + c) * W; };
  for (long j = 0; j < n; j++) {
    const X by = sqrt(load(at(j, j)));
    store(at(j, j), by);
    for (long i = j + 1; i < n; i++) store(at(i, j), load(at(i, j)) / by);
    for (long i = 0; i < j; i++) store(at(i, j), X(T(0)));
    for (long c = j + 1; c < n; c++)
      for (long i = c; i < n; i++) store(at(i, c), fnma(load(at(i, j)), load(at(c, j)), load(at(i, c))));
  }
}
template <class T> inline void cholesky(Context &ctx, long batch, long n, const T *a, T *out) {
  const double work = (double)n * n * n / 3;
  if (in_lanes(batch, n, n)) {
    for_lanes(ctx, batch, work, [&](long first, long lanes) {
      T *x = room<T, 0>(n * n * W);
      into_lanes(a + first * n * n, lanes, n * n, x);
      cholesky_in_lanes(x, n);
      from_lanes(x, lanes, n * n, out + first * n * n);
    });
    return;
  }
  for_matrices(ctx, batch, work, [&](long b) {
    if (out + b * n * n != a + b * n * n) memcpy(out + b * n * n, a + b * n * n, (size_t)(n * n) * sizeof(T));
    cholesky_matrix(out + b * n * n, n);
  });
}

}  // namespace GH_ISA_NS
}  // namespace gh
