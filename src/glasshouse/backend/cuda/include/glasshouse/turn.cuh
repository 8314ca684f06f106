// turn.cuh: an operand of a product copied so that its depth lies together, in rows that the copy engine can fetch.
//
// Contract
// - `turn_rows(from, wide, to)`: to[o, k] = from(o, k), zeros for k from the depth to `wide`, a multiple of 8. A block of 256 threads copies
//   64 x 64. gridDim: tiles of the depth, tiles of the rows.
#pragma once
#include "gemm.cuh"

namespace gh {

template <class L> GH_FN void turn_rows(const L &from, int wide, typename L::T *to) {
  typedef typename L::T T;
  __shared__ T room[64][66];  // an odd number of words a row: columns lie in different banks
  const int k0 = blockIdx.x * 64, o0 = blockIdx.y * 64;
  for (int i = threadIdx.x; L::across && i < 512; i += 256) {
    const int k = i / 8, o = i % 8 * 8;
    Vec<T, 8> v = {};
    if constexpr (L::whole) {
      const Source<T> source = from.at(from.fix(o0 + o), k0 + k);
      if (source.inside) v = load_vec<8>(source.p);
    } else {
#pragma unroll
      for (int e = 0; e < 8; ++e) v[e] = from.get(o0 + o + e, k0 + k);
    }
#pragma unroll
    for (int e = 0; e < 8; ++e) room[o + e][k] = v[e];
  }
  if constexpr (L::across) __syncthreads();
  for (int i = threadIdx.x; i < 512; i += 256) {
    const int o = i / 8, k = i % 8 * 8;
    if (o0 + o >= from.outer || k0 + k >= wide) continue;
    Vec<T, 8> v;
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      if constexpr (L::across) v[e] = room[o][k + e];
      else v[e] = from.get(o0 + o, k0 + k + e);
    }
    store_vec(to + (int64_t)(o0 + o) * wide + k0 + k, v);
  }
}

}  // namespace gh
