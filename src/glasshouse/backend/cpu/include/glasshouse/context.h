// context.h: what a generated kernel is given: threads, and a place to report that its data is at fault.
#pragma once
#include "element.h"
#include "threadpool.h"

namespace gh {
inline namespace GH_ISA_NS {

constexpr int kBadIndex = 1, kDivisionByZero = -1;  // the sign of what a run returns

struct Context {
  ThreadPool *pool;
  std::atomic<int> fault{0};  // kBadIndex or kDivisionByZero, once there was one

  // f(begin, end) over [0, total), shared among the threads when `worth` says that it pays.
  template <class F>
  GH_INLINE void parallel(int64_t total, bool worth, F &&f) {
    if (worth && total > 1)
      parallel_for(*pool, (long)total, 1, [&](long begin, long end) { f((int64_t)begin, (int64_t)end); });
    else if (total > 0)
      f((int64_t)0, total);
  }

  // An index from data: negative ones count from the end. One outside is noted and replaced by 0, so that no kernel reads
  // outside of its buffers; the caller turns the note into an error.
  GH_INLINE int64_t index(int64_t i, int64_t size) {
    if (i < 0) i += size;
    if (i >= 0 && i < size) return i;
    fault.store(kBadIndex, std::memory_order_relaxed);
    return 0;
  }
  // The same where nothing may be done for one outside.
  GH_INLINE int64_t index(int64_t i, int64_t size, bool &inside) {
    if (i < -size || i >= size) inside = false;
    return index(i, size);
  }

  // Integers divided by zero are noted and give 0. A divisor that is a literal costs no test.
  template <class T>
  GH_INLINE T floor_div(T a, T b) {
    if (b == 0) fault.store(kDivisionByZero, std::memory_order_relaxed);
    return gh::floor_div(a, b);
  }
  template <class T>
  GH_INLINE T floor_mod(T a, T b) {
    if (b == 0) fault.store(kDivisionByZero, std::memory_order_relaxed);
    return gh::floor_mod(a, b);
  }
};

}  // namespace GH_ISA_NS
}  // namespace gh
