// conv_weight_grad.h: the gradient of a convolution by its weights, read straight from the image and the gradient.
//
// Contract
// - As `conv_weight_grad` of conv_grad.h: float32, channels last, writes out[o so + i si + kh sh + kw sw].
// - Vectors run over output channels, which lie together in g; every tap and input channel is one number of the image beside
//   them, at a fixed distance from the pixel, so nothing is packed. Blocks of rows are copied with a border of zeros where the
//   convolution has one, so that no tap is asked whether it lies inside.
// - Threads share sums, not pixels: results do not depend on their number.
#pragma once
#include "../conv.h"

namespace gh {
inline namespace GH_ISA_NS {

constexpr int kTapTile = kPanelVectors * W >= 32 ? 12 : 6;  // taps in registers, times two vectors of output channels
constexpr long kGradBlockBytes = kL2Bytes / 4;              // of the image and g together

// Pixels of a block: whole images, or some rows of one. Distances are in elements.
struct GradBlock {
  const float *x, *g;
  long images, rows, columns;      // of results
  long x_image, x_row, x_step;     // from an image, a row, a pixel of them to the next
  long g_image, g_row, g_step;
};

// acc[t][v] (+)= sum over pixels of x[offset[t]] * g[v]; `t` says how many lanes of the last vector count.
template <int T, int V, class R>
GH_INLINE void weight_grad_tile(const GradBlock &b, const long *offset, float *acc, long ld, bool first, R t) {
  vf sum[T][V];
  GH_UNROLL for (int i = 0; i < T; i++)
    GH_UNROLL for (int v = 0; v < V; v++) sum[i][v] = first ? vf(0.0f) : load(acc + i * ld + v * W);
  const float *at[T];
  for (long n = 0; n < b.images; n++)
    for (long r = 0; r < b.rows; r++) {
      GH_UNROLL for (int i = 0; i < T; i++) at[i] = b.x + n * b.x_image + r * b.x_row + offset[i];
      const float *g = b.g + n * b.g_image + r * b.g_row;
      for (long p = 0, q = 0; p < b.columns; p++, q += b.x_step, g += b.g_step) {
        vf y[V];
        GH_UNROLL for (int v = 0; v < V; v++) {
          if (v + 1 < V) y[v] = load(g + v * W);
          else y[v] = load(g + v * W, t);
        }
        GH_UNROLL for (int i = 0; i < T; i++) {
          const vf a(at[i][q]);
          GH_UNROLL for (int v = 0; v < V; v++) sum[i][v] = fma(a, y[v], sum[i][v]);
        }
      }
    }
  GH_UNROLL for (int i = 0; i < T; i++)
    GH_UNROLL for (int v = 0; v < V; v++) store(acc + i * ld + v * W, sum[i][v]);
}

template <int V, class R>
inline void weight_grad_tiles(const GradBlock &b, const long *offset, long taps, float *acc, long ld, bool first, R t) {
  long i = 0;
  for (; i + kTapTile <= taps; i += kTapTile) weight_grad_tile<kTapTile, V>(b, offset + i, acc + i * ld, ld, first, t);
  for (; i + 3 <= taps; i += 3) weight_grad_tile<3, V>(b, offset + i, acc + i * ld, ld, first, t);
  for (; i < taps; i++) weight_grad_tile<1, V>(b, offset + i, acc + i * ld, ld, first, t);
}

// Rows [from, from + rows) of image n behind its border, into `out`.
inline void copy_with_border(const ConvShape &s, const float *x, long n, long from, long rows, float *out) {
  const long width = s.padded_w(), pitch = width * s.C;
  const long lo = s.pw < width ? s.pw : width, hi = s.pw + s.W_in < width ? s.pw + s.W_in : width;
  for (long h = 0; h < rows; h++, out += pitch) {
    const long at = from + h - s.ph;
    const bool inside = at >= 0 && at < s.H;
    const long first = inside ? lo : width, last = inside ? hi : width;
    memset((void *)out, 0, (size_t)(first * s.C) * 4);
    if (last > first) memcpy(out + first * s.C, x + (n * s.H + at) * s.W_in * s.C, (size_t)((last - first) * s.C) * 4);
    memset((void *)(out + last * s.C), 0, (size_t)((width - last) * s.C) * 4);
  }
}

GH_INLINE long weight_grad_columns(const ConvShape &s) { return (s.og() + W - 1) / W * W; }

inline size_t conv_weight_grad_direct_bytes(const ConvShape &s) {
  return (size_t)s.groups * s.K() * weight_grad_columns(s) * 4 + 64;
}

inline void conv_weight_grad_direct(ThreadPool &pool, const ConvShape &s, const float *x, const float *g, void *work, float *out,
                                    long so, long si, long sh, long sw) {
  const long og = s.og(), cg = s.cg(), K = s.K(), ld = weight_grad_columns(s), taps = (long)s.kh * s.kw;
  const bool padded = s.needs_pad();
  const long width = padded ? s.padded_w() : s.W_in, pitch = width * s.C, halo = (long)(s.kh - 1) * s.dh + 1;
  const long image_rows = padded ? s.padded_h() : s.H;
  float *acc = (float *)work;
  long rows = kGradBlockBytes / 4 / (s.sh * pitch + s.OW * s.OC + 1), images = 1;
  rows = rows < 1 ? 1 : rows;
  if (rows >= s.OH) images = rows / (s.OH > 0 ? s.OH : 1), rows = s.OH;
  else rows = (s.OH + (s.OH + rows - 1) / rows - 1) / ((s.OH + rows - 1) / rows);  // blocks of equal size
  if (s.N * s.OH * s.OW == 0) memset(work, 0, (size_t)s.groups * K * ld * 4), images = rows = 1;
  // A thread has some taps of a group, with all its output channels.
  parallel_for(pool, s.groups * K, kTapTile, [&](long begin, long end) {
    long *offset = (long *)scratch<11>((size_t)(end - begin) * sizeof(long));
    for (long i = begin; i < end; i++) {
      const long k = i % K, c = i / K * cg + k % cg, kw = k / cg % s.kw, kh = k / cg / s.kw;
      offset[i - begin] = kh * s.dh * pitch + kw * s.dw * s.C + c;
    }
    const long most = rows == s.OH ? image_rows : (rows - 1) * s.sh + halo;
    float *copy = padded ? (float *)scratch<9>((size_t)(images * most) * pitch * 4) : nullptr;
    for (long n = 0; n < s.N; n += images)
      for (long r0 = 0; r0 < s.OH; r0 += rows) {
        const long some = s.N - n < images ? s.N - n : images, count = s.OH - r0 < rows ? s.OH - r0 : rows;
        const long held = rows == s.OH ? image_rows : (count - 1) * s.sh + halo;
        if (padded)
          for (long i = 0; i < some; i++) copy_with_border(s, x, n + i, r0 * s.sh, held, copy + i * held * pitch);
        const float *from = padded ? copy : x + (n * s.H + r0 * s.sh) * pitch;
        for (long i = begin, stop; i < end; i = stop) {
          const long grp = i / K;
          stop = (grp + 1) * K < end ? (grp + 1) * K : end;
          for (long o = 0; o < og;) {
            const GradBlock b{from, g + (n * s.OH + r0) * s.OW * s.OC + grp * og + o, some, count, s.OW,
                              (padded ? held : s.H) * pitch, s.sh * pitch, s.sw * s.C, s.OH * s.OW * s.OC, s.OW * s.OC, s.OC};
            const long left = og - o, *which = offset + (i - begin);
            float *to = acc + i * ld + o;
            const bool first = n == 0 && r0 == 0;
            if (left >= 2 * W) weight_grad_tiles<2>(b, which, stop - i, to, ld, first, Full{});
            else if (left > W) weight_grad_tiles<2>(b, which, stop - i, to, ld, first, Tail((int)(left - W)));
            else if (left == W) weight_grad_tiles<1>(b, which, stop - i, to, ld, first, Full{});
            else weight_grad_tiles<1>(b, which, stop - i, to, ld, first, Tail((int)left));
            o += left > W ? 2 * W : W;
          }
        }
      }
  });
  // Turned, in blocks of input channels whose sums and results stay within few pages.
  constexpr long kTurned = 16;
  const long blocks = (cg + kTurned - 1) / kTurned;
  parallel_for(pool, s.groups * blocks, row_grain(kTurned * taps * og), [&](long begin, long end) {
    for (long item = begin; item < end; item++) {
      const long grp = item / blocks, c0 = item % blocks * kTurned, c1 = c0 + kTurned < cg ? c0 + kTurned : cg;
      for (long o0 = 0; o0 < og; o0 += kTurned) {
        const long count = og - o0 < kTurned ? og - o0 : kTurned;
        for (long c = c0; c < c1; c++)
          for (long k = 0; k < taps; k++) {
            const float *a = acc + (grp * K + k * cg + c) * ld + o0;
            float *at = out + (grp * og + o0) * so + c * si + k / s.kw * sh + k % s.kw * sw;
            for (long o = 0; o < count; o++) at[o * so] = a[o];
          }
      }
    }
  });
}

}  // namespace GH_ISA_NS
}  // namespace gh
