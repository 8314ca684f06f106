// threadpool.h: a persistent pool that runs one function on every thread, with a static, deterministic split of the work.
//
// Contract
// - `ThreadPool pool(n)`: n threads in all, the caller being thread 0; n - 1 workers are started. `set_threads(n)` while idle.
// - `pool.run(f)` calls f(t, n) once for each t in [0, n) and returns when all are done; what one run wrote, the next sees.
//   f must not throw. The split of work depends on n alone, so results do not depend on timing. Part t is worker t's, unless the
//   caller is done with its own before that worker has woken: then the caller takes it (a busy machine costs time, not a stall).
// - `parallel_for(pool, total, grain, f)`: f(begin, end) on contiguous ranges, at most one a thread, each at least `grain` long;
//   with a single range, f runs on the caller and no thread is woken. `share_out`: many items a thread, unequal speeds evened out.
// - Safe from several threads at once and when nested: whoever finds the pool busy runs its n parts itself, in order
//   (same split, same results, nobody blocks). Where as many callers as threads are at work, or were 0.5 ms ago, each runs its parts
//   alone: workers would only take their processors, and a region whose worker has to wait for one holds its caller up.
// - Idle workers spin for 50 us and then sleep on a futex, so they do not fight other runtimes for the cores. A region costs about
//   0.5 us while they spin, 5 to 50 us when they sleep: `linger(us)` lets them spin longer behind the regions that follow, for a
//   caller who knows that it will be back. The waiting caller spins, then yields.
// - After fork() the child has no workers: the first region there starts new ones, whatever the parent's threads were doing.
#pragma once
#include "vec.h"
#include <atomic>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

