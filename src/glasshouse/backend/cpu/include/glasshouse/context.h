// context.h: what a generated kernel is given: threads, and a place to report that its data is at fault.
#pragma once
#include "element.h"
#include "threadpool.h"

namespace gh {
inline namespace GH_ISA_NS {

constexpr int kBadIndex = 1, kDivisionByZero = -1;  // the sign of what a run returns

// f(first, rows) over rows from begin to end, in fours, then one by one; `rows.n` is a constant.
template <int N> struct Rows { static constexpr int n = N; };
template <class F>
GH_INLINE void each_four(int64_t begin, int64_t end, F &&f) {
  for (; begin + 4 <= end; begin += 4) f(begin, Rows<4>{});
  for (; begin < end; ++begin) f(begin, Rows<1>{});
}

struct Context {
  ThreadPool *pool;
  std::atomic<int> fault{0};  // kBadIndex or kDivisionByZero, once there was one

  // f(begin, end) over [0, total), shared among the threads when `worth` says that it pays.
  template <class F>
  GH_INLINE void parallel(int64_t total, bool worth, F &&f) {
    if (worth && total > 1)
      parallel_for(*pool, (long)total, 1, [&](long begin, long end) {
        const auto own = f;  // what it captured lies in registers then: nobody else can know the address
        own((int64_t)begin, (int64_t)end);
      });
    else if (total > 0)
      f((int64_t)0, total);
  }

  // An index from data: negative ones count from the end. One outside is noted and replaced by 0, so that no kernel reads
  // outside of its buffers; the caller turns the note into an error.
  GH_INLINE int64_t index(int64_t i, int64_t size) {
    if (__builtin_expect((uint64_t)i < (uint64_t)size, 1)) return i;
    if (i < 0 && i + size >= 0) return i + size;
    return index_outside();
  }
  // The same where nothing may be done for one outside.
  GH_INLINE int64_t index(int64_t i, int64_t size, bool &inside) {
    if (i < -size || i >= size) inside = false;
    return index(i, size);
  }

  GH_NOINLINE __attribute__((cold)) int64_t index_outside() {
    fault.store(kBadIndex, std::memory_order_relaxed);
    return 0;
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
