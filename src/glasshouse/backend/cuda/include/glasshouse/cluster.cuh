// cluster.cuh: blocks of a cluster (from sm_90 on): barriers in shared memory, shared memory of the neighbours.
//
// Contract
// - A `Barrier` is ready for its first round after `barrier_begins(barrier, members)` by one thread and a barrier of the block. A round ends
//   when all members have arrived and all expected bytes are there; `wait_round(barrier, parity)` returns when the round of that
//   parity (0 for the first, 1 for the next, ...) has ended; asked for 1 before the first round has, it returns at once.
// - `expect_bytes`: one arrival, and so many bytes to come.
// - `in_block(p, rank)`: where `p`, a place in this block's shared memory, is in that of block `rank` of the cluster. A block must not
//   end while others may still read or write its memory: `cluster_meets` is also the last thing that it does then.
// - `cluster_arrives`, then `cluster_waits`: the second returns when all threads of all blocks have called the first, so that barriers which
//   were made ready before can be reached. What was stored otherwise need not be seen: that costs `cluster_meets` a fence of the whole chip,
//   about 1 us. So what blocks tell each other goes by barriers: `arrive_in_block` at that of another block, `send_to_block` with
//   one or four numbers whose bytes count there; nothing of it is fenced (`.release.cluster`, too, is that fence).
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
GH_FN void cluster_arrives() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
GH_FN void cluster_waits() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }
GH_FN uint32_t address_in_block(const void *p, int rank) {
  uint32_t there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(p)), "r"(rank));
  return there;
}
GH_FN void arrive_in_block(Barrier *b, int rank) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(address_in_block(b, rank)) : "memory");
}
GH_FN void send_to_block(float *to, float x, Barrier *b, int rank) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(address_in_block(to, rank)), "f"(x),
               "r"(address_in_block(b, rank))
               : "memory");
}
GH_FN void send_to_block(float *to, const Vec<float, 4> &x, Barrier *b, int rank) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];"
               ::"r"(address_in_block(to, rank)), "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3]), "r"(address_in_block(b, rank)) : "memory");
}
template <class T> GH_FN T *in_block(T *p, int rank) {
  uint64_t there;
  asm volatile("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(p), "r"(rank));
  return (T *)there;
}
#else  // there are no clusters: what is never called has a name
GH_FN void barrier_begins(Barrier *, int) {}
GH_FN void expect_bytes(Barrier *, int) {}
GH_FN void wait_round(Barrier *, int) {}
GH_FN void cluster_arrives() {}
GH_FN void cluster_waits() {}
GH_FN void send_to_block(float *, float, Barrier *, int) {}
GH_FN void cluster_meets() {}
template <class T> GH_FN T *in_block(T *p, int) { return p; }
#endif
#endif

}  // namespace gh
