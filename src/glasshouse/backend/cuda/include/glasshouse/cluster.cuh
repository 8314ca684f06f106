// cluster.cuh: blocks of a cluster (from sm_90 on): barriers in shared memory, shared memory of the neighbours.
//
// Contract
// - A `Barrier` is ready for its first round after `barrier_begins(barrier, members)` by one thread and a barrier of the block. A round ends
//   when all members have arrived and all expected bytes are there; `wait_round(barrier, parity)` returns when the round of that
//   parity (0 for the first, 1 for the next, ...) has ended; asked for 1 before the first round has, it returns at once.
// - `expect_bytes`: one arrival, and so many bytes to come.
// - `in_block(p, rank)`: where `p`, a place in this block's shared memory, is in that of block `rank` of the cluster. A block must not
//   end while others may still read or write its memory: `cluster_meets` is also the last thing that it does then.
// - `cluster_arrives` and `cluster_waits<true>` are the two halves of `cluster_meets`; `cluster_waits<false>` is all of it.
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
GH_FN void cluster_meets() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
GH_FN void cluster_arrives() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
template <bool ARRIVED> GH_FN void cluster_waits() {
  if constexpr (ARRIVED) asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
  else cluster_meets();
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
#endif

}  // namespace gh
