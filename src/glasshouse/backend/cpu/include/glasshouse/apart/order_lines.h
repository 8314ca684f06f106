// order_lines.h: sorting, the k first and the first of lines, by whole numbers that are in the order of the elements.
//
// Contract
// - "Lines" as in library.h. `topk_lines` is stable: equal elements keep their order both ways; NaN is the largest, -0 equals 0, all
//   NaN are equal. T is an element type, halves compare as floats. `arg_lines` gives the first of equals, and a NaN where there is one.
// - Elements never are compared: a key and the place together are one number (`NarrowPlace`, `WidePlace`), different for all, so that a sort
//   by digits is stable by itself. 8000 floats take 0.06 ms; std::sort over places took 1.0.
#pragma once
#include "../library.h"
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

template <class T>
inline void topk_lines(Context &ctx, const T *x, int64_t outer, int64_t n, int64_t inner, int64_t k, bool descending, T *values,
                       int64_t *indices) {
  typedef Key<T> K;
  typedef std::conditional_t<sizeof(K) == 4, NarrowPlace, WidePlace> E;
  if (n > (int64_t)UINT32_MAX && sizeof(K) == 4) abort();  // a line of 4 GB: no place for its places
  if (k == 0) return;
  const bool few = k < n / 8;
  const int64_t room = few ? 2 * k + kDigitsFrom : 2 * n;
  each_line(ctx, outer, n, inner, [&](int64_t base, int64_t line) {
    E *found = (E *)scratch<5>((size_t)(room + 1) * sizeof(E));
    int64_t count = 0;
    E last(~K(0), INT64_MAX);  // of those that are kept
    each_run_of_keys(x + base, n, inner, descending, ~K(0), [&](int64_t i, const K *keys, int64_t m, K least) {
      if (few && least > last.key()) return;
      for (int64_t j = 0; j < m; ++j) {
        const E e(keys[j], i + j);
        if (few && !(e < last)) continue;
        found[count++] = e;
        if (few && count == room) {
          std::nth_element(found, found + k - 1, found + count);
          count = k;
          last = found[k - 1];
        }
      }
    });
    if (few) {
      if (k < count) std::nth_element(found, found + k - 1, found + count);
      std::sort(found, found + k);
    } else {
      found = sorted(found, found + n, n);
    }
    const int64_t out = line / inner * k * inner + line % inner;
    for (int64_t i = 0; i < k; ++i) {
      values[out + i * inner] = x[base + found[i].at() * inner];
      indices[out + i * inner] = found[i].at();
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
