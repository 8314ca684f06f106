// launch.cuh: what every kernel is given, and how it begins and ends beside its neighbours in a graph.
//
// Contract
// - Kernels of a graph overlap at their ends (programmatic dependent launch, from sm_90 on): after `let_next_begin` by all blocks, those
//   of the next kernel may be placed on the chip. `wait_for_earlier` returns when all that came before has ended and can be seen: nothing
//   but constants is read before it, and nothing is written. Every thread of every kernel calls it, so that waiting for the last kernel is
//   waiting for all.
// - Profiles read the chip's clock: `wait_for_earlier` notes the least time at which a block came past it, `Ending` the latest at
//   which one ended. A few blocks of a large grid note it, the first and the last that are placed, the end by each of their
//   warpgroups; where nobody asks, nothing is noted.
#pragma once
#include "element.cuh"

namespace gh {

struct Context {
  int *fault;          // the first step with a fault, counted from 1; negative: a division by zero; 0: none
  unsigned *counters;  // of this launch, 0 between kernels
  int64_t step;
  unsigned long long *times;  // of this launch, 0 before it; null: nobody asks
  GH_FN void report(int sign) const { atomicCAS(fault, 0, sign * ((int)step + 1)); }
  // An index from data: negative ones count from the end. One outside is reported and replaced by 0.
  GH_FN int64_t index(int64_t i, int64_t size) const {
    if (i < 0) i += size;
    if (i >= 0 && i < size) return i;
    report(1);
    return 0;
  }
  // Integers divided by zero are reported and give 0.
  template <class T> GH_FN T floor_div(T a, T b) const {
    if (b == 0) report(-1);
    return gh::floor_div(a, b);
  }
  template <class T> GH_FN T floor_mod(T a, T b) const {
    if (b == 0) report(-1);
    return gh::floor_mod(a, b);
  }
};

#ifndef GH_EMULATE
GH_FN unsigned long long nanoseconds() { unsigned long long t; asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t)); return t; }
#endif
GH_FN unsigned block_number() { return (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x; }

// Asks for constants before the wait: bytes into the second-level cache, in 16s, from an address that is a multiple of 16.
GH_FN void prefetch_bytes(const void *p, int count) {
#if !defined(GH_EMULATE) && __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(p), "r"(count & ~15) : "memory");
#endif
}
// A small constant of the whole kernel: one thread asks for it.
GH_FN void prefetch_constant(const void *p, int count) {
  if (block_number() == 0 && threadIdx.x == 0) prefetch_bytes(p, count);
}
GH_FN void let_next_begin() {
#if !defined(GH_EMULATE) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
// The beginning is noted as its complement, so that the largest counts there too.
GH_FN void wait_for_earlier(const Context &ctx) {
#if !defined(GH_EMULATE) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  if (ctx.times && threadIdx.x == 0 && block_number() < 64) atomicMax(ctx.times, ~nanoseconds());
}
// Stands first in a kernel, so that it goes last, wherever a thread returns.
struct Ending {
  unsigned long long *times;
  GH_FN explicit Ending(const Context &ctx) : times(ctx.times) {}
  GH_FN ~Ending() {
    if (times && threadIdx.x % 128 == 0 && gridDim.x * gridDim.y * gridDim.z - block_number() <= 1024) atomicMax(times + 1, nanoseconds());
  }
};

}  // namespace gh
