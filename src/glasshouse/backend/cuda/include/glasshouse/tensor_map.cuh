// tensor_map.cuh: tiles that Hopper's copy engine brings into shared memory: one thread asks, no addresses are computed.
//
// Contract
// - A `TensorMap` is 128 bytes that the driver has encoded (`tensor_map.py`); it is a parameter of the function, `__grid_constant__`.
// - `fetch_rows(to, map, k, row, barrier)`: the map's box of a matrix, 64 half floats of depth from k on for its number of rows,
//   chunks of 16 bytes swizzled by row (`swizzled<8>`), `to` a multiple of 1024 bytes.
// - `fetch_eights`: as `fetch_rows`, from a row that is a multiple of 32 on, of a map with axes [depth, 2, 4, 4, rows / 32]: row 8 q + 2 j + e of
//   each 32 comes to place 8 j + 2 q + e.
// - `fetch_pixels(to, map, c, w, h, n, dw, dh, barrier)`: 64 channels from c on of pixels one after the other from (n, h, w) on, as the
//   window (dh, dw) of a convolution sees them.
// - `fetch_head(to, map, d, row, head, batch, barrier)`: as `fetch_rows`, of one of the matrices [rows, dim] of a map of four axes.
// - `prefetch_rows`, `prefetch_eights`: what these would bring, into the second-level cache.
// - What lies outside is 0. All bytes of a box count at the barrier.
// - Loaders of a product's first operand: `fetch(to, m, k, barrier)`, rows from m on; `prefetch()`: the map itself, not yet what it maps. Of its
//   second one: `fetch(to, n, k, barrier)`, `prefetch(n, k)`; `eights`: columns come as `fetch_eights` says. `each`: how many of a box's columns
//   become one result, by `one` (`products.cuh`).
#pragma once
#include "cluster.cuh"
#include "conv.cuh"

namespace gh {

#ifndef GH_EMULATE
struct alignas(64) TensorMap { uint64_t words[16]; };
#if __CUDA_ARCH__ >= 900
GH_FN void prefetch_map(const TensorMap &map) { asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory"); }
GH_FN void prefetch_rows(const TensorMap &map, int k, int row) {
  asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global [%0, {%1, %2}];" ::"l"(&map), "r"(k), "r"(row) : "memory");
}
GH_FN void fetch_rows(void *to, const TensorMap &map, int k, int row, Barrier *b) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
               ::"r"(shared_address(to)), "l"(&map), "r"(k), "r"(row), "r"(shared_address(b)) : "memory");
}
GH_FN void prefetch_eights(const TensorMap &map, int k, int row) {
  asm volatile("cp.async.bulk.prefetch.tensor.5d.L2.global [%0, {%1, %2, %2, %2, %3}];" ::"l"(&map), "r"(k), "r"(0), "r"(row / 32) : "memory");
}
GH_FN void fetch_eights(void *to, const TensorMap &map, int k, int row, Barrier *b) {
  asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %3, %3, %4}], [%5];"
               ::"r"(shared_address(to)), "l"(&map), "r"(k), "r"(0), "r"(row / 32), "r"(shared_address(b)) : "memory");
}
GH_FN void fetch_head(void *to, const TensorMap &map, int d, int row, int head, int batch, Barrier *b) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6];"
               ::"r"(shared_address(to)), "l"(&map), "r"(d), "r"(row), "r"(head), "r"(batch), "r"(shared_address(b)) : "memory");
}
GH_FN void fetch_pixels(void *to, const TensorMap &map, int c, int w, int h, int n, int dw, int dh, Barrier *b) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8};"
               ::"r"(shared_address(to)), "l"(&map), "r"(c), "r"(w), "r"(h), "r"(n), "r"(shared_address(b)), "h"((uint16_t)dw),
               "h"((uint16_t)dh) : "memory");
}
#endif
#endif

#if defined(GH_EMULATE) || __CUDA_ARCH__ >= 900
template <class T_> struct MappedRows {
  typedef T_ T;
  const TensorMap &map;
  GH_FN void prefetch() const { prefetch_map(map); }
  GH_FN void fetch(T *to, int m, int k, Barrier *b) const { fetch_rows(to, map, k, m, b); }
};
template <class T, bool EIGHTS> struct MappedColumns {
  static constexpr bool eights = EIGHTS;
  static constexpr int each = 1;
  const TensorMap &map;
  GH_FN void prefetch(int n, int k) const {
    if constexpr (EIGHTS) prefetch_eights(map, k, n);
    else prefetch_rows(map, k, n);
  }
  GH_FN void fetch(T *to, int n, int k, Barrier *b) const {
    if constexpr (EIGHTS) fetch_eights(to, map, k, n, b);
    else fetch_rows(to, map, k, n, b);
  }
};
// Channels of a tap come in 64s, so that a step in depth lies in one tap.
template <class T_> struct MappedPixels {
  typedef T_ T;
  const TensorMap &map;
  ConvShape s;
  GH_FN void prefetch() const { prefetch_map(map); }
  GH_FN void fetch(T *to, int m, int k, Barrier *b) const {
    const int pixels = s.out_height * s.out_width, n = m / pixels, at = m - n * pixels, oh = at / s.out_width, ow = at - oh * s.out_width;
    const int tap = k / s.group, kh = tap / s.kernel_width, kw = tap - kh * s.kernel_width;
    fetch_pixels(to, map, k - tap * s.group, ow * s.stride_width - s.begin_width, oh * s.stride_height - s.begin_height, n,
                 kw * s.dilation_width, kh * s.dilation_height, b);
  }
};
#endif

}  // namespace gh
