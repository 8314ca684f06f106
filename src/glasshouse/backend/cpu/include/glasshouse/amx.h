// amx.h: the tile instructions of AMX, one macro each; tiles are named by literal numbers 0 to 7.
//
// Contract
// - Present with -DGH_AMX, which whoever builds gives only for a processor that has AMX (tile, bf16, int8) and a process that the system
//   lets use it: a permission asked for once (`backend/cpu/processor.py`, `c_api.cpp`), valid for all threads and after fork().
// - Tiles belong to a thread and hold 16 rows of 64 bytes at most. GH_TILE_CONFIG sets their sizes and clears them all; a thread that
//   uses tiles configures them first, because other libraries on it may have, and releases them when it is done.
// - Written as assembly, because the compiler's own intrinsics do not say that they read and write memory.
// - GH_TILE_BF16 adds, for each element, the sum of the products of first halves and that of second halves, each summed in order over the
//   tile's depth with one rounding an addition; denormal inputs and results count as 0, no exception is raised. GH_TILE_BYTES is exact
//   (sums wrap at 32 bits).
// - With -DGH_AMX_EMULATED the same macros come from `amx_emulated.h`, which tests have.
#pragma once
#include "vec.h"

#if defined(GH_AMX)
namespace gh {
inline namespace GH_ISA_NS {

// What GH_TILE_CONFIG reads.
struct alignas(64) TileSizes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
  void set(int tile, int height, int bytes) { rows[tile] = (uint8_t)height, row_bytes[tile] = (uint16_t)bytes; }
};

}  // namespace GH_ISA_NS
}  // namespace gh

#if defined(GH_AMX_EMULATED)
#include "amx_emulated.h"
#else
#define GH_TILE_CONFIG(sizes) __asm__ volatile("ldtilecfg %0" : : "m"(sizes))
#define GH_TILE_RELEASE() __asm__ volatile("tilerelease" : : : "memory")
#define GH_TILE_ZERO(tile) __asm__ volatile("tilezero %%tmm" #tile : :)
#define GH_TILE_LOAD(tile, p, stride) \
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile : : "r"((const void *)(p)), "r"((long)(stride)) : "memory")
#define GH_TILE_STORE(tile, p, stride) \
  __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" : : "r"((void *)(p)), "r"((long)(stride)) : "memory")
#define GH_TILE_BF16(to, a, b) __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #to : :)
#define GH_TILE_BYTES(to, a, b) __asm__ volatile("tdpbusd %%tmm" #b ", %%tmm" #a ", %%tmm" #to : :)
#endif
#endif
