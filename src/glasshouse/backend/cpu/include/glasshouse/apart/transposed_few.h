// transposed_few.h: transposed convolutions that make few channels (a waveform, colours, a mask), channels first.
//
// Contract
// - `transposed_few<C, SW>(ctx, s, g, w, out)`: s describes the adjoint convolution, out [N, H, W_in, C] -> g [N, OH, OW, OC], but both
//   lie channels first: g is [N, OC, OH, OW], out [N, C, H, W_in], w [OC, C, kh, kw]. One group; C and the step SW = s.sw are at most 4.
// - A product would have C columns of the 32 that a panel has. Here neighbours along a row are the lanes: an output column w with
//   w + pw = b * SW + r sees the taps j with j * dw % SW == r, each at the input column b - j * dw / SW.
// - Sums run over taps of rows, channels and taps of columns in this order, whatever the number of threads.
#pragma once
#include "../conv.h"
#include "../context.h"

namespace gh {
inline namespace GH_ISA_NS {

// The taps of each residue: which, and how many elements before the output's place they read.
struct StepTaps {
  int tap[4][64], shift[4][64], count[4] = {0, 0, 0, 0}, most = 0;
  StepTaps(int k, int step, int dilation) {
    for (int i = 0; i < k; i++) {
      const int r = i * dilation % step, n = count[r]++;
      tap[r][n] = i, shift[r][n] = i * dilation / step;
      most = max_of(most, shift[r][n]);
    }
  }
};

template <int C, int SW>
inline void transposed_few(Context &ctx, const ConvShape &s, const float *g, const float *w, float *out) {
  constexpr int V = C * SW <= 2 ? 4 : C * SW <= 6 ? 2 : 1;  // vectors of each sum: enough multiply-adds under way
  const StepTaps rows(s.kh, s.sh, s.dh), cols(s.kw, SW, s.dw);
  const long taps = (long)s.kh * s.kw, first = s.pw / SW, last = (s.W_in - 1 + s.pw) / SW + 1;
  // In the order in which they are used: [tap of rows][OC][tap of columns, by residue][C].
  float *ordered = (float *)scratch<3>((size_t)(s.OC * C * taps) * 4);
  float *to = ordered;
  for (int i = 0; i < s.kh; i++)
    for (long o = 0; o < s.OC; o++)
      for (int r = 0; r < SW; r++)
        for (int j = 0; j < cols.count[r]; j++)
          for (int c = 0; c < C; c++) *to++ = w[(o * C + c) * taps + i * s.kw + cols.tap[r][j]];
  ctx.parallel(s.N * s.H, s.N * s.H * s.W_in * C >= 4096, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const long n = row / s.H, h = row % s.H, a = (h + s.ph) / s.sh;
      const int ry = (int)((h + s.ph) % s.sh);
      // f(input row of channel o, its weights) for all that this row sees.
      auto each_row = [&](auto f) {
        for (int i = 0; i < rows.count[ry]; i++) {
          const long y = a - rows.shift[ry][i];
          if (y < 0 || y >= s.OH) continue;
          const float *weights = ordered + (long)rows.tap[ry][i] * s.OC * s.kw * C;
          for (long o = 0; o < s.OC; o++) f(g + ((n * s.OC + o) * s.OH + y) * s.OW, weights + o * s.kw * C);
        }
      };
      auto line = [&](int c) { return out + ((n * C + c) * s.H + h) * s.W_in - s.pw; };
      auto one = [&](long b) {  // near the ends of a row
        float sum[SW][C] = {};
        each_row([&](const float *x, const float *weights) {
          for (int r = 0; r < SW; r++)
            for (int j = 0; j < cols.count[r]; j++, weights += C) {
              const long at = b - cols.shift[r][j];
              if (at < 0 || at >= s.OW) continue;
              for (int c = 0; c < C; c++) sum[r][c] += x[at] * weights[c];
            }
        });
        for (int r = 0; r < SW; r++)
          for (int c = 0; c < C; c++)
            if (const long p = b * SW + r; p >= s.pw && p < s.pw + s.W_in) line(c)[p] = sum[r][c];
      };
      long b = first;
      const long inside = min_of<long>(s.OW, (s.pw + s.W_in) / SW);
      for (; b < last && (b < cols.most || b * SW < s.pw); b++) one(b);
      for (; b + V * W <= inside; b += V * W) {
        vf sum[SW][C][V];
        GH_UNROLL for (int i = 0; i < SW * C * V; i++) (&sum[0][0][0])[i] = vf(0.0f);
        each_row([&](const float *x, const float *weights) {
          GH_UNROLL for (int r = 0; r < SW; r++)
            for (int j = 0; j < cols.count[r]; j++, weights += C) {
              const float *from = x + b - cols.shift[r][j];
              GH_UNROLL for (int v = 0; v < V; v++) {
                const vf read = load(from + v * W);
                GH_UNROLL for (int c = 0; c < C; c++) sum[r][c][v] = fma(read, vf(weights[c]), sum[r][c][v]);
              }
            }
        });
        GH_UNROLL for (int c = 0; c < C; c++) {
          float lanes[SW][V * W];
          GH_UNROLL for (int r = 0; r < SW; r++)
            GH_UNROLL for (int v = 0; v < V; v++) store(lanes[r] + v * W, sum[r][c][v]);
          float *o = line(c) + b * SW;
          for (int k = 0; k < V * W; k++)
            GH_UNROLL for (int r = 0; r < SW; r++) o[k * SW + r] = lanes[r][k];
        }
      }
      for (; b < last; b++) one(b);
    }
  });
}

}  // namespace GH_ISA_NS
}  // namespace gh
