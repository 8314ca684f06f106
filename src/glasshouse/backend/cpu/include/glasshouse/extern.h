// extern.h: which templates are compiled once, in kernels.cpp, instead of in every file that uses them.
//
// Contract: with -DGH_EXTERN_KERNELS, files that include gemm.h leave the register tiles and the packing of B to objects that
// must be built from kernels.cpp with the same flags and linked to them. It saves about 1 s of each file's 2 s. Without the macro
// every header stands alone. kernels.cpp with -DGH_PART=<one of the GH_..._KERNELS> holds that part alone.
#pragma once

#define GH_TILE1(X, D, MR) \
  X template void micro_tile<D, MR, 1>(const void *, long, const void *, long, const KSegments &, D::Out *, long, bool);
#define GH_TILE2(X, D, MR) \
  GH_TILE1(X, D, MR) \
  X template void micro_tile<D, MR, 2>(const void *, long, const void *, long, const KSegments &, D::Out *, long, bool);
#if defined(GH_AVX512)
#define GH_TILES_TALL(T, X, D) T(X, D, 8) T(X, D, 10) T(X, D, 12) T(X, D, 14)
#elif !defined(GH_AVX2) && defined(__aarch64__)
#define GH_TILES_TALL(T, X, D) T(X, D, 8) T(X, D, 10) T(X, D, 12)
#else
#define GH_TILES_TALL(T, X, D)
#endif
#define GH_TILES(T, X, D) T(X, D, 1) T(X, D, 2) T(X, D, 4) T(X, D, 6) GH_TILES_TALL(T, X, D)
#define GH_PACK(X, D, T) X template void pack_b_panels<D, T>(const T *, long, long, long, long, void *, long, long);
#define GH_F32_KERNELS(X) GH_TILES(GH_TILE2, X, DotF32) GH_PACK(X, DotF32, float) GH_PACK(X, DotF32, bf16) \
  GH_PACK(X, DotF32, f16)
#define GH_F64_KERNELS(X) GH_TILES(GH_TILE1, X, DotF64) GH_PACK(X, DotF64, double)
#if defined(GH_AMX)
#define GH_AMX_BLOCK(X, D, MB, NB) \
  X template void tile_block<D, MB, NB>(int, const void *, long, const void *, long, const KSegments &, D::Out *, long, bool);
#define GH_AMX_BLOCKS(X, D) GH_AMX_BLOCK(X, D, 1, 1) GH_AMX_BLOCK(X, D, 1, 2) GH_AMX_BLOCK(X, D, 2, 1) GH_AMX_BLOCK(X, D, 2, 2)
#else
#define GH_AMX_BLOCKS(X, D)
#endif
#define GH_BF16_KERNELS(X) GH_TILES(GH_TILE2, X, DotBF16) GH_PACK(X, DotBF16, float) GH_PACK(X, DotBF16, bf16) \
  GH_AMX_BLOCKS(X, TilesBF16)
#define GH_I8_KERNELS(X) GH_TILES(GH_TILE2, X, DotI8) GH_PACK(X, DotI8, int8_t) GH_AMX_BLOCKS(X, TilesI8)
#define GH_I16_KERNELS(X) GH_TILES(GH_TILE2, X, DotI16) GH_PACK(X, DotI16, int16_t)
#define GH_KERNELS(X) GH_F32_KERNELS(X) GH_F64_KERNELS(X) GH_BF16_KERNELS(X) GH_I8_KERNELS(X) GH_I16_KERNELS(X)

#define GH_WINOGRAD(X, D, M, T) \
  X template void winograd_input<D, M, T>(const WinoPlan<D, M> &, const T *, long, long, long, long, unit32 *); \
  X template void winograd_pack_weights<D, M, T>(ThreadPool &, const T *, long, long, long, long, const ConvShape &, void *);
#define GH_WINOGRAD_F32_2_KERNELS(X) GH_WINOGRAD(X, DotF32, 2, float)
#define GH_WINOGRAD_F32_4_KERNELS(X) GH_WINOGRAD(X, DotF32, 4, float)
#define GH_WINOGRAD_HALF_2_KERNELS(X) GH_WINOGRAD(X, DotF32, 2, bf16)
#define GH_WINOGRAD_HALF_4_KERNELS(X) GH_WINOGRAD(X, DotF32, 4, bf16)
#define GH_WINOGRAD_KERNELS(X) \
  GH_WINOGRAD_F32_2_KERNELS(X) GH_WINOGRAD_F32_4_KERNELS(X) GH_WINOGRAD_HALF_2_KERNELS(X) GH_WINOGRAD_HALF_4_KERNELS(X)

#if defined(GH_EXTERN_KERNELS)
namespace gh {
inline namespace GH_ISA_NS {
GH_KERNELS(extern)
}  // namespace GH_ISA_NS
}  // namespace gh
#endif
