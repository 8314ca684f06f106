// few_filters.h: convolutions in single steps that make few channels (colours, a mask, a waveform), with pixels as the lanes of vectors.
//
// Contract
// - `conv_few_filters<C>(pool, s, x, w, epi)`: C is s.OC; x is [N, H, W_in, channels], w [channel][tap][C] (`few_filters_pack`); epi(n C + c,
//   oh OW + ow, acc, range): rows of planes. One group, steps of 1.
// - As a product over channels this would have C columns of the 32 that a panel has. Here a part of the image is copied into zero-padded
//   planes, a channel each; in a plane the next pixel is the next lane and a tap is a distance, also across the end of a line. So a
//   tile of `kFewVectors<C>` vectors times C channels sums up in registers, and of what it computes only the ends of lines are nobody's.
// - Sums run over channels, then over taps, about 1024 terms at a time, whatever the number of threads.
#pragma once
#include "../conv_weights.h"
#include "../gemm_micro.h"
#include "../transpose.h"

namespace gh {
inline namespace GH_ISA_NS {

#if defined(GH_AVX512)
constexpr int kFewRegisters = 32;
#else
constexpr int kFewRegisters = 16;
#endif
// Beside the sums there are C weights and a vector of pixels; eight vectors are enough for the multiply-adds on their way.
template <int C>
constexpr int kFewVectors = (kFewRegisters - 1 - C) / C < 1 ? 1 : (kFewRegisters - 1 - C) / C > 8 ? 8 : (kFewRegisters - 1 - C) / C;

// Weights at source[o so + i si + kh sh + kw sw] as [i][kh][kw][o].
inline void few_filters_pack(const float *source, long so, long si, long sh, long sw, const ConvShape &s, float *out) {
  for (long i = 0; i < s.C; i++)
    for (int h = 0; h < s.kh; h++)
      for (int j = 0; j < s.kw; j++)
        for (long o = 0; o < s.OC; o++) *out++ = source[o * so + i * si + h * sh + j * sw];
}

// How the result is cut into parts, each from planes that stay in L2: as wide as may be, because the ends of lines are computed in vain.
struct FewParts {
  long above, before, rows, columns, down, across;
  FewParts(const ConvShape &s, long room, long threads)
      : above((long)(s.kh - 1) * s.dh), before((long)(s.kw - 1) * s.dw), rows(s.OH), columns(s.OW) {
    const auto fitting = [&] { return room / (s.C * (columns + before)) - above; };
    const long least = above + 1 < s.OH ? above + 1 : s.OH;
    while (fitting() < least && columns > 8 * W && columns > 2 * before) columns = (columns + 1) / 2;
    if (rows > fitting()) rows = fitting() < 1 ? 1 : fitting();
    const long share = (s.N * s.OH + threads - 1) / threads;
    if (rows > share) rows = share;
    if (s.N * s.OH < threads && columns * threads > s.OW) columns = (s.OW + threads - 1) / threads;
    down = (s.OH + rows - 1) / rows, rows = (s.OH + down - 1) / down;
    across = (s.OW + columns - 1) / columns, columns = (s.OW + across - 1) / across;
  }
};

// Sums for `kFewVectors<C>` vectors of neighbours from x on, over some channels; added to what is there when `accumulate`.
template <int C>
GH_INLINE void few_filters_tile(const ConvShape &s, long channels, const float *x, long plane, long line, const float *w, float *out, long ldo,
                                bool accumulate) {
  constexpr int V = kFewVectors<C>;
  vf sum[C][V];
  GH_UNROLL for (int c = 0; c < C; c++)
    GH_UNROLL for (int v = 0; v < V; v++) sum[c][v] = vf(0.0f);
  for (long i = 0; i < channels; i++)
    for (int h = 0; h < s.kh; h++) {
      const float *at = x + i * plane + (long)h * s.dh * line;
      for (int j = 0; j < s.kw; j++, at += s.dw, w += C) {
        vf weight[C];
        GH_UNROLL for (int c = 0; c < C; c++) weight[c] = vf(w[c]);
        GH_UNROLL for (int v = 0; v < V; v++) {
          vf pixels = load(at + v * W);
          if (C > 1) in_register(pixels);
          GH_UNROLL for (int c = 0; c < C; c++) sum[c][v] = fma(pixels, weight[c], sum[c][v]);
        }
      }
    }
  GH_UNROLL for (int c = 0; c < C; c++)
    GH_UNROLL for (int v = 0; v < V; v++) {
      float *to = out + c * ldo + v * W;
      store(to, accumulate ? load(to) + sum[c][v] : sum[c][v]);
    }
}

template <int C, class Epi>
inline void conv_few_filters(ThreadPool &pool, const ConvShape &s, const float *x, const float *w, Epi &&epi) {
  constexpr long kStep = kFewVectors<C> * W;
  const long taps = (long)s.kh * s.kw, chunk = taps < 1024 ? 1024 / taps : 1;
  if (s.N <= 0 || s.OH <= 0 || s.OW <= 0) return;
  const FewParts parts(s, kL2Bytes / 8 * 5 / 4, pool.size());
  const double work = (double)parts.rows * parts.columns * C * s.K();
  const long grain = work > kWorthThread<DotF32> ? 1 : (long)(kWorthThread<DotF32> / (work + 1)) + 1;
  parallel_for(pool, s.N * parts.down * parts.across, grain, [&](long begin, long end) {
    for (long item = begin; item < end; item++) {
      const long n = item / (parts.down * parts.across);
      const long h0 = item / parts.across % parts.down * parts.rows, w0 = item % parts.across * parts.columns;
      const long rows = parts.rows < s.OH - h0 ? parts.rows : s.OH - h0, columns = parts.columns < s.OW - w0 ? parts.columns : s.OW - w0;
      if (rows <= 0 || columns <= 0) continue;
      const long line = columns + parts.before, high = rows + parts.above;
      // Planes an odd number of cache lines apart lie in all sets of the cache.
      const long plane = ((high * line + 15) / 16 | 1) * 16, pixels = (rows - 1) * line + columns;
      const long ld = (pixels + kStep - 1) / kStep * kStep;
      float *planes = (float *)scratch<1>((size_t)(s.C * plane + kStep) * 4), *sums = (float *)scratch<3>((size_t)(C * ld + W) * 4);
      const long y0 = h0 - s.ph, x0 = w0 - s.pw;  // of the part; inside of the image it begins at `top`, `left`
      const long top = y0 < 0 ? 0 : y0, bottom = y0 + high < s.H ? y0 + high : s.H;
      const long left = x0 < 0 ? 0 : x0, right = x0 + line < s.W_in ? x0 + line : s.W_in;
      if (top > y0 || bottom < y0 + high || left > x0 || right < x0 + line) memset((void *)planes, 0, (size_t)(s.C * plane) * 4);
      if (left < right)
        for (long y = top; y < bottom; y++)
          transpose2d(right - left, s.C, x + ((n * s.H + y) * s.W_in + left) * s.C, s.C, planes + (y - y0) * line + left - x0, plane);
      for (long p = 0; p < pixels; p += kStep)
        for (long i = 0; i < s.C; i += chunk) {
          const long channels = chunk < s.C - i ? chunk : s.C - i;
          few_filters_tile<C>(s, channels, planes + i * plane + p, plane, line, w + i * taps * C, sums + p, ld, i > 0);
        }
      for (long r = 0; r < rows; r++)
        for (long c = 0; c < C; c++)
          for_each_vector(columns, [&](long k, auto t) __attribute__((always_inline)) {
            epi(n * C + c, (h0 + r) * s.OW + w0 + k, load(sums + c * ld + r * line + k, t), t);
          });
    }
  });
}

}  // namespace GH_ISA_NS
}  // namespace gh
