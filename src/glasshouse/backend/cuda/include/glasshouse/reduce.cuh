// reduce.cuh: folds that the lanes of a warp, or the threads of a block, compute together.
//
// Contract
// - Every thread of the group calls with its part and gets the whole. The order of the steps is fixed, so a result does not change
//   from run to run.
// - `across_block` uses 32 words of its own shared memory and ends with all threads free to use it again. So does `across_parts`, with a word for
//   each thread: thread t of a block has part t / COLUMNS of column t % COLUMNS.
#pragma once
#include "launch.cuh"

namespace gh {

struct Sum { template <class T> GH_FN static T step(T a, T x) { return a + x; } };
struct Prod { template <class T> GH_FN static T step(T a, T x) { return a * x; } };
struct Max { template <class T> GH_FN static T step(T a, T x) { return gh::max(a, x); } };
struct Min { template <class T> GH_FN static T step(T a, T x) { return gh::min(a, x); } };
struct Any { template <class T> GH_FN static T step(T a, T x) { return a | x; } };
struct All { template <class T> GH_FN static T step(T a, T x) { return a & x; } };

template <class T> GH_FN T shuffle_xor(T x, int mask) {
  if constexpr (sizeof(T) < 4) return (T)__shfl_xor_sync(0xffffffffu, (int)x, mask);
  else return __shfl_xor_sync(0xffffffffu, x, mask);
}
template <class Op, class T> GH_FN T across_warp(T x) {
#pragma unroll
  for (int mask = 16; mask; mask >>= 1) x = Op::step(x, shuffle_xor(x, mask));
  return x;
}
template <class Op, int THREADS, class T> GH_FN T across_block(T x) {
  __shared__ double room[32];
  T *parts = (T *)room;
  x = across_warp<Op>(x);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
  __syncthreads();
  x = parts[0];
#pragma unroll
  for (int i = 1; i < THREADS / 32; ++i) x = Op::step(x, parts[i]);
  __syncthreads();
  return x;
}

template <class Op, int COLUMNS, int PARTS, class T> GH_FN T across_parts(T x) {
  __shared__ double room[COLUMNS * PARTS];
  T *parts = (T *)room;
  parts[threadIdx.x] = x;
  __syncthreads();
  x = parts[threadIdx.x % COLUMNS];
#pragma unroll 8
  for (int i = 1; i < PARTS; ++i) x = Op::step(x, parts[i * COLUMNS + threadIdx.x % COLUMNS]);
  __syncthreads();
  return x;
}

}  // namespace gh
