// norm_grad.cuh: gradients of the weight and bias of a layer norm: columns of g * x^ and of g, added up over all rows.
//
// Contract
// - x, g [rows, columns], row by row; x^ is x with mean 0 and variance 1 in its row, computed again. VEC neighbours are moved at once (columns
//   a multiple of it), PER times 32 * VEC columns a warp.
// - `norm_weight_parts`: a warp takes a row at a time, a block of WARPS warps every gridDim.x-th eight of them; the block's sums go to
//   parts [gridDim.x, 2, columns].
// - `norm_weight_sums`: adds the parts up, 32 columns a block of 256 threads. gridDim: columns / 32, 2. All in one order.
#pragma once
#include "reduce.cuh"

namespace gh {

template <int VEC, int PER, int WARPS, class T>
GH_FN void norm_weight_parts(const T *g, const T *x, int64_t rows, int columns, float eps, float *parts) {
  __shared__ float room[WARPS][32 * VEC];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float scales[PER * VEC] = {}, shifts[PER * VEC] = {};
  for (int64_t row = (int64_t)blockIdx.x * WARPS + warp; row < rows; row += (int64_t)gridDim.x * WARPS) {
    float a[PER * VEC], h[PER * VEC], sum = 0.0f;
#pragma unroll
    for (int p = 0; p < PER; ++p) {
      const int c = (p * 32 + lane) * VEC;
      Vec<T, VEC> va = {}, vh = {};
      if (c < columns) va = load_vec<VEC>(x + row * columns + c), vh = load_vec<VEC>(g + row * columns + c);
#pragma unroll
      for (int e = 0; e < VEC; ++e) {
        a[p * VEC + e] = to_scalar(va[e]), h[p * VEC + e] = to_scalar(vh[e]);
        sum += a[p * VEC + e];
      }
    }
    const float mean = across_warp<Sum>(sum) / columns;
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < PER * VEC; ++i)
      if ((i / VEC * 32 + lane) * VEC < columns) squares += (a[i] - mean) * (a[i] - mean);
    const float r = rsqrt(across_warp<Sum>(squares) / columns + eps);
#pragma unroll
    for (int i = 0; i < PER * VEC; ++i) scales[i] += h[i] * ((a[i] - mean) * r), shifts[i] += h[i];
  }
#pragma unroll
  for (int which = 0; which < 2; ++which)
#pragma unroll
    for (int p = 0; p < PER; ++p) {
#pragma unroll
      for (int e = 0; e < VEC; ++e) room[warp][lane * VEC + e] = which ? shifts[p * VEC + e] : scales[p * VEC + e];
      __syncthreads();
      for (int c = threadIdx.x; c < 32 * VEC; c += WARPS * 32) {
        float sum = room[0][c];
#pragma unroll
        for (int w = 1; w < WARPS; ++w) sum += room[w][c];
        if (p * 32 * VEC + c < columns) parts[((int64_t)blockIdx.x * 2 + which) * columns + p * 32 * VEC + c] = sum;
      }
      __syncthreads();
    }
}

template <class T> GH_FN void norm_weight_sums(const float *parts, int64_t count, int columns, T *scale, T *shift) {
  __shared__ double room[8][32];
  const int lane = threadIdx.x % 32, own = threadIdx.x / 32, c = blockIdx.x * 32 + lane;
  double sum = 0.0;
  for (int64_t i = own; c < columns && i < count; i += 8) sum += parts[(i * 2 + blockIdx.y) * columns + c];
  room[own][lane] = sum;
  __syncthreads();
  if (own == 0 && c < columns) {
    for (int i = 1; i < 8; ++i) sum += room[i][lane];
    (blockIdx.y ? shift : scale)[c] = from_scalar<T>(Wide<T>(sum));
  }
}

}  // namespace gh
