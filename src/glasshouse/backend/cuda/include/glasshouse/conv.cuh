// conv.cuh: the image of a convolution as the first operand of a matrix product (implicit im2col), channels last.
//
// Contract
// - Row m of `Image` is the pixel (n, oh, ow) of the result, column k the tap (kh, kw) and channel, channels fastest; what lies in
//   the padding is 0. `WHOLE`: channels of a group come in eights, aligned to 16 bytes.
// - `Runs<T, RUN>`: the same of an image with four channels and its padding in memory, whose windows have an even stride: a row of a window
//   is RUN elements one after the other.
// - `ConvShape`: x [batch, height, width, channels], a result of [batch, out_height, out_width, ...]; `group` the channels of one.
#pragma once
#include "gemm.cuh"

namespace gh {

struct ConvShape {
  int batch, height, width, channels, out_height, out_width;
  int kernel_height, kernel_width, stride_height, stride_width, begin_height, begin_width, dilation_height, dilation_width, group;
};

template <class T_, bool WHOLE> struct Image {
  typedef T_ T;
  static constexpr bool across = false, whole = WHOLE;
  static constexpr int FAR = -(1 << 30);  // the row of no image: no tap brings it inside
  struct Fixed { const T *image; int row, column; };
  const T *p;
  ConvShape s;
  GH_FN Fixed fix(int m) const {
    const int pixels = s.out_height * s.out_width, n = m / pixels, at = m - n * pixels;
    const int oh = at / s.out_width, ow = at - oh * s.out_width;
    const T *image = p + (int64_t)n * s.height * s.width * s.channels;
    const int row = oh * s.stride_height - s.begin_height;
    return {image, n < s.batch ? row : FAR, ow * s.stride_width - s.begin_width};
  }
  GH_FN Source<T> at(Fixed f, int k) const {
    const int tap = k / s.group, c = k - tap * s.group, kh = tap / s.kernel_width, kw = tap - kh * s.kernel_width;
    const int row = f.row + kh * s.dilation_height, column = f.column + kw * s.dilation_width;
    const bool inside = kh < s.kernel_height && (unsigned)row < (unsigned)s.height && (unsigned)column < (unsigned)s.width;
    return {f.image + ((int64_t)row * s.width + column) * s.channels + c, inside};
  }
  GH_FN T get(int m, int k) const { return at(fix(m), k).value(); }
};

template <class T_, int RUN> struct Runs {
  typedef T_ T;
  static constexpr bool across = false, whole = true;
  typedef Source<T> Fixed;
  const T *p;
  int rows, out_height, out_width, height, width, stride_height, stride_width, dilation, depth;
  GH_FN Fixed fix(int m) const {
    const int pixels = out_height * out_width, n = m / pixels, at = m - n * pixels, oh = at / out_width, ow = at - oh * out_width;
    return {p + (((int64_t)n * height + oh * stride_height) * width + ow * stride_width) * 4, m < rows};
  }
  GH_FN Source<T> at(Fixed f, int k) const { return {f.p + k / RUN * dilation * width * 4 + k % RUN, f.inside && k < depth}; }
};

}  // namespace gh
