// transpose.h: W x W tiles turned in registers, and tiled transposes of matrices built on them.
//
// Contract
// - `transpose_tile(x)`: x[i] lane j <-> x[j] lane i, for as many vectors as they have lanes.
// - `transpose2d(rows, cols, src, lds, dst, ldd)`: dst[c * ldd + r] = src[r * lds + c]; serial; elements of 1, 2, 4 and 8 bytes
//   through registers, others blocked for the cache. Steps may be negative.
// - `transpose_batched(pool, batch, rows, cols, src, lds, src_step, dst, ldd, dst_step)`: the same for each of `batch` matrices,
//   over all threads.
#pragma once
#include "threadpool.h"
#include "vec.h"

namespace gh {
inline namespace GH_ISA_NS {

// Blocks of S lanes, alternately from a and b: the even blocks (Odd = 0) or the odd blocks (Odd = 1) of each.
template <int S, int Odd, class V, int... I>
GH_INLINE V zip_blocks(V a, V b, Lanes<I...>) {
  constexpr int N = sizeof...(I);
  return __builtin_shufflevector(a, b, ((I / S) % 2 ? N : 0) + (I / (2 * S)) * 2 * S + Odd * S + I % S...);
}
GH_INLINE ni bare(vi x) { return x.v; }
template <class V>
GH_INLINE V bare(V x) { return x; }
template <int S, class V, int N>
GH_INLINE void transpose_stage(V (&x)[N]) {
  GH_UNROLL for (int i = 0; i < N; i++) {
    if (i & S) continue;
    const auto a = bare(x[i]), b = bare(x[i + S]);
    x[i] = zip_blocks<S, 0>(a, b, typename MakeLanes<N>::type{});
    x[i + S] = zip_blocks<S, 1>(a, b, typename MakeLanes<N>::type{});
  }
}
// N vectors of N lanes: x[i] lane j <-> x[j] lane i.
template <class V, int N>
GH_INLINE void transpose_tile(V (&x)[N]) {
  transpose_stage<1>(x);
  if constexpr (N > 2) transpose_stage<2>(x);
  if constexpr (N > 4) transpose_stage<4>(x);
  if constexpr (N > 8) transpose_stage<8>(x);
}

// One tile of up to W x W; n rows in, m columns in.
template <class RowRange, class ColRange>
GH_INLINE void transpose_block(const int32_t *src, long lds, int32_t *dst, long ldd, RowRange rows, ColRange cols) {
  vi x[W];
  GH_UNROLL for (int i = 0; i < W; i++) x[i] = i < rows.n ? load(src + i * lds, cols) : vi(0);
  transpose_tile(x);
  GH_UNROLL for (int i = 0; i < W; i++)
    if (i < cols.n) store(dst + i * ldd, x[i], rows);
}

inline GH_NOINLINE void transpose2d_words(long rows, long cols, const int32_t *src, long lds, int32_t *dst, long ldd) {
  for (long r = 0; r < rows; r += W)
    for (long c = 0; c < cols; c += W) {
      const int32_t *s = src + r * lds + c;
      int32_t *d = dst + c * ldd + r;
      if (r + W <= rows && c + W <= cols) transpose_block(s, lds, d, ldd, Full{}, Full{});
      else transpose_block(s, lds, d, ldd, Tail((int)(rows - r < W ? rows - r : W)), Tail((int)(cols - c < W ? cols - c : W)));
    }
}

// Elements of 2 bytes, each in a lane of its own meanwhile.
template <class B>
inline GH_NOINLINE void transpose2d_narrow(long rows, long cols, const B *src, long lds, B *dst, long ldd) {
  typedef B nb __attribute__((vector_size(W * sizeof(B))));
  for (long r = 0; r < rows; r += W)
    for (long c = 0; c < cols; c += W) {
      const long m = rows - r < W ? rows - r : W, n = cols - c < W ? cols - c : W;
      const B *s = src + r * lds + c;
      B *d = dst + c * ldd + r;
      vi x[W];
      GH_UNROLL for (int i = 0; i < W; i++) {
        nb lane = {};
        if (n == W && i < m) memcpy(&lane, s + i * lds, sizeof lane);
        else if (i < m) memcpy(&lane, s + i * lds, (size_t)n * sizeof(B));
        x[i] = (ni)__builtin_convertvector(lane, nu);
      }
      transpose_tile(x);
      GH_UNROLL for (int i = 0; i < W; i++) {
        const nb lane = __builtin_convertvector((nu)x[i].v, nb);
        if (m == W && i < n) memcpy(d + i * ldd, &lane, sizeof lane);
        else if (i < n) memcpy(d + i * ldd, &lane, (size_t)m * sizeof(B));
      }
    }
}

// Elements of 1 byte: tiles of 16 x 16, neighbours put beside each other four times; what is left of a tile goes one by one.
typedef uint8_t byte_lanes __attribute__((vector_size(16)));
template <int H, int... I>
GH_INLINE byte_lanes zip_bytes(byte_lanes a, byte_lanes b, Lanes<I...>) {
  return __builtin_shufflevector(a, b, (8 * H + I / 2 + I % 2 * 16)...);
}
inline GH_NOINLINE void transpose2d_bytes(long rows, long cols, const uint8_t *src, long lds, uint8_t *dst, long ldd) {
  typedef typename MakeLanes<16>::type All;
  for (long r = 0; r < rows; r += 16)
    for (long c = 0; c < cols; c += 16) {
      const uint8_t *s = src + r * lds + c;
      uint8_t *d = dst + c * ldd + r;
      if (r + 16 > rows || c + 16 > cols) {
        for (long j = 0; j < 16 && c + j < cols; j++)
          for (long i = 0; i < 16 && r + i < rows; i++) d[j * ldd + i] = s[i * lds + j];
        continue;
      }
      byte_lanes x[16], y[16];
      GH_UNROLL for (int i = 0; i < 16; i++) memcpy(&x[i], s + i * lds, 16);
      GH_UNROLL for (int turn = 0; turn < 2; turn++) {
        GH_UNROLL for (int k = 0; k < 8; k++) y[2 * k] = zip_bytes<0>(x[k], x[k + 8], All{}), y[2 * k + 1] = zip_bytes<1>(x[k], x[k + 8], All{});
        GH_UNROLL for (int k = 0; k < 8; k++) x[2 * k] = zip_bytes<0>(y[k], y[k + 8], All{}), x[2 * k + 1] = zip_bytes<1>(y[k], y[k + 8], All{});
      }
      GH_UNROLL for (int j = 0; j < 16; j++) memcpy(d + j * ldd, &x[j], 16);
    }
}

// Elements of 8 bytes, half as many in a vector; what is left of a tile goes one by one.
constexpr int kWideTile = W / 2;
typedef int64_t wide_lanes __attribute__((vector_size(W * 4)));
inline GH_NOINLINE void transpose2d_wide(long rows, long cols, const char *src, long lds, char *dst, long ldd) {
  constexpr long N = kWideTile;
  for (long r = 0; r < rows; r += N)
    for (long c = 0; c < cols; c += N) {
      const char *s = src + 8 * (r * lds + c);
      char *d = dst + 8 * (c * ldd + r);
      if (r + N <= rows && c + N <= cols) {
        wide_lanes x[N];
        GH_UNROLL for (int i = 0; i < N; i++) memcpy(&x[i], s + 8 * i * lds, sizeof x[i]);
        transpose_tile(x);
        GH_UNROLL for (int i = 0; i < N; i++) memcpy(d + 8 * i * ldd, &x[i], sizeof x[i]);
        continue;
      }
      for (long j = 0; j < N && c + j < cols; j++)
        for (long i = 0; i < N && r + i < rows; i++) memcpy(d + 8 * (j * ldd + i), s + 8 * (i * lds + j), 8);
    }
}

template <class T>
inline void transpose2d(long rows, long cols, const T *src, long lds, T *dst, long ldd) {
  if constexpr (sizeof(T) == 4) {
    transpose2d_words(rows, cols, (const int32_t *)src, lds, (int32_t *)dst, ldd);
  } else if constexpr (sizeof(T) == 2) {
    transpose2d_narrow(rows, cols, (const uint16_t *)src, lds, (uint16_t *)dst, ldd);
  } else if constexpr (sizeof(T) == 1) {
    transpose2d_bytes(rows, cols, (const uint8_t *)src, lds, (uint8_t *)dst, ldd);
  } else if constexpr (sizeof(T) == 8) {
    transpose2d_wide(rows, cols, (const char *)src, lds, (char *)dst, ldd);
  } else {
    constexpr long B = 16;
    for (long r = 0; r < rows; r += B)
      for (long c = 0; c < cols; c += B)
        for (long i = r; i < (r + B < rows ? r + B : rows); i++)
          for (long j = c; j < (c + B < cols ? c + B : cols); j++) dst[j * ldd + i] = src[i * lds + j];
  }
}

template <class T>
inline void transpose_batched(ThreadPool &pool, long batch, long rows, long cols, const T *src, long lds, long src_step, T *dst,
                              long ldd, long dst_step) {
  // Work is dealt out in strips of W destination rows; a strip of less than 4096 elements is not worth a thread.
  long strips = (cols + W - 1) / W, per = rows * W;
  parallel_for(pool, batch * strips, per >= 4096 ? 1 : 4096 / (per ? per : 1) + 1, [&](long begin, long end) {
    for (long i = begin; i < end; i++) {
      long b = i / strips, c = i % strips * W, n = cols - c < W ? cols - c : W;
      transpose2d(rows, n, src + b * src_step + c, lds, dst + b * dst_step + c * ldd, ldd);
    }
  });
}

}  // namespace GH_ISA_NS
}  // namespace gh
