// mma.cuh: tensor cores of half floats, and copies from global to shared memory that do not go through registers.
//
// Contract (a warp calls each with all its lanes)
// - `mma(d, a, b)`: d[16 x 8] += a[16 x 16] b[16 x 8], summed in float; fragments as PTX's mma.m16n8k16 lays them out. Of floats the depth is
//   8 (m16n8k8 of TF32): the same bytes in the same registers. `round_tf32` rounds them before, which the chip would cut off. Of bytes it is
//   32 (m16n8k32): T of the first operand, int8_t or uint8_t, the second int8_t, and sums are whole numbers. Of float64 it is 8, in registers of its own:
//   a[i] of row lane / 4 + i % 2 * 8 and depth lane % 4 + i / 2 * 4, b0 and b1 of column lane / 4 and the same depths; sums lie as those of floats.
// - `as_float`, `real_sum`: such sums travel as the bits of floats.
// - `ldmatrix`, `ldmatrix_trans`: four 8 x 8 blocks of half floats; lane i gives the address of row i % 8 of block i / 8.
// - `copy16(shared, global, inside)`: 16 bytes, zeros where not inside; done when `copies_left<N>()` says that at most N groups
//   (ended by `end_copies`) are under way, and a barrier has followed.
#pragma once
#include "launch.cuh"

namespace gh {

#ifndef GH_EMULATE
GH_FN uint32_t shared_address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }
GH_FN void copy16(void *shared, const void *global, bool inside) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)), "l"(global), "r"(inside ? 16 : 0));
}
GH_FN void end_copies() { asm volatile("cp.async.commit_group;"); }
template <int N> GH_FN void copies_left() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }
GH_FN void ldmatrix(uint32_t (&r)[4], const void *p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(p)) : "memory");
}
GH_FN void ldmatrix_trans(uint32_t (&r)[4], const void *p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(p)) : "memory");
}
template <class T> GH_FN void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (same<T, float>::value)
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else if constexpr (same<T, f16>::value)
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <class T> GH_FN void mma(int32_t (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (same<T, uint8_t>::value)
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
GH_FN void mma(double (&d)[4], const double (&a)[4], double b0, double b1) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3]) : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b0), "d"(b1));
#else
#pragma unroll
  for (int i = 0; i < 4; ++i)
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
                 : "+d"(d[i % 2 * 2]), "+d"(d[i % 2 * 2 + 1]) : "d"(a[i]), "d"(i < 2 ? b0 : b1));
#endif
}
GH_FN float as_float(int32_t x) { return __int_as_float(x); }
// What all lanes of a warp have alike, so that the compiler knows it.
GH_FN int same_in_warp(int x) { return __shfl_sync(0xffffffff, x, 0); }
GH_FN uint32_t bits_of(float x) { return __float_as_uint(x); }
GH_FN void round_tf32(uint32_t (&r)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r[i]) : "f"(__uint_as_float(r[i])));
}
#endif

GH_FN float as_float(float x) { return x; }
// Whole sums of bytes without the zero point of the first operand, from the sum of the second one's column; they go round in 32 bits.
GH_FN float real_sum(float sum, int32_t zero, int32_t column) { return (float)(int32_t)(bits_of(sum) - (uint32_t)zero * (uint32_t)column); }
// What is known of V neighbouring columns of bytes: their sums, and their scales where each has its own.
template <int V> struct ByteColumns {
  int32_t sums[V];
  float scales[V];
};
template <int V> GH_FN ByteColumns<V> byte_columns(const int32_t *sums, const float *scales = nullptr) {
  constexpr int W = V < 4 ? V : 4;
  ByteColumns<V> found;
#pragma unroll
  for (int i = 0; i < V; i += W) {
    const Vec<int32_t, W> s = load_vec<W>(sums + i);
    Vec<float, W> f = {};
    if (scales) f = load_vec<W>(scales + i);
#pragma unroll
    for (int u = 0; u < W; ++u) found.sums[i + u] = s[u], found.scales[i + u] = f[u];
  }
  return found;
}
template <class T> struct SumsOf { typedef float type; };
template <> struct SumsOf<int8_t> { typedef int32_t type; };
template <> struct SumsOf<uint8_t> { typedef int32_t type; };

// Two half floats in one register.
template <class T> GH_FN uint32_t packed(float low, float high) {
#ifdef GH_EMULATE
  if constexpr (same<T, f16>::value) return (uint32_t)f16_bits(low) | (uint32_t)f16_bits(high) << 16;
  else return (uint32_t)bf16_bits(low) | (uint32_t)bf16_bits(high) << 16;
#else
  uint32_t both;
  if constexpr (same<T, f16>::value) asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  else asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
#endif
}

// Where chunk `c` (8 half floats) of a row lies in a tile of CHUNKS chunks a row: moved so that the eight rows that ldmatrix reads
// at once lie in different banks.
template <int CHUNKS> GH_FN int swizzled(int row, int c) {
  if constexpr (CHUNKS >= 8) return (row * CHUNKS + (c ^ (row & 7))) * 8;
  else if constexpr (CHUNKS == 4) return (row * 4 + (c ^ ((row >> 1) & 3))) * 8;
  else return (row * CHUNKS + (c ^ ((row >> 2) & (CHUNKS - 1)))) * 8;
}

// The same in elements of any type. float64 does not go through ldmatrix: along the depth eight lanes read four chunks of two rows, across it sixteen
// read two chunks of every second of eight rows, each from all banks.
template <class T, bool ACROSS, int CHUNKS> GH_FN int chunk_at(int row, int c) {
  constexpr int PER = 16 / sizeof(T);
  if constexpr (PER != 2) return swizzled<CHUNKS>(row, c) / 8 * PER;
  else if constexpr (ACROSS) return (row * CHUNKS + (c ^ (row & 6))) * 2;
  else return (row * CHUNKS + (c ^ ((row & 1) << 2))) * 2;
}

}  // namespace gh
