// depthwise.cuh: convolutions of every channel by itself, and their gradients, channels last.
//
// Contract
// - `depthwise<N, P, KW, M, BACK, TURNED>`: N channels from c on, for P pixels of a row from `pixel` on, of a convolution; with BACK of its gradient by
//   the image, of which `s` describes the convolution. Weights are [taps, channels] if TURNED, otherwise [channels, taps]; channels, and
//   pixels of a row, come in Ns and Ps.
//   P > 1: windows move by single steps without gaps, and KW is their width. Results go to `out` by M channels.
// - A tap outside of the image adds nothing, whatever its weight is. Taps are added in order.
// - `depthwise_weight_parts`: a block's sums over `each` pixels for a row of taps: parts[block, taps, channels]. Threads t of a block
//   have pixels t / COLUMNS of each PARTS and N channels from (t % COLUMNS) * N on; a thread adds up each / PARTS products.
#pragma once
#include "conv.cuh"
#include "reduce.cuh"
#include "results.cuh"

namespace gh {

// Where along an axis of the operand tap k of result o lies: anywhere outside if it meets none.
template <bool BACK> GH_FN int tapped(int o, int k, int stride, int begin, int dilation) {
  if constexpr (!BACK) return o * stride - begin + k * dilation;
  const int at = o + begin - k * dilation;
  return at % stride == 0 ? at / stride : -1;
}

template <int N, class T> GH_FN void add_products(Wide<T> (&sums)[N], const Vec<T, N> &a, const Vec<T, N> &b, bool counts) {
#pragma unroll
  for (int u = 0; u < N; ++u) {
    const Wide<T> more = sums[u] + to_scalar(a[u]) * to_scalar(b[u]);
    sums[u] = counts ? more : sums[u];
  }
}

template <int N, bool TURNED, class T> GH_FN Vec<T, N> weights_of(const ConvShape &s, const T *w, int tap, int c) {
  if constexpr (TURNED) return load_vec<N>(w + tap * s.channels + c);
  Vec<T, N> out;
#pragma unroll
  for (int u = 0; u < N; ++u) out[u] = w[(c + u) * s.kernel_height * s.kernel_width + tap];
  return out;
}

template <int N, int P, int KW, int M, bool BACK, bool TURNED, class T, class Out>
GH_FN void depthwise(const ConvShape &s, const T *x, const T *w, int pixel, int c, Out &&out) {
  const int results = BACK ? s.height : s.out_height, row = BACK ? s.width : s.out_width;
  const int height = BACK ? s.out_height : s.height, width = BACK ? s.out_width : s.width;
  const int n = pixel / (results * row), at = pixel - n * results * row, oh = at / row, ow = at - oh * row;
  const T *image = x + (int64_t)n * height * width * s.channels + c;
  Wide<T> sums[P][N] = {};
#pragma unroll 4
  for (int kh = 0; kh < s.kernel_height; ++kh) {
    const int r = tapped<BACK>(oh, kh, s.stride_height, s.begin_height, s.dilation_height);
    const bool near = (unsigned)r < (unsigned)height;
    const T *line = image + (int64_t)r * width * s.channels;
    if constexpr (P == 1) {
#pragma unroll 8
      for (int kw = 0; kw < s.kernel_width; ++kw) {
        const int q = tapped<BACK>(ow, kw, s.stride_width, s.begin_width, s.dilation_width);
        const bool inside = near && (unsigned)q < (unsigned)width;
        Vec<T, N> seen = {};
        if (inside) seen = load_vec<N>(line + (int64_t)q * s.channels);
        add_products(sums[0], seen, weights_of<N, TURNED>(s, w, kh * s.kernel_width + kw, c), inside);
      }
    } else {
      constexpr int SEEN = P + KW - 1;
      const int first = BACK ? ow + s.begin_width - (KW - 1) : ow - s.begin_width;
      Vec<T, N> seen[SEEN];
      bool inside[SEEN];
#pragma unroll
      for (int i = 0; i < SEEN; ++i) {
        inside[i] = near && (unsigned)(first + i) < (unsigned)width;
        seen[i] = {};
        if (inside[i]) seen[i] = load_vec<N>(line + (int64_t)(first + i) * s.channels);
      }
#pragma unroll
      for (int kw = 0; kw < KW; ++kw) {
        const Vec<T, N> tap = weights_of<N, TURNED>(s, w, kh * KW + kw, c);
#pragma unroll
        for (int p = 0; p < P; ++p) {
          const int i = p + (BACK ? KW - 1 - kw : kw);
          add_products(sums[p], seen[i], tap, inside[i]);
        }
      }
    }
  }
#pragma unroll
  for (int p = 0; p < P; ++p)
#pragma unroll
    for (int u = 0; u < N; u += M) {
      Vec<Wide<T>, M> made;
#pragma unroll
      for (int i = 0; i < M; ++i) made[i] = sums[p][u + i];
      once(made, pixel + p, c + u, out);
    }
}

template <int N, int KW, int COLUMNS, int PARTS, class T>
GH_FN void depthwise_weight_parts(const ConvShape &s, const T *x, const T *g, int pixels, int each, double *parts) {
  const int c = (blockIdx.y * COLUMNS + threadIdx.x % COLUMNS) * N, kh = blockIdx.z;
  const bool known = c < s.channels;
  const int begin = blockIdx.x * each, end = begin + each < pixels ? begin + each : pixels;
  const Image<T, false> image{x, s};
  Wide<T> sums[KW][N] = {};
#pragma unroll 2
  for (int pixel = known ? begin + threadIdx.x / COLUMNS : end; pixel < end; pixel += PARTS) {
    const auto at = image.fix(pixel);
    const int row = at.row + kh * s.dilation_height;
    const bool near = (unsigned)row < (unsigned)s.height;
    const Vec<T, N> by = load_vec<N>(g + (int64_t)pixel * s.channels + c);
#pragma unroll
    for (int kw = 0; kw < KW; ++kw) {
      const int column = at.column + kw * s.dilation_width;
      const bool inside = near && (unsigned)column < (unsigned)s.width;
      Vec<T, N> seen = {};
      if (inside) seen = load_vec<N>(at.image + ((int64_t)row * s.width + column) * s.channels + c);
      add_products(sums[kw], seen, by, inside);
    }
  }
#pragma unroll
  for (int kw = 0; kw < KW; ++kw)
#pragma unroll
    for (int u = 0; u < N; ++u) {
      const double sum = across_parts<Sum, COLUMNS, PARTS>((double)sums[kw][u]);
      if (known && threadIdx.x < COLUMNS) parts[((blockIdx.x * s.kernel_height + kh) * KW + kw) * (int64_t)s.channels + c + u] = sum;
    }
}

// Gradient e of weights [channels, taps], from all parts.
template <class T, class Out> GH_FN void depthwise_weight(const double *parts, int count, int taps, int channels, int e, Out &&out) {
  const int c = e / taps, tap = e - c * taps;
  double sum = 0;
#pragma unroll 8
  for (int i = 0; i < count; ++i) sum += parts[((int64_t)i * taps + tap) * channels + c];
  out(e, Vec<Wide<T>, 1>{{(Wide<T>)sum}});
}

}  // namespace gh
