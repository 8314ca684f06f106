// wgmma.cuh: products of a warpgroup (128 threads) from shared memory or registers, Hopper's tensor cores (sm_90a).
//
// Contract
// - `wgmma<T, N, FRESH>(d, a, b, k)`: d[64 x N] += a[64 rows, k .. k+15] b[N rows, k .. k+15]^T, or = where FRESH. Tiles have rows of 64 half
//   floats, chunks of 16 bytes swizzled by row (`swizzled<8>`), and begin at multiples of 1024 bytes. Thread t holds of d: rows t/32*16 +
//   t%32/4 (+8), columns 8 j + t%4*2 (+1), as mma's fragments j do.
//   Of pairs of bytes (`s8x2`, `u8x2`) these are 32 in depth, and d holds whole numbers, as the bits of floats (`real_sum`); of pairs of 8-bit floats
//   (`f8x2`) too, and the chip adds them with about 14 bits: few of them should meet in one d.
// - `wgmma_across<T, N>(d, a, b, k, rows)`: d[64 x N] += a b[k .. k+15, N columns], a as mma's first operand in registers; of b 64 columns
//   are a tile of `rows` rows, and tiles lie behind each other.
// - Copies into shared memory are made seen by `shared_is_written` before the barrier; `begin_products`, products, `end_products`;
//   `products_left<n>`: at most n such groups are under way. Sums, and operands in registers, must not be touched meanwhile; `settled(d)`
//   after it keeps the compiler from reading them before.
// - `give_registers<N>`, `take_registers<N>`: all warps of a warpgroup go on with at most N registers a thread, N a multiple of 8. In a
//   kernel whose launch bounds say how many blocks a multiprocessor holds, each as one branch of one choice.
#pragma once
#include "mma.cuh"