namespace gh {
inline namespace GH_ISA_NS {

GH_INLINE void cpu_relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

class ThreadPool {
 public:
  static constexpr int kMaxThreads = 256;
  static constexpr int kSpinUs = 50;

  explicit ThreadPool(int threads) { start(threads); }
  ~ThreadPool() { stop(); }
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  void linger(int us) { spin_us_.store(us > 0 ? us : kSpinUs, std::memory_order_relaxed); }
  int size() const { return threads_.load(std::memory_order_relaxed); }
  // Waits for the region that is under way. Regions that begin meanwhile may have counted on the old number: see `run_parts`.
  void set_threads(int threads) {
    if (threads == size()) return;
    while (!is_mine() || busy_.exchange(1, std::memory_order_acquire)) sched_yield();
    stop();
    start(threads);
    busy_.store(0, std::memory_order_release);
  }

  template <class F>
  GH_INLINE void run(F &&f) {
    run_work(
        [](void *ctx, int t, int n) {
          bool &nested = in_region();
          const bool before = nested;
          nested = true;
          (*(__typeof__(&f))ctx)(t, n);
          nested = before;
        },
        (void *)&f);
  }

  // f(part, parts) once for each part, however many threads there are by now.
  template <class F>
  void run_parts(int parts, F &&f) {
    run([&](int t, int n) {
      for (int part = t; part < parts; part += n) f(part, parts);
    });
  }

 private:
  typedef void (*Work)(void *, int, int);

  alignas(64) std::atomic<uint32_t> epoch_{0};
  std::atomic<int> sleepers_{0};
  Work work_ = nullptr;
  void *ctx_ = nullptr;
  std::atomic<bool> quit_{false};
  alignas(64) std::atomic<int> pending_{0};
  alignas(64) std::atomic<int> busy_{0};
  std::atomic<int> threads_{1};
  std::atomic<int> owner_{0};  // the process whose threads the workers are; -p while process p is starting its own
  std::atomic<int> spin_us_{kSpinUs};
  // Whether this thread computes a part of a region now.
  static bool &in_region() {
    static thread_local bool inside = false;
    return inside;
  }
  std::atomic<int> inside_{0};  // callers whose regions are under way, with workers or alone
  std::atomic<int64_t> crowded_{0};  // until when callers run alone; 0: they need not
  bool is_crowded(int others) {
    if (others + 1 >= size()) {
      crowded_.store(now_ns() + 500000, std::memory_order_relaxed);
      return true;
    }
    const int64_t until = crowded_.load(std::memory_order_relaxed);
    if (!until || now_ns() < until) return until;
    crowded_.store(0, std::memory_order_relaxed);
    return false;
  }
  struct Inside {
    std::atomic<int> &all;
    const int count;  // of others
    explicit Inside(std::atomic<int> &a) : all(a), count(a.fetch_add(1, std::memory_order_relaxed)) {}
    ~Inside() { all.fetch_sub(1, std::memory_order_relaxed); }
  };
  struct alignas(64) Claim { std::atomic<uint32_t> epoch{0}; };
  Claim claims_[kMaxThreads];  // the epoch whose part t has been taken; goes up by one with each region
  struct Start { ThreadPool *pool; int index; uint32_t epoch; } starts_[kMaxThreads];
  pthread_t ids_[kMaxThreads];

  // One function for all regions, which calls each through a pointer: written out at five places in each kernel, a region's body
  // cost a fifth of the time that g++ takes.
  GH_NOINLINE void run_work(Work work, void *ctx) {
    if (size() == 1) {
      work(ctx, 0, 1);
      return;
    }
    if (in_region()) {  // nested: no caller more
      const int n = size();
      for (int t = 0; t < n; t++) work(ctx, t, n);
      return;
    }
    const bool mine = is_mine();
    const Inside others(inside_);
    if (!mine || is_crowded(others.count) || busy_.exchange(1, std::memory_order_acquire)) {
      const int n = size();
      for (int t = 0; t < n; t++) work(ctx, t, n);
      return;
    }
    const int n = size();  // does not change while the pool is busy
    work_ = work;
    ctx_ = ctx;
    pending_.store(n - 1, std::memory_order_relaxed);
    const uint32_t e = epoch_.fetch_add(1, std::memory_order_seq_cst) + 1;
    if (sleepers_.load(std::memory_order_seq_cst)) wake_all();
    work(ctx, 0, n);
    int own = 0;
    for (int t = 1; t < n; t++)
      if (claim(t, e)) work(ctx, t, n), own++;
    if (own) pending_.fetch_sub(own, std::memory_order_acq_rel);
    wait_done();
    busy_.store(0, std::memory_order_release);
  }
  static int64_t now_ns() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
  }
  void sleep_while(uint32_t seen) {
#if defined(__linux__)
    syscall(SYS_futex, (uint32_t *)&epoch_, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
#else
    (void)seen;
    timespec t{0, 50000};
    nanosleep(&t, nullptr);
#endif
  }
  void wake_all() {
#if defined(__linux__)
    syscall(SYS_futex, (uint32_t *)&epoch_, FUTEX_WAKE_PRIVATE, kMaxThreads, nullptr, nullptr, 0);
#endif
  }
  // About 2 us of pauses between looks at the clock.
  uint32_t wait_epoch(uint32_t seen) {
    int64_t end = 0;
    for (;;) {
      for (int i = 0; i < 64; i++) {
        uint32_t e = epoch_.load(std::memory_order_acquire);
        if (e != seen) return e;
        cpu_relax();
      }
      int64_t t = now_ns();
      if (!end) end = t + (int64_t)spin_us_.load(std::memory_order_relaxed) * 1000;
      if (t >= end) break;
    }
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    uint32_t e;
    while ((e = epoch_.load(std::memory_order_seq_cst)) == seen) sleep_while(seen);
    sleepers_.fetch_sub(1, std::memory_order_seq_cst);
    return e;
  }
  void wait_done() {
    for (int i = 0; pending_.load(std::memory_order_acquire); i++) {
      if (i < 20000) cpu_relax();
      else sched_yield();
    }
  }
  // A successful claim keeps the region open (its part is pending), so work_ and ctx_ are valid after it, not before.
  bool claim(int t, uint32_t e) {
    uint32_t before = e - 1;
    return claims_[t].epoch.compare_exchange_strong(before, e, std::memory_order_acq_rel);
  }
  static void *worker(void *arg) {
    Start s = *(Start *)arg;
    ThreadPool &p = *s.pool;
    for (uint32_t seen = s.epoch;;) {
      seen = p.wait_epoch(seen);
      if (p.quit_.load(std::memory_order_acquire)) return nullptr;
      if (!p.claim(s.index, seen)) continue;
      p.work_(p.ctx_, s.index, p.size());
      p.pending_.fetch_sub(1, std::memory_order_release);
    }
  }
  // False in a forked child while another of its threads starts new workers. At the fork a region may have been under way, and
  // the workers are gone.
  bool is_mine() {
    const int me = (int)getpid();
    int owner = owner_.load(std::memory_order_acquire);
    if (owner == me) return true;
    if (owner == -me || !owner_.compare_exchange_strong(owner, -me, std::memory_order_acq_rel)) return false;
    sleepers_.store(0);
    busy_.store(0);
    inside_.store(0);
    start(size());
    return true;
  }
  void start(int threads) {
    threads_ = 1;
    int want = threads < 1 ? 1 : threads > kMaxThreads ? kMaxThreads : threads;
    uint32_t e = epoch_.load();
    quit_ = false;
    for (int t = 1; t < want; t++) {
      claims_[t].epoch = e;
      starts_[t] = {this, t, e};
      if (pthread_create(&ids_[t], nullptr, worker, &starts_[t])) break;  // no more threads: run with what there is
      threads_ = t + 1;
    }
    owner_.store((int)getpid(), std::memory_order_release);
  }
  void stop() {
    if ((int)getpid() != owner_.load()) return;  // forked child: nobody to join
    quit_ = true;
    epoch_.fetch_add(1, std::memory_order_seq_cst);
    wake_all();
    for (int t = 1, n = size(); t < n; t++) pthread_join(ids_[t], nullptr);
    threads_ = 1;
  }
};

// The range of part t of n when `total` items are dealt out contiguously, sizes differing by at most one.
struct Range { long begin, end; };
GH_INLINE Range split(long total, long t, long n) {
  long q = total / n, r = total % n;
  long b = t * q + (t < r ? t : r);
  return {b, b + q + (t < r ? 1 : 0)};
}

template <class F>
GH_INLINE void parallel_for(ThreadPool &pool, long total, long grain, F &&f) {
  long parts = grain > 0 ? total / grain : total;
  if (parts > pool.size()) parts = pool.size();
  if (parts <= 1) {
    if (total > 0) f(0L, total);
    return;
  }
  pool.run_parts((int)parts, [&](int t, int) {
    Range r = split(total, t, parts);
    f(r.begin, r.end);
  });
}

// f(part, item, state) for every part in [0, parts) and item in [0, items); `state` is a State of the thread's own. Part t is
// thread t's; whoever is done with its own takes what others have not begun, so that a thread which is slow, late or interrupted
// holds nobody up. Who computes an item is a matter of timing: what it computes must not be.
template <class State, class F>
GH_INLINE void share_out(ThreadPool &pool, int parts, int items, F &&f) {
  struct alignas(64) Next { std::atomic<int> item; };
  Next next[ThreadPool::kMaxThreads];
  for (int t = 0; t < parts; t++) next[t].item.store(0, std::memory_order_relaxed);
  pool.run([&](int t, int) {
    State state{};
    for (int i = 0; i < parts; i++) {
      const int part = (t + i) % parts;
      for (int item; (item = next[part].item.fetch_add(1, std::memory_order_relaxed)) < items;) f(part, item, state);
    }
  });
}

// Memory of the calling thread that grows and is kept: packing buffers. Contents do not survive the next call with the same slot.
// Pages of their own, so that those of a buffer which grew go back: the heap of a worker kept them (1 MB each for a Llama's products).
template <int Slot = 0>
inline void *scratch(size_t bytes) {
  struct Buffer {
    void *p = nullptr;
    size_t size = 0;
    void release() {
      if (p) munmap(p, size);
      p = nullptr, size = 0;
    }
    ~Buffer() { release(); }
  };
  static thread_local Buffer b;
  if (bytes > b.size) {
    b.release();
    const size_t want = (bytes + 4095) / 4096 * 4096;
    void *made = mmap(nullptr, want, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) abort();  // out of memory inside a kernel: nothing sensible is left to do
    b.p = made, b.size = want;
  }
  return b.p;
}

}  // namespace GH_ISA_NS
}  // namespace gh
