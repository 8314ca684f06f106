// gemv.cuh: products of at most 8 rows, whose weights are read once, in rows of K: at the speed of memory.
//
// Contract
// - Operands are loaders (`Matrix` of `gemm.cuh`, those of `products.cuh`), out(m, n, sums) is as there, of one sum each.
// - `gemv` calls `wait_for_earlier` itself.
#pragma once
#include "gemm.cuh"

namespace gh {

// 16 bytes that have been asked for. `held(x)`: what is made of them comes behind this line. Without it the compiler turned weights into floats
// at once, so that a block waited for them before it asked for its rows.
typedef Vec<uint32_t, 4> Words;
#ifdef GH_EMULATE
GH_FN void held(Words &) {}
#else
GH_FN void held(Words &x) { asm volatile("" : "+r"(x[0]), "+r"(x[1]), "+r"(x[2]), "+r"(x[3])); }
#endif
template <class T> GH_FN Words words_at(const T *p) { return load_vec<4>((const uint32_t *)p); }
template <class T> GH_FN void floats_of(float (&to)[16 / sizeof(T)], const Words &from) {
  constexpr int PER = 16 / sizeof(T);
  const Vec<T, PER> &all = (const Vec<T, PER> &)from;
#pragma unroll
  for (int e = 0; e < PER; ++e) to[e] = to_scalar(all[e]);
}

// A block of WARPS warps computes COLUMNS columns for all of ROWS rows; its warps share the depth, STEPS runs of 16 bytes (PER elements) a lane and
// column, all of which are under way at once. EARLY: weights are constants, so they are asked for before earlier kernels have ended.
// EVEN: K is WARPS * STEPS * 32 * PER. A column may have `each` weights, whose sums become one; rows may be `normed` (`products.cuh`).
template <int ROWS, int COLUMNS, int WARPS, int STEPS, bool EARLY, bool EVEN, class A, class B, class Out>
GH_FN void gemv(const Context &ctx, int N, int K, const A &a, const B &b, Out &&out) {
  typedef typename A::T T;
  constexpr int EACH = B::each, SUMS = COLUMNS * EACH + A::normed, PER = 16 / sizeof(T);
  __shared__ float parts[WARPS][ROWS * SUMS];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, n0 = blockIdx.x * COLUMNS;
  auto place = [&](int s) { return (s * WARPS * 32 + (int)threadIdx.x) * PER; };
  auto inside = [&](int s) { return EVEN || place(s) < K; };
  float sums[ROWS][SUMS] = {};
  Words w[STEPS][COLUMNS * EACH], scale[STEPS];
  if constexpr (!EARLY) wait_for_earlier(ctx);
#pragma unroll
  for (int s = 0; s < STEPS; ++s) {
    const int k = inside(s) ? place(s) : 0;
#pragma unroll
    for (int c = 0; c < COLUMNS * EACH; ++c) {
      const int n = n0 + c / EACH;
      w[s][c] = words_at(b.row(n < N ? n : N - 1, c % EACH) + k);
    }
    if constexpr (A::normed) scale[s] = words_at(a.scale + k);
  }
  if constexpr (EARLY) wait_for_earlier(ctx);
  // What follows is loaded beside the rows: a block holds its place until it ends, and memory waits for the next one.
  const int own = threadIdx.x < ROWS * COLUMNS ? threadIdx.x : 0, r0 = own / COLUMNS, c0 = own % COLUMNS;
  const auto coming = loads_of(out, r0, n0 + c0 < N ? n0 + c0 : N - 1);
  constexpr bool AT_ONCE = ROWS * STEPS <= 8;  // all of the rows are under way before any is used
  Words rows[AT_ONCE ? STEPS : 1][ROWS];
  if constexpr (AT_ONCE) {
#pragma unroll
    for (int s = 0; s < STEPS; ++s)
#pragma unroll
      for (int r = 0; r < ROWS; ++r) rows[s][r] = words_at(a.p + r * a.outer_step + (inside(s) ? place(s) : 0));
#pragma unroll
    for (int s = 0; s < STEPS; ++s) {
#pragma unroll
      for (int r = 0; r < ROWS; ++r) held(rows[s][r]);
#pragma unroll
      for (int c = 0; c < COLUMNS * EACH; ++c) held(w[s][c]);
    }
  }
#pragma unroll
  for (int s = 0; s < STEPS; ++s) {
    if (!inside(s)) break;
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      float x[PER];
      floats_of<T>(x, AT_ONCE ? rows[AT_ONCE ? s : 0][r] : words_at(a.p + r * a.outer_step + place(s)));
      if constexpr (A::normed) {
        float factors[PER];
        floats_of<T>(factors, scale[s]);
#pragma unroll
        for (int e = 0; e < PER; ++e) sums[r][SUMS - 1] += x[e] * x[e], x[e] *= factors[e];
      }
#pragma unroll
      for (int c = 0; c < COLUMNS * EACH; ++c) {
        float weights[PER];
        floats_of<T>(weights, w[s][c]);
#pragma unroll
        for (int e = 0; e < PER; ++e) sums[r][c] += x[e] * weights[e];
      }
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS; ++r)
#pragma unroll
    for (int c = 0; c < SUMS; ++c) {
      const float total = across_warp<Sum>(sums[r][c]);
      if (lane == 0) parts[warp][r * SUMS + c] = total;
    }
  __syncthreads();
  if (threadIdx.x < ROWS * COLUMNS) {
    float factor = 1.0f, totals[EACH] = {};
    if constexpr (A::normed) {
      float squares = 0.0f;
#pragma unroll
      for (int i = 0; i < WARPS; ++i) squares += parts[i][r0 * SUMS + SUMS - 1];
      factor = rsqrt(squares / K + a.eps);
    }
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
#pragma unroll
      for (int i = 0; i < WARPS; ++i) totals[e] += parts[i][r0 * SUMS + c0 * EACH + e];
      totals[e] *= factor;
    }
    if (n0 + c0 < N) hand_to(out, r0, n0 + c0, Vec<float, 1>{{b.one(totals)}}, coming);
  }
}

}  // namespace gh