#ifndef GH_EMULATE
namespace gh {

GH_FN void shared_is_written() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
GH_FN void begin_products() {
#if __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
GH_FN void end_products() {
#if __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
template <int N> GH_FN void products_left() {
#if __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
#endif
}
template <int N> GH_FN void give_registers() {
#if __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
#endif
}
template <int N> GH_FN void take_registers() {
#if __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
#endif
}
template <int N> GH_FN void settled(float (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(d[i])::"memory");
}
// A tile with a swizzle of 128 bytes: eight rows are 1024 bytes apart, and what lies `beside` it so many bytes.
GH_FN uint64_t described(const void *tile, int beside = 16) {
  return (uint64_t)((shared_address(tile) & 0x3ffff) >> 4) | (uint64_t)(beside >> 4) << 16 | 64ull << 32 | 1ull << 62;
}

#define GH_SUMS_8(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define GH_PLACES_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define GH_SUMS_16 GH_SUMS_8(0), GH_SUMS_8(8)
#define GH_PLACES_32 GH_PLACES_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define GH_SUMS_32 GH_SUMS_16, GH_SUMS_8(16), GH_SUMS_8(24)
#define GH_PLACES_64 GH_PLACES_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define GH_SUMS_64 GH_SUMS_32, GH_SUMS_8(32), GH_SUMS_8(40), GH_SUMS_8(48), GH_SUMS_8(56)
#define GH_PLACES_96 GH_PLACES_64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define GH_SUMS_96 GH_SUMS_64, GH_SUMS_8(64), GH_SUMS_8(72), GH_SUMS_8(80), GH_SUMS_8(88)
#define GH_PLACES_128 GH_PLACES_96 ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define GH_SUMS_128 GH_SUMS_96, GH_SUMS_8(96), GH_SUMS_8(104), GH_SUMS_8(112), GH_SUMS_8(120)

// Of S = N / 2 sums a thread; the operands stand behind them, from place A on.
#define GH_WGMMA(T, name, N, S, A, B, C, D, E)                                                                                      \
  template <> struct Wgmma<T, N> {                                                                                                  \
    template <bool FRESH> GH_FN static void step(float (&d)[S], uint64_t a, uint64_t b) {                                           \
      if constexpr (FRESH)                                                                                                          \
        asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." name "." name " {" GH_PLACES_##S "}, %" #A ", %" #B          \
                     ", 0, 1, 1, 0, 0;" : GH_SUMS_##S : "l"(a), "l"(b));                                                            \
      else                                                                                                                          \
        asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." name "." name " {" GH_PLACES_##S "}, %" #A ", %" #B          \
                     ", 1, 1, 1, 0, 0;" : GH_SUMS_##S : "l"(a), "l"(b));                                                            \
    }                                                                                                                               \
    GH_FN static void across(float (&d)[S], const uint32_t (&a)[4], uint64_t b) {                                                   \
      asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." name "." name " {" GH_PLACES_##S "}, {%" #A ", %" #B ", %" #C  \
                   ", %" #D "}, %" #E ", 1, 1, 1, 1;" : GH_SUMS_##S : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));          \
    }                                                                                                                               \
  };
// Of bytes: sums are registers of whole numbers.
#define GH_WHOLE_8(i) "+r"(w[i]), "+r"(w[i + 1]), "+r"(w[i + 2]), "+r"(w[i + 3]), "+r"(w[i + 4]), "+r"(w[i + 5]), "+r"(w[i + 6]), "+r"(w[i + 7])
#define GH_WHOLE_16 GH_WHOLE_8(0), GH_WHOLE_8(8)
#define GH_WHOLE_32 GH_WHOLE_16, GH_WHOLE_8(16), GH_WHOLE_8(24)
#define GH_WHOLE_64 GH_WHOLE_32, GH_WHOLE_8(32), GH_WHOLE_8(40), GH_WHOLE_8(48), GH_WHOLE_8(56)
#define GH_WHOLE_96 GH_WHOLE_64, GH_WHOLE_8(64), GH_WHOLE_8(72), GH_WHOLE_8(80), GH_WHOLE_8(88)
#define GH_WHOLE_128 GH_WHOLE_96, GH_WHOLE_8(96), GH_WHOLE_8(104), GH_WHOLE_8(112), GH_WHOLE_8(120)
#define GH_WGMMA_BYTES(T, name, N, S, A, B)                                                                                         \
  template <> struct Wgmma<T, N> {                                                                                                  \
    template <bool FRESH> GH_FN static void step(float (&d)[S], uint64_t a, uint64_t b) {                                           \
      static_assert(!FRESH, "sums of bytes begin at 0");                                                                            \
      int32_t *w = (int32_t *)d;                                                                                                    \
      asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k32.s32." name ".s8 {" GH_PLACES_##S "}, %" #A ", %" #B ", 1;"           \
                   : GH_WHOLE_##S : "l"(a), "l"(b));                                                                                \
    }                                                                                                                               \
  };
#define GH_WGMMA_FLOAT8(T, U, names, N, S, A, B)                                                                                    \
  template <> struct Wgmma<f8x2<T, U>, N> {                                                                                         \
    template <bool FRESH> GH_FN static void step(float (&d)[S], uint64_t a, uint64_t b) {                                           \
      if constexpr (FRESH)                                                                                                          \
        asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k32.f32." names " {" GH_PLACES_##S "}, %" #A ", %" #B ", 0, 1, 1;"     \
                     : GH_SUMS_##S : "l"(a), "l"(b));                                                                               \
      else                                                                                                                          \
        asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k32.f32." names " {" GH_PLACES_##S "}, %" #A ", %" #B ", 1, 1, 1;"     \
                     : GH_SUMS_##S : "l"(a), "l"(b));                                                                               \
    }                                                                                                                               \
  };
#define GH_WGMMAS_FLOAT8(...)                                                                                                       \
  GH_WGMMA_FLOAT8(f8e4, f8e4, "e4m3.e4m3", __VA_ARGS__) GH_WGMMA_FLOAT8(f8e4, f8e5, "e4m3.e5m2", __VA_ARGS__)                       \
  GH_WGMMA_FLOAT8(f8e5, f8e4, "e5m2.e4m3", __VA_ARGS__) GH_WGMMA_FLOAT8(f8e5, f8e5, "e5m2.e5m2", __VA_ARGS__)
#define GH_WGMMAS_BYTES(N, S, A, B) GH_WGMMA_BYTES(s8x2, "s8", N, S, A, B) GH_WGMMA_BYTES(u8x2, "u8", N, S, A, B)
#define GH_WGMMAS(N, S, ...) GH_WGMMA(f16, "f16", N, S, __VA_ARGS__) GH_WGMMA(bf16, "bf16", N, S, __VA_ARGS__)

template <class T, int N> struct Wgmma;
GH_WGMMAS(32, 16, 16, 17, 18, 19, 20)
GH_WGMMAS(64, 32, 32, 33, 34, 35, 36)
GH_WGMMAS(128, 64, 64, 65, 66, 67, 68)
GH_WGMMAS(192, 96, 96, 97, 98, 99, 100)
GH_WGMMAS(256, 128, 128, 129, 130, 131, 132)
GH_WGMMAS_BYTES(32, 16, 16, 17)
GH_WGMMAS_BYTES(64, 32, 32, 33)
GH_WGMMAS_BYTES(128, 64, 64, 65)
GH_WGMMAS_BYTES(192, 96, 96, 97)
GH_WGMMAS_BYTES(256, 128, 128, 129)
GH_WGMMAS_FLOAT8(32, 16, 16, 17)
GH_WGMMAS_FLOAT8(64, 32, 32, 33)
GH_WGMMAS_FLOAT8(128, 64, 64, 65)

template <class T, int N, bool FRESH = false> GH_FN void wgmma(float (&d)[N / 2], const T *a, const T *b, int k) {
#if __CUDA_ARCH_FEAT_SM90_ALL
  Wgmma<T, N>::template step<FRESH>(d, described(a) + k / 8, described(b) + k / 8);  // in units of 16 bytes
#endif
}
template <class T, int N> GH_FN void wgmma_across(float (&d)[N / 2], const uint32_t (&a)[4], const T *b, int k, int rows) {
#if __CUDA_ARCH_FEAT_SM90_ALL
  Wgmma<T, N>::across(d, a, described(b, rows * 128) + k * 8);
#endif
}

}  // namespace gh
#endif
