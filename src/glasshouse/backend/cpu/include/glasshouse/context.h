// context.h: what a generated kernel is given: threads, and a place to report that an index lay outside its tensor.
#pragma once
#include "element.h"
#include "threadpool.h"

namespace gh {
inline namespace GH_ISA_NS {

struct Context {
  ThreadPool *pool;
  std::atomic<int> bad_index{0};

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
    bad_index.store(1, std::memory_order_relaxed);
    return 0;
  }
};

}  // namespace GH_ISA_NS
}  // namespace gh
