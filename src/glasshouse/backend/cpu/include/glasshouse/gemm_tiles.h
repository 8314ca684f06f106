// gemm_tiles.h: blocks of up to 32 x 32 results on AMX tiles, in the place of register tiles (gemm_micro.h).
//
// Contract
// - The kinds `TilesBF16` and `TilesI8` have the units, packed panels and arguments of DotBF16 and DotI8; without AMX they are those. A
//   block has any number of rows up to kTallest<D>; columns are those of a panel, or half of it.
// - `Micro<D>`: what a thread computes blocks with while it lives: `fn<NV>(rows)` gives what is called like a register tile. With AMX
//   it configures tiles when the number of rows changes (200 cycles, a tenth of a small block) and releases them at its end.
// - `RowsOf<D>(rows, overlap)`: how rows are cut into blocks. With AMX all are equally high, so that tiles are configured once; the
//   last one begins early (`overlap`) or is lower.
// - The order of summation over K does not depend on a block's rows. Depth that does not fill a tile is copied beside zeros: never
//   is memory read that is not the caller's.
#pragma once
#include "amx.h"
#include "gemm_rows.h"
#include <type_traits>

namespace gh {
inline namespace GH_ISA_NS {

#if defined(GH_AMX)
constexpr int kTileUnits = 16;  // units of depth in a tile

// Sets the sizes of all tiles for blocks of `rows` rows: 0 to 3 are sums, 4 and 5 rows of A, 6 and 7 columns of B.
GH_NOINLINE inline void configure_tiles(int rows) {
  TileSizes sizes;
  const int top = rows < 16 ? rows : 16, below = rows - top;
  for (int i = 0; i < 2; i++) {
    sizes.set(i, top, 64);
    if (below) sizes.set(2 + i, below, 64);
    sizes.set(6 + i, kTileUnits, 64);
  }
  sizes.set(4, top, 64);
  if (below) sizes.set(5, below, 64);
  GH_TILE_CONFIG(sizes);
}

#define GH_TILE_DOT(to, a, b)                                   \
  do {                                                          \
    if constexpr (D::kPer == 2) GH_TILE_BF16(to, a, b);         \
    else GH_TILE_BYTES(to, a, b);                               \
  } while (0)

// MB rows of tiles, NB columns of them. Strides in bytes. All loads first, each before its first product was slower.
template <class D, int MB, int NB>
GH_INLINE void tile_step(const char *a, long lda, const char *b, long ldb) {
  GH_TILE_LOAD(4, a, lda);
  GH_TILE_LOAD(6, b, ldb);
  if constexpr (MB > 1) GH_TILE_LOAD(5, a + 16 * lda, lda);
  if constexpr (NB > 1) GH_TILE_LOAD(7, b + 64, ldb);
  GH_TILE_DOT(0, 4, 6);
  if constexpr (MB > 1) GH_TILE_DOT(2, 5, 6);
  if constexpr (NB > 1) GH_TILE_DOT(1, 4, 7);
  if constexpr (MB > 1 && NB > 1) GH_TILE_DOT(3, 5, 7);
}

template <class D, int MB, int NB>
GH_NOINLINE void tile_block(int rows, const void *A, long lda, const void *B, long ldb, const KSegments &segs, typename D::Out *out,
                            long ldo, bool accumulate) {
  lda = segs.row_bytes ? segs.row_bytes : lda * 4, ldb *= 4, ldo *= 4;
  char *low = (char *)out + 16 * ldo;
  if (accumulate) {
    GH_TILE_LOAD(0, out, ldo);
    if constexpr (NB > 1) GH_TILE_LOAD(1, (char *)out + 64, ldo);
    if constexpr (MB > 1) GH_TILE_LOAD(2, low, ldo);
    if constexpr (MB > 1 && NB > 1) GH_TILE_LOAD(3, low + 64, ldo);
  } else {
    GH_TILE_ZERO(0);
    if constexpr (NB > 1) GH_TILE_ZERO(1);
    if constexpr (MB > 1) GH_TILE_ZERO(2);
    if constexpr (MB > 1 && NB > 1) GH_TILE_ZERO(3);
  }
  const char *b = (const char *)B, *ahead = segs.ahead;
  // Rows of results that are owned in the course of a round, while there are any.
  const long rounds = segs.count * (segs.len / kTileUnits) + 1;
  int owned = segs.out.p ? 0 : rows;
  const int own = (int)((rows + rounds - 1) / rounds);
  for (long s = 0; s < segs.count; s++) {
    const char *a = (const char *)A + segs.offset[s] * 4;
    long k = segs.len;
    for (; k >= kTileUnits; k -= kTileUnits) {
      tile_step<D, MB, NB>(a, lda, b, ldb);
      for (long i = 0; i < segs.ahead_step; i += 64) __builtin_prefetch(ahead + i, 0, 3);
      ahead += segs.ahead_step;
      for (int i = 0; i < own && owned < rows; i++, owned++) {
        const char *line = segs.out.p + owned * segs.out.row_bytes;
        __builtin_prefetch(line, 1, 3);
        __builtin_prefetch(line + segs.out.span, 1, 3);
      }
      a += 4 * kTileUnits;
      b += kTileUnits * ldb;
    }
    if (k > 0) {
      alignas(64) char left[kTallest<D> * 64], right[kTileUnits * 128];
      memset(left, 0, (size_t)rows * 64);
      memset(right, 0, sizeof right);
      for (int r = 0; r < rows; r++) memcpy(left + r * 64, a + r * lda, (size_t)k * 4);
      for (long i = 0; i < k; i++) memcpy(right + i * 128, b + i * ldb, NB * 64);
      tile_step<D, MB, NB>(left, 64, right, 128);
      b += k * ldb;
    }
  }
  GH_TILE_STORE(0, out, ldo);
  if constexpr (NB > 1) GH_TILE_STORE(1, (char *)out + 64, ldo);
  if constexpr (MB > 1) GH_TILE_STORE(2, low, ldo);
  if constexpr (MB > 1 && NB > 1) GH_TILE_STORE(3, low + 64, ldo);
}
#undef GH_TILE_DOT

template <class D, int NV>
struct TileBlock {
  int rows;
  GH_INLINE void operator()(const void *A, long lda, const void *B, long ldb, const KSegments &segs, typename D::Out *out, long ldo,
                            bool accumulate) const {
    if (rows > 16) tile_block<D, 2, NV>(rows, A, lda, B, ldb, segs, out, ldo, accumulate);
    else tile_block<D, 1, NV>(rows, A, lda, B, ldb, segs, out, ldo, accumulate);
  }
};

class TileMicro {
 public:
  TileMicro() = default;
  TileMicro(const TileMicro &) = delete;
  TileMicro &operator=(const TileMicro &) = delete;
  ~TileMicro() {
    if (rows_) GH_TILE_RELEASE();
  }

 protected:
  GH_INLINE void use(int rows) {
    if (rows != rows_) configure_tiles(rows_ = rows);
  }
  int rows_ = 0;
};
#endif

template <class D, bool = kTiled<D>>
struct Micro {
  template <int NV>
  GH_INLINE MicroFn<D> fn(int rows) const { return micro_fn<D, NV>(rows); }
};
#if defined(GH_AMX)
template <class D>
struct Micro<D, true> : TileMicro {
  template <int NV>
  GH_INLINE TileBlock<D, NV> fn(int rows) {
    use(rows);
    return {rows};
  }
};
#endif

// Equal heights, as few blocks as possible.
struct EqualTiles {
  long rows, count, height;
  bool overlap;
  GH_INLINE explicit EqualTiles(long n, bool over = true) : rows(n), overlap(over) {
    count = (n + kTileRows - 1) / kTileRows;
    height = count ? (n + count - 1) / count : 0;
  }
  GH_INLINE RowTiles::Tile operator[](long i) const {
    const long begin = i * height;
    if (begin + height <= rows) return {begin, (int)height, 0};
    if (overlap) return {rows - height, (int)height, (int)(begin - rows + height)};
    return {begin, (int)(rows - begin), 0};
  }
};
template <class D>
using RowsOf = typename std::conditional<kTiled<D>, EqualTiles, RowTiles>::type;

}  // namespace GH_ISA_NS
}  // namespace gh
