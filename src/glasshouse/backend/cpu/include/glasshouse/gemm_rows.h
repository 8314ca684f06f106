// gemm_rows.h: which register tiles there are, and how rows are cut into them.
#pragma once
#include "gemm_micro.h"
#include "threadpool.h"

namespace gh {
inline namespace GH_ISA_NS {

template <class D>
using MicroFn = void (*)(const void *, long, const void *, long, const KSegments &, typename D::Out *, long, bool);

// Tiles have 1 or an even number of rows: half the code for at most one row computed twice.
template <class D, int NV>
inline MicroFn<D> micro_fn(int rows) {
  if constexpr (kMaxRows >= 12) {
    static const MicroFn<D> table[] = {micro_tile<D, 1, NV>, micro_tile<D, 2, NV>, micro_tile<D, 4, NV>, micro_tile<D, 6, NV>,
                                       micro_tile<D, 8, NV>, micro_tile<D, 10, NV>, micro_tile<D, 12, NV>,
                                       micro_tile<D, kMaxRows, NV>};
    return table[rows / 2];
  } else {
    static const MicroFn<D> table[] = {micro_tile<D, 1, NV>, micro_tile<D, 2, NV>, micro_tile<D, 4, NV>, micro_tile<D, 6, NV>};
    return table[rows / 2];
  }
}

// How `rows` rows are cut into tiles: as few as possible, even heights differing by at most 2. An odd number of rows lets the
// last tile begin one row early (its first row is then not passed to the epilogue again), or, for few rows or without
// `overlap`, ends with a tile of one row.
struct RowTiles {
  long rows, count, pairs;
  bool odd_single;
  GH_INLINE explicit RowTiles(long n, bool overlap = true) : rows(n) {
    odd_single = n % 2 && (n < kMaxRows || !overlap);
    long even = odd_single ? n - 1 : n;
    count = (even + kMaxRows - 1) / kMaxRows;
    pairs = (even + 1) / 2;
    if (odd_single) count++;
  }
  struct Tile { long row; int height, skip; };
  GH_INLINE Tile operator[](long i) const {
    long n = odd_single ? count - 1 : count;
    if (i == n) return {rows - 1, 1, 0};
    Range r = split(pairs, i, n);
    long begin = 2 * r.begin;
    int h = (int)(2 * (r.end - r.begin));
    if (begin + h > rows) return {rows - h, h, 1};
    return {begin, h, 0};
  }
};

}  // namespace GH_ISA_NS
}  // namespace gh
