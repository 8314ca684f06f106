// spread_bytes.h: transposed convolutions of 8-bit integers whose taps never meet in a pixel: one product, exact.
//
// Contract
// - `spread_bytes_pack(pool, w, s, out)`, `spread_bytes_size(s)`: int8 weights [OC, C, taps], and behind them the sum of each column, of which there are
//   taps * lanes (transposed.h).
// - `conv_spread_bytes(pool, s, x, zero, packed, epi)`: x is [N, from, OC], uint8 or int8; epi(pixel, c, whole, range) with the sums of w (x - zero).
#pragma once
#include "../quant.h"
#include "transposed.h"

namespace gh {
inline namespace GH_ISA_NS {

inline size_t spread_bytes_size(const SpreadShape &s) { return spread_weight_bytes<DotI8>(s) + (size_t)(s.taps() * s.lanes()) * 4; }
inline const int32_t *spread_bytes_sums(const SpreadShape &s, const void *packed) {
  return (const int32_t *)((const char *)packed + spread_weight_bytes<DotI8>(s));
}

inline void spread_bytes_pack(ThreadPool &pool, const int8_t *w, const SpreadShape &s, void *out) {
  const long taps = s.taps(), lanes = s.lanes();
  spread_pack_weights<DotI8>(pool, w, s, out);
  int32_t *sums = (int32_t *)spread_bytes_sums(s, out);
  memset(sums, 0, (size_t)(taps * lanes) * 4);
  for (long o = 0; o < s.OC; o++)
    for (long c = 0; c < s.C; c++)
      for (long t = 0; t < taps; t++) sums[t * lanes + c] += w[(o * s.C + c) * taps + t];
}

template <class T, class Epi>
inline void conv_spread_bytes(ThreadPool &pool, const SpreadShape &s, const T *x, int32_t zero, const void *packed, Epi &&epi) {
  const SpreadPlaces places(s);
  const int32_t *sums = spread_bytes_sums(s, packed), moved = zero + (__is_same(T, int8_t) ? 128 : 0);
  const long M = s.N * s.from[0] * s.from[1] * s.from[2], N = s.taps() * s.lanes();
  auto run = [&](auto &&e) { gemm<TilesI8>(pool, M, N, s.OC, i8_rows(x, s.OC), packed, e); };
  if (s.C % W == 0) {
    run(ByColumns{[=, &epi](long col, auto) __attribute__((always_inline)) {
      const vi taken = vi(moved) * load(sums + col);
      const auto take = columns_of(epi, places.channel(col / W), Full{});
      return [take, taken, first = places.first, away = places.away[col / W]](long r, vi whole) __attribute__((always_inline)) {
        take(first[r] + away, whole - taken);
      };
    }});
  } else {
    run([=, &epi](long r, long col, vi whole, auto) __attribute__((always_inline)) {
      const long pixel = places.pixel(r, col / W), c = places.channel(col / W);
      const vi taken = vi(moved) * load(sums + col);
      if (places.C - c >= W) epi(pixel, c, whole - taken, Full{});
      else epi(pixel, c, whole - taken, Tail((int)(places.C - c)));
    });
  }
}

}  // namespace GH_ISA_NS
}  // namespace gh
