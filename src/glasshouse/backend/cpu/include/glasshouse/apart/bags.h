// bags.h: rows of a table summed or averaged bag by bag (embedding bags).
//
// Contract
// - Bag b holds places [offsets[b], offsets[b + 1]) of `indices`; the last one ends with them, or, when the offsets are `closed`, with the
//   last offset. Offsets outside are moved inside; an index outside is reported through the context.
// - Rows of index `skipped` (-1: none) do not count. `scale` (or null) has a factor for each index.
// - Halves are summed in float32. A bag is summed in order by one thread.
#pragma once
#include "../library.h"

namespace gh {
inline namespace GH_ISA_NS {

template <class T> struct BagRows {
  static constexpr int kBlock = 4 * W;  // columns whose sums stay in registers
  template <class Row, class Factor>
  GH_INLINE static void sum(long begin, long end, long width, Row row, Factor factor, float divisor, T *out) {
    for (long c = 0; c < width; c += kBlock) {
      const long left = width - c < kBlock ? width - c : kBlock;
      vf acc[4] = {vf(0.0f), vf(0.0f), vf(0.0f), vf(0.0f)};
      for (long i = begin; i < end; i++) {
        const T *p = row(i);
        if (!p) continue;
        const vf f(factor(i));
        if (left == kBlock) {
          GH_UNROLL for (int v = 0; v < 4; v++) acc[v] = fma(load(p + c + v * W), f, acc[v]);
        } else {
          for (int v = 0; v * W < left; v++)
            acc[v] = left - v * W >= W ? fma(load(p + c + v * W), f, acc[v]) : fma(load(p + c + v * W, Tail((int)(left - v * W))), f, acc[v]);
        }
      }
      for (int v = 0; v * W < left; v++) {
        const vf mean = acc[v] / vf(divisor);
        if (left - v * W >= W) store(out + c + v * W, mean);
        else store(out + c + v * W, mean, Tail((int)(left - v * W)));
      }
    }
  }
};
template <> struct BagRows<double> {
  template <class Row, class Factor>
  GH_INLINE static void sum(long begin, long end, long width, Row row, Factor factor, float divisor, double *out) {
    for (long c = 0; c < width; c++) out[c] = 0;
    for (long i = begin; i < end; i++)
      if (const double *p = row(i))
        for (long c = 0; c < width; c++) out[c] += p[c] * factor(i);
    for (long c = 0; c < width; c++) out[c] /= (double)divisor;
  }
};

template <class T, class I, class O>
inline void bag_rows(Context &ctx, const T *table, long rows, long width, const I *indices, long count, const O *offsets, long bags, bool closed,
                     const T *scale, bool mean, long skipped, T *out) {
  ctx.parallel(bags, count * width >= 16384, [&](int64_t first, int64_t last) {
    for (int64_t b = first; b < last; b++) {
      auto inside = [&](long at) { return at < 0 ? 0 : at > count ? count : at; };
      const long begin = inside((long)offsets[b]), end = b + 1 < bags || closed ? inside((long)offsets[b + 1]) : count;
      long used = 0;
      for (long i = begin; i < end; i++) used += (long)indices[i] != skipped || skipped < 0;
      auto row = [&](long i) -> const T * {
        if (skipped >= 0 && (long)indices[i] == skipped) return nullptr;
        if (i + 4 < end && (long)indices[i + 4] >= 0 && (long)indices[i + 4] < rows) __builtin_prefetch(table + (long)indices[i + 4] * width);
        return table + ctx.index((int64_t)indices[i], rows) * width;
      };
      auto factor = [&](long i) { return scale ? value_of(scale[i]) : decltype(value_of(scale[i]))(1); };
      BagRows<T>::sum(begin, end, width, row, factor, mean && used > 1 ? (float)used : 1.0f, out + b * width);
    }
  });
}

}  // namespace GH_ISA_NS
}  // namespace gh
