// program.h: what all programs have alike around the calls of their kernels: the context of a run, threads, stamps of data.
//
// Contract: a generated program defines `glasshouse_steps` and is linked with program.cpp, built once with the same flags. Without
// -DGH_EXTERN_KERNELS (extern.h) this header brings the code along. A program whose file has declarations alone takes 0.03 s to
// compile; with the kernels' headers, parsed in advance, and the pool it took 0.14 s.
#pragma once
#include "isa.h"
#if !defined(GH_EXTERN_KERNELS)
#include "context.h"
#include <new>
#include <time.h>
#endif

namespace gh {
inline namespace GH_ISA_NS {
struct Context;
class ThreadPool;
}  // namespace GH_ISA_NS
}  // namespace gh

#define GH_PROGRAM extern "C" __attribute__((visibility("default")))

// Calls the kernels of steps `from` to `to`, without `to`; seconds are added to `times`, unless null. 0, or `*fault` (the context's)
// times the number of its step, from 1: negative for a division by zero. The program's own.
extern "C" int glasshouse_steps(
    gh::Context &ctx, const int *fault, void *const *table, char *arena, const int64_t *sizes, int from, int to, double *times);
extern "C" double glasshouse_seconds();

GH_PROGRAM int glasshouse_run(
    void *pool, void *const *table, char *arena, const int64_t *sizes, int from, int to, double *times);
// All that a run needs in one place, where times go, or null, and how long the pool's threads wait for the next run, or 0:
// Python passes one argument in 0.15 us, seven in 0.32.
GH_PROGRAM int glasshouse_call(void *const *a);
GH_PROGRAM void *glasshouse_pool(int threads);
GH_PROGRAM void glasshouse_end_pool(void *pool);
GH_PROGRAM void glasshouse_set_threads(void *pool, int threads);
// A hash of eight words of each piece, or of all of one that is at most a page: 200 weights take 1,600 reads.
GH_PROGRAM uint64_t glasshouse_stamp(const char *const *at, const int64_t *bytes, int count);

#if !defined(GH_EXTERN_KERNELS)
double glasshouse_seconds() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int glasshouse_run(void *pool, void *const *table, char *arena, const int64_t *sizes, int from, int to, double *times) {
  gh::Context ctx{(gh::ThreadPool *)pool};
  static_assert(sizeof ctx.fault == sizeof(int), "an atomic int is an int in memory");
  return glasshouse_steps(ctx, (const int *)&ctx.fault, table, arena, sizes, from, to, times);
}

int glasshouse_call(void *const *a) {
  ((gh::ThreadPool *)a[0])->linger((int)(intptr_t)a[6]);
  return glasshouse_run(
      a[0], (void *const *)a[1], (char *)a[2], (const int64_t *)a[3], 0, (int)(intptr_t)a[4], (double *)a[5]);
}

// Without `operator new`, which is the C++ library's: linking a program with that takes 0.06 s, without it 0.02 s.
void *glasshouse_pool(int threads) {
  void *at = nullptr;
  if (posix_memalign(&at, alignof(gh::ThreadPool), sizeof(gh::ThreadPool))) abort();
  return new (at) gh::ThreadPool(threads);
}
void glasshouse_end_pool(void *pool) {
  ((gh::ThreadPool *)pool)->~ThreadPool();
  free(pool);
}
void glasshouse_set_threads(void *pool, int threads) { ((gh::ThreadPool *)pool)->set_threads(threads); }

uint64_t glasshouse_stamp(const char *const *at, const int64_t *bytes, int count) {
  uint64_t mixed = 0x9e3779b97f4a7c15ull;
  for (int i = 0; i < count; ++i) {
    const int64_t words = bytes[i] / 8, step = words <= 512 ? 1 : words / 8;
    uint64_t word = 0;
    for (int64_t w = 0; w < words; w += step) {
      memcpy(&word, at[i] + 8 * w, 8);
      mixed = (mixed ^ word) * 0xff51afd7ed558ccdull;
      mixed ^= mixed >> 32;
    }
    word = 0;
    memcpy(&word, at[i] + 8 * words, bytes[i] % 8);
    mixed = (mixed ^ word) * 0xff51afd7ed558ccdull;
  }
  return mixed;
}
#endif
