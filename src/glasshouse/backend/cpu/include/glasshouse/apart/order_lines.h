// order_lines.h: sorting, the k first, the first and those of given ranks of lines, by whole numbers that are in the order of the elements.
//
// Contract
// - "Lines" as in library.h. `topk_lines` is stable: equal elements keep their order both ways; NaN is the largest, -0 equals 0, all
//   NaN are equal. T is an element type, halves compare as floats. `arg_lines` gives the first of equals, and a NaN where there is one.
// - Elements never are compared: a key and the place together are one number (`NarrowPlace`, `WidePlace`), different for all, so that a sort
//   by digits is stable by itself. 8000 floats take 0.06 ms; std::sort over places took 1.0.
#pragma once
#include "../library.h"
#include "../transpose.h"
#include <algorithm>

namespace gh {
inline namespace GH_ISA_NS {

template <class B> GH_INLINE B key_of_bits(B bits) {
  constexpr B sign = B(1) << (8 * sizeof(B) - 1);
  return bits & sign ? ~bits : bits | sign;
}
// An unsigned number for each element, in the same order; `nan` for NaN.
GH_INLINE uint32_t key_of(float x, uint32_t nan) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  bits = x == 0 ? 0 : bits;
  return x != x ? nan : key_of_bits(bits);
}
GH_INLINE uint64_t key_of(double x, uint64_t nan) {
  uint64_t bits;
  memcpy(&bits, &x, 8);
  bits = x == 0 ? 0 : bits;
  return x != x ? nan : key_of_bits(bits);
}
template <class T, class K, if_number<T> = 0> GH_INLINE K key_of(T x, K) {
  return std::is_signed<T>::value ? K(x) ^ (K(1) << (8 * sizeof(K) - 1)) : K(x);
}
template <class T> using Key = std::conditional_t<(sizeof(value_of(T())) > 4), uint64_t, uint32_t>;

// A key and a place: the less one is first, and no two are equal.
struct NarrowPlace {
  typedef uint32_t K;
  uint64_t both;
  NarrowPlace() = default;
  GH_INLINE NarrowPlace(uint32_t key, int64_t at) : both((uint64_t)key << 32 | (uint32_t)at) {}
  GH_INLINE uint32_t key() const { return uint32_t(both >> 32); }
  GH_INLINE int64_t at() const { return uint32_t(both); }
  GH_INLINE bool operator<(NarrowPlace o) const { return both < o.both; }
};
struct WidePlace {
  typedef uint64_t K;
  uint64_t k;
  int64_t place;
  WidePlace() = default;
  GH_INLINE WidePlace(uint64_t key, int64_t at) : k(key), place(at) {}
  GH_INLINE uint64_t key() const { return k; }
  GH_INLINE int64_t at() const { return place; }
  GH_INLINE bool operator<(const WidePlace &o) const { return k < o.k || (k == o.k && place < o.place); }
};

constexpr int64_t kDigitsFrom = 256;  // fewer are compared: clearing the counts costs as much as sorting these
constexpr int kDigit = 11;

// Sorts `from` by the digits of its keys, given in the order of places; the result is in `from` or in `to`.
template <class E> inline E *sorted(E *from, E *to, int64_t n) {
  if (n < kDigitsFrom || n > INT32_MAX) {
    std::sort(from, from + n);
    return from;
  }
  constexpr int kDigits = (8 * sizeof(typename E::K) + kDigit - 1) / kDigit, kMask = (1 << kDigit) - 1;
  uint32_t count[kDigits][kMask + 1] = {};
  for (int64_t i = 0; i < n; ++i) {
    GH_UNROLL for (int d = 0; d < kDigits; ++d) ++count[d][from[i].key() >> (d * kDigit) & kMask];
  }
  for (int d = 0; d < kDigits; ++d) {
    if (count[d][from[0].key() >> (d * kDigit) & kMask] == n) continue;  // all have this digit
    uint32_t next = 0;
    for (uint32_t &c : count[d]) {
      const uint32_t here = c;
      c = next;
      next += here;
    }
    for (int64_t i = 0; i < n; ++i) to[count[d][from[i].key() >> (d * kDigit) & kMask]++] = from[i];
    std::swap(from, to);
  }
  return from;
}

// The keys of a line in runs, each with its least: f(first place, keys, how many, least). Compilers make vectors of it.
template <class T, class F>
inline void each_run_of_keys(const T *x, int64_t n, int64_t inner, bool descending, Key<T> nan, F &&f) {
  constexpr int64_t kRun = 256;
  Key<T> keys[kRun];
  const Key<T> turn = descending ? ~Key<T>(0) : 0;
  for (int64_t i = 0; i < n; i += kRun) {
    const int64_t m = min_of<int64_t>(kRun, n - i);
    Key<T> least = ~Key<T>(0);
    if (inner == 1) {
      for (int64_t j = 0; j < m; ++j) keys[j] = key_of(value_of(x[i + j]), nan) ^ turn;
    } else {
      for (int64_t j = 0; j < m; ++j) keys[j] = key_of(value_of(x[(i + j) * inner]), nan) ^ turn;
    }
    for (int64_t j = 0; j < m; ++j) least = min_of(least, keys[j]);
    f(i, keys, m, least);
  }
}

// A key that no fewer than k of the keys of a line are at or before: the k-th of the least ones of 64 parts (elements 0, 64, 128 ..., 1, 65
// ...). Of 1000 random elements about k + k * k / 128 are so. `most`: all are.
template <class T>
inline Key<T> bound_of_first(const T *x, int64_t n, int64_t k, bool descending) {
  constexpr int64_t kParts = 64;
  Key<T> least[kParts];
  for (Key<T> &key : least) key = ~Key<T>(0);
  each_run_of_keys(x, n, 1, descending, ~Key<T>(0), [&](int64_t, const Key<T> *keys, int64_t m, Key<T>) {
    for (; m >= kParts; m -= kParts, keys += kParts)
      for (int64_t j = 0; j < kParts; ++j) least[j] = min_of(least[j], keys[j]);
    for (int64_t j = 0; j < m; ++j) least[j] = min_of(least[j], keys[j]);
  });
  std::nth_element(least, least + k - 1, least + kParts);
  return least[k - 1];
}

// Brings the first k of `count` to the front, in order.
template <class E> inline void order_first(E *found, int64_t count, int64_t k) {
  if (k < count) std::nth_element(found, found + k - 1, found + count);
  std::sort(found, found + k);
}
// Few by k searches for the least one, over vectors: 4 of 64 take a quarter of the time.
inline void order_first(NarrowPlace *found, int64_t count, int64_t k) {
  if (k * count > 2048) {
    order_first<NarrowPlace>(found, count, k);
    return;
  }
  for (int64_t i = 0; i < k; ++i) {
    uint64_t least = ~uint64_t(0);
    for (int64_t j = i; j < count; ++j) least = min_of(least, found[j].both);
    const uint64_t first = found[i].both;
    for (int64_t j = i; j < count; ++j) found[j].both = found[j].both == least ? first : found[j].both;
    found[i].both = least;
  }
}

// The first k places of a line in order, in `found`, which has room for 2 k + kDigitsFrom.
template <class E, class T>
inline void first_places(const T *x, int64_t n, int64_t inner, int64_t k, bool descending, E *found) {
  typedef Key<T> K;
  constexpr int64_t kGroup = 16;
  const int64_t room = 2 * k + kDigitsFrom;
  int64_t count = 0;
  const bool bounded = inner == 1 && k <= 32 && n >= 256;
  E last(bounded ? bound_of_first(x, n, k, descending) : ~K(0), INT64_MAX);  // of those that are kept
  each_run_of_keys(x, n, inner, descending, ~K(0), [&](int64_t i, const K *keys, int64_t m, K least) {
    if (least > last.key()) return;
    for (int64_t g = 0; g < m; g += kGroup) {
      const int64_t end = min_of(g + kGroup, m);
      if (g + kGroup <= m && last.key() != ~K(0)) {
        K low = ~K(0);
        GH_UNROLL for (int64_t j = 0; j < kGroup; ++j) low = min_of(low, keys[g + j]);
        if (low > last.key()) continue;
      }
      for (int64_t j = g; j < end; ++j) {
        const E e(keys[j], i + j);
        if (!(e < last)) continue;
        found[count++] = e;
        if (count == room) {
          std::nth_element(found, found + k - 1, found + count);
          count = k;
          last = found[k - 1];
        }
      }
    }
  });
  order_first(found, count, k);
}

// f(line, number of it, distance of its elements) for each line; lines side by side are brought together 16 at a time where they fit a cache.
template <class T, class F>
inline void each_gathered_line(Context &ctx, const T *x, int64_t outer, int64_t n, int64_t inner, F &&f) {
  constexpr int64_t kColumns = 16, kMost = 1 << 19;
  if (inner == 1 || n * kColumns * (int64_t)sizeof(T) > kMost) {
    each_line(ctx, outer, n, inner, [&](int64_t base, int64_t line) { f(x + base, line, inner); });
    return;
  }
  const int64_t parts = (inner + kColumns - 1) / kColumns;
  ctx.parallel(outer * parts, outer * inner * n >= 16384, [&](int64_t begin, int64_t end) {
    T *lines = (T *)scratch<3>((size_t)(n * kColumns) * sizeof(T));
    for (int64_t part = begin; part < end; ++part) {
      const int64_t first = part % parts * kColumns, m = min_of(kColumns, inner - first);
      transpose2d(n, m, x + part / parts * n * inner + first, inner, lines, n);
      for (int64_t j = 0; j < m; ++j) f(lines + j * n, part / parts * inner + first + j, (int64_t)1);
    }
  });
}

template <class T> using Place = std::conditional_t<sizeof(Key<T>) == 4, NarrowPlace, WidePlace>;

template <class T>
inline void topk_lines(Context &ctx, const T *x, int64_t outer, int64_t n, int64_t inner, int64_t k, bool descending, T *values,
                       int64_t *indices) {
  typedef Place<T> E;
  if (n > (int64_t)UINT32_MAX && sizeof(Key<T>) == 4) abort();  // a line of 4 GB: no place for its places
  if (k == 0) return;
  const bool few = k < n / 8;
  const int64_t room = few ? 2 * k + kDigitsFrom : 2 * n;
  each_gathered_line(ctx, x, outer, n, inner, [&](const T *from, int64_t line, int64_t step) {
    E *found = (E *)scratch<5>((size_t)(room + 1) * sizeof(E));
    if (few) {
      first_places(from, n, step, k, descending, found);
    } else {
      each_run_of_keys(from, n, step, descending, ~Key<T>(0), [&](int64_t i, const Key<T> *keys, int64_t m, Key<T>) {
        for (int64_t j = 0; j < m; ++j) found[i + j] = E(keys[j], i + j);
      });
      found = sorted(found, found + n, n);
    }
    const int64_t out = line / inner * k * inner + line % inner;
    for (int64_t i = 0; i < k; ++i) {
      values[out + i * inner] = from[found[i].at() * step];
      indices[out + i * inner] = found[i].at();
    }
  });
}

// Numbers of bins of equal width between two keys.
template <class K> struct Bins {
  K low;
  int shift;
  Bins(K low, K high, int bits) : low(low), shift(0) {
    while ((high - low) >> shift >> bits) ++shift;
  }
  GH_INLINE int64_t of(K key) const { return int64_t((key - low) >> shift); }
};

// The bin that holds rank r, which becomes the rank inside of it.
GH_INLINE int64_t bin_of_rank(const uint32_t *count, int64_t &r) {
  int64_t bin = 0;
  for (; r >= count[bin]; ++bin) r -= count[bin];
  return bin;
}

// The place of rank r among n, which are given in the order of their places: those in one of 2048 bins, and again.
template <class E> inline E place_of_rank(E *found, int64_t n, int64_t r) {
  typedef typename E::K K;
  constexpr int kBits = 11;
  while (n > kDigitsFrom) {
    K low = ~K(0), high = 0;
    for (int64_t i = 0; i < n; ++i) low = min_of(low, found[i].key()), high = max_of(high, found[i].key());
    if (low == high) return found[r];
    const Bins<K> bins(low, high, kBits);
    uint32_t count[1 << kBits] = {};
    for (int64_t i = 0; i < n; ++i) ++count[bins.of(found[i].key())];
    const int64_t bin = bin_of_rank(count, r);
    int64_t m = 0;
    for (int64_t i = 0; i < n; ++i)
      if (bins.of(found[i].key()) == bin) found[m++] = found[i];
    n = m;
  }
  std::nth_element(found, found + r, found + n);
  return found[r];
}

// Elements of lines at q ranks each, counted in their order, and their places: what a sort has there, without the sort. Lines are read
// three times, for the least and largest key, for how many are in each bin, and for what is in the bin of a rank.
template <class T, class I>
inline void nth_lines(Context &ctx, const T *x, int64_t outer, int64_t n, int64_t inner, const I *ranks, int64_t q,
                      bool descending, T *values, int64_t *indices) {
  typedef Key<T> K;
  typedef Place<T> E;
  if (n > (int64_t)UINT32_MAX) abort();  // counts of elements would not hold them
  if (n == 0) return;
  const int bits = n < 8192 ? 8 : 11;
  each_gathered_line(ctx, x, outer, n, inner, [&](const T *from, int64_t line, int64_t step) {
    E *found = (E *)scratch<5>((size_t)(n + 1) * sizeof(E));
    K low = ~K(0), high = 0;
    const auto each = [&](auto &&f) __attribute__((always_inline)) { each_run_of_keys(from, n, step, descending, ~K(0), f); };
    each([&](int64_t, const K *keys, int64_t m, K least) {
      for (int64_t j = 0; j < m; ++j) high = max_of(high, keys[j]);
      low = min_of(low, least);
    });
    const Bins<K> bins(low, high, bits);
    uint32_t count[1 << 11];
    memset(count, 0, sizeof(uint32_t) << bits);
    each([&](int64_t, const K *keys, int64_t m, K) {
      for (int64_t j = 0; j < m; ++j) ++count[bins.of(keys[j])];
    });
    const int64_t out = line / inner * q * inner + line % inner;
    for (int64_t i = 0; i < q; ++i) {
      int64_t r = ctx.index((int64_t)ranks[out + i * inner], n), held = 0;
      const int64_t bin = bin_of_rank(count, r);
      const K first_key = K(low + (K(bin) << bins.shift)), width = K((K(1) << bins.shift) - 1);
      each([&](int64_t first, const K *keys, int64_t m, K) {
        constexpr int64_t kGroup = 16;
        for (int64_t g = 0; g < m; g += kGroup) {
          const int64_t end = min_of(g + kGroup, m);
          if (g + kGroup <= m) {
            K near = ~K(0);
            GH_UNROLL for (int64_t j = 0; j < kGroup; ++j) near = min_of(near, K(keys[g + j] - first_key));
            if (near > width) continue;  // none of them is in the bin
          }
          for (int64_t j = g; j < end; ++j) {
            found[held] = E(keys[j], first + j);
            held += K(keys[j] - first_key) <= width;
          }
        }
      });
      const int64_t at = place_of_rank(found, held, r).at();
      values[out + i * inner] = from[at * step];
      indices[out + i * inner] = at;
    }
  });
}

template <bool Max, class T>
inline void arg_lines(Context &ctx, const T *x, int64_t outer, int64_t n, int64_t inner, int64_t *out) {
  typedef Key<T> K;
  const K nan = Max ? ~K(0) : 0;  // first either way
  if (inner == 1) {
    each_line(ctx, outer, n, 1, [&](int64_t base, int64_t line) {
      K best = ~K(0);
      out[line] = 0;
      each_run_of_keys(x + base, n, 1, Max, nan, [&](int64_t i, const K *keys, int64_t m, K least) {
        if (!(least < best)) return;
        best = least;
        out[line] = i + (std::find(keys, keys + m, least) - keys);
      });
    });
    return;
  }
  constexpr int64_t kColumns = 64;  // side by side, so that a run of memory is read
  const int64_t parts = (inner + kColumns - 1) / kColumns;
  ctx.parallel(outer * parts, outer * inner * n >= 16384, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      const int64_t first = part % parts * kColumns, m = min_of(kColumns, inner - first);
      const T *from = x + part / parts * n * inner + first;
      K best[kColumns], at[kColumns];
      for (int64_t j = 0; j < kColumns; ++j) best[j] = ~K(0), at[j] = 0;
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < m; ++j) {
          const K key = key_of(value_of(from[i * inner + j]), nan) ^ (Max ? ~K(0) : 0);
          at[j] = key < best[j] ? K(i) : at[j];
          best[j] = key < best[j] ? key : best[j];
        }
      }
      int64_t *to = out + part / parts * inner + first;
      for (int64_t j = 0; j < m; ++j) to[j] = (int64_t)at[j];
    }
  });
}

}  // namespace GH_ISA_NS
}  // namespace gh
