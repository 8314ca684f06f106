// cluster.cuh: blocks of a cluster (from sm_90 on): barriers in shared memory, runs of bytes that several blocks receive at once,
// shared memory of the neighbours.
//
// Contract
// - A `Barrier` is ready for its first round after `barrier_begins(barrier, members)` by one thread and `cluster_meets`. A round ends
//   when all members have arrived and all expected bytes are there; `wait_round(barrier, parity)` returns when the round of that
//   parity (0 for the first, 1 for the next, ...) has ended; asked for 1 before the first round has, it returns at once.
// - `arrive_when_copied`: an arrival once all that this thread has copied (`copy16`) is there.
// - `expect_bytes`: one arrival, and so many bytes to come. `copy_to_blocks<BLOCKS>`: bytes (a multiple of 16, both ends aligned to 16)
//   go to the same place in each of BLOCKS blocks and count at the same barrier there.
// - `in_block(p, rank)`: where `p`, a place in this block's shared memory, is in that of block `rank` of the cluster. A block must not
//   end while others may still read or write its memory: `cluster_meets` is also the last thing that it does.
#pragma once
#include "mma.cuh"

namespace gh {

#ifndef GH_EMULATE
struct alignas(8) Barrier { uint64_t state; };
#if __CUDA_ARCH__ >= 900
GH_FN void barrier_begins(Barrier *b, int members) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(b)), "r"(members) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
GH_FN void arrive(Barrier *b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(b)) : "memory");
}
GH_FN void arrive_in_block(Barrier *b, int rank) {
  asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\nmbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n}"
               ::"r"(shared_address(b)), "r"(rank) : "memory");
}
GH_FN void arrive_when_copied(Barrier *b) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(b)) : "memory");
}
GH_FN void expect_bytes(Barrier *b, int count) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(b)), "r"(count) : "memory");
}
GH_FN void wait_round(Barrier *b, int parity) {
  uint32_t done;
  do {
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done) : "r"(shared_address(b)), "r"(parity) : "memory");
  } while (!done);
}
template <int BLOCKS> GH_FN void copy_to_blocks(void *shared, const void *global, int count, Barrier *b) {
  if constexpr (BLOCKS == 1)
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(shared_address(shared)), "l"(global), "r"(count), "r"(shared_address(b)) : "memory");
  else
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;"
                 ::"r"(shared_address(shared)), "l"(global), "r"(count), "r"(shared_address(b)), "h"((uint16_t)((1 << BLOCKS) - 1))
                 : "memory");
}
GH_FN int cluster_rank() { int r; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
GH_FN void cluster_meets() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
template <class T> GH_FN T *in_block(T *p, int rank) {
  uint64_t there;
  asm volatile("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(p), "r"(rank));
  return (T *)there;
}
#else
GH_FN void cluster_meets() {}
template <class T> GH_FN T *in_block(T *p, int) { return p; }
#endif
// Registers of the threads of a warpgroup from here on: some give away what others take.
template <int COUNT> GH_FN void registers_less() {
#if __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
#endif
}
template <int COUNT> GH_FN void registers_more() {
#if __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
#endif
}
#endif

}  // namespace gh
