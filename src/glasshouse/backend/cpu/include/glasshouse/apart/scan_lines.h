// scan_lines.h: running sums, products, extremes, log-sum-exps and linear recurrences along any axis.
//
// Contract
// - A tensor is seen as [outer, n, inner]; each line of n elements, `inner` apart, is scanned in order (from the end if `reverse`).
// - kLanes lines go side by side: neighbours along `inner` where there are any, otherwise four rows beside each other,
//   or rows that are turned a tile at a time. So each line is summed in its own order, whatever the shape and the number of threads.
// - A rule holds what each of kLanes lines has so far. `begin()` sets it; `step(i, x, y, out, places, lanes)` takes element i of each
//   line. V is the type that elements are computed in, halves being widened; what floats add up to is held in double, because a
//   million sums in float would lose ten bits.
#pragma once
#include "../library.h"
#include "../transpose.h"

namespace gh {
inline namespace GH_ISA_NS {

constexpr int kLanes = 16;

struct ScanShape {
  long outer, n, inner;
  bool reverse;
};

template <class V> struct HeldAs { using type = V; };
template <> struct HeldAs<float> { using type = double; };
template <class V> using Held = typename HeldAs<V>::type;

template <class V, bool Exclusive> struct RunningSum {
  Held<V> held[kLanes];
  void begin() { for (auto &v : held) v = 0; }
  GH_INLINE void step(long, const V *x, const V *, V *out, int64_t *, int lanes) {
    for (int j = 0; j < lanes; j++) {
      const Held<V> next = add(held[j], Held<V>(x[j]));
      out[j] = V(Exclusive ? held[j] : next);
      held[j] = next;
    }
  }
};
template <class V> struct RunningProduct {
  Held<V> held[kLanes];
  void begin() { for (auto &v : held) v = 1; }
  GH_INLINE void step(long, const V *x, const V *, V *out, int64_t *, int lanes) {
    for (int j = 0; j < lanes; j++) out[j] = V(held[j] = mul(held[j], Held<V>(x[j])));
  }
};
// held = x held + y; of the first elements y alone, whatever x is.
template <class V> struct LinearRecurrence {
  Held<V> held[kLanes];
  bool first;
  void begin() { first = true; }
  GH_INLINE void step(long, const V *x, const V *y, V *out, int64_t *, int lanes) {
    if (first)
      for (int j = 0; j < lanes; j++) held[j] = y[j];
    else
      for (int j = 0; j < lanes; j++) held[j] = add(mul(Held<V>(x[j]), held[j]), Held<V>(y[j]));
    for (int j = 0; j < lanes; j++) out[j] = V(held[j]);
    first = false;
  }
};
// The last of equals; NaN beats everything, the last one again.
template <class V, bool Max> struct RunningExtreme {
  // Whether x takes the place of what is held.
  GH_INLINE static bool wins(V x, V held) { return (Max ? x >= held : x <= held) || x != x; }
  V held[kLanes];
  int64_t place[kLanes];
  bool first;
  void begin() { first = true; }
  GH_INLINE void step(long i, const V *x, const V *, V *out, int64_t *places, int lanes) {
    for (int j = 0; j < lanes; j++) {
      const bool now = first || wins(x[j], held[j]);
      held[j] = now ? x[j] : held[j];
      place[j] = now ? (int64_t)i : place[j];
      out[j] = held[j], places[j] = place[j];
    }
    first = false;
  }
};
// log(e^a + e^b) = max(a, b) + log1p(e^-|a - b|). The second term is computed in V: its errors are small beside what they add up to.
template <class V> struct RunningLogSumExp {
  double held[kLanes];
  void begin() { for (double &v : held) v = -std::numeric_limits<double>::infinity(); }
  GH_INLINE void step(long, const V *x, const V *, V *out, int64_t *, int lanes) {
    V more[kLanes];
    for (int j = 0; j < lanes; j++) more[j] = V(abs(held[j] - double(x[j])));
    if (sizeof(V) == 4 && lanes == 1)
      more[0] = std::log1p(std::exp(-more[0]));
    else if constexpr (sizeof(V) == 4)
      for_each_vector(lanes, [&](long j, auto t) { store(more + j, log1p(exp(-load(more + j, t))), t); });
    else
      for (int j = 0; j < lanes; j++) more[j] = log1p(exp(-more[j]));
    for (int j = 0; j < lanes; j++) {
      const double top = max(held[j], double(x[j]));
      held[j] = is_nan(top) || is_inf(top) ? top : top + more[j];
      out[j] = V(held[j]);
    }
  }
};

template <class V, class T> GH_INLINE V widened(T x) { return V(value_of(x)); }

// `lanes` neighbours along inner, from `base` on.
template <class Rule, class V, class T, class O>
inline void scan_columns(const ScanShape &s, long base, int lanes, const T *x, const T *y, O *out, int64_t *places) {
  Rule rule;
  rule.begin();
  V a[kLanes] = {}, b[kLanes] = {}, c[kLanes];
  int64_t at[kLanes];
  auto run = [&](int n) __attribute__((always_inline)) {
    for (long k = 0; k < s.n; k++) {
      const long i = s.reverse ? s.n - 1 - k : k, p = base + i * s.inner;
      for (int j = 0; j < n; j++) a[j] = widened<V>(x[p + j]);
      if (y)
        for (int j = 0; j < n; j++) b[j] = widened<V>(y[p + j]);
      rule.step(i, a, b, c, at, n);
      for (int j = 0; j < n; j++) out[p + j] = Stored<O>::of(c[j]);
      if (places)
        for (int j = 0; j < n; j++) places[p + j] = at[j];
    }
  };
  if (lanes == kLanes) run(kLanes);
  else run(lanes);
}

// `lanes` rows, each of n elements that lie together: turned kLanes elements at a time.
template <class Rule, class V, class T, class O>
inline void scan_rows(const ScanShape &s, long first, int lanes, const T *x, const T *y, O *out, int64_t *places) {
  constexpr int L = kLanes;
  Rule rule;
  rule.begin();
  V a[L], b[L] = {}, c[L];
  int64_t at[L];
  T xs[L * L], ys[L * L];
  O turned[L * L], back[L * L];
  int64_t where[L * L];
  for (long k = 0; k < s.n; k += L) {
    const int count = (int)(s.n - k < L ? s.n - k : L);
    const long from = s.reverse ? s.n - k - count : k;
    const long p = first * s.n + from;
    transpose2d(lanes, count, x + p, s.n, xs, L);
    if (y) transpose2d(lanes, count, y + p, s.n, ys, L);
    auto run = [&](int n) __attribute__((always_inline)) {
      for (int e = 0; e < count; e++) {
        const int i = s.reverse ? count - 1 - e : e;
        for (int j = 0; j < n; j++) a[j] = widened<V>(xs[i * L + j]);
        if (y)
          for (int j = 0; j < n; j++) b[j] = widened<V>(ys[i * L + j]);
        rule.step(from + i, a, b, c, at, n);
        for (int j = 0; j < n; j++) turned[i * L + j] = Stored<O>::of(c[j]);
        if (places)
          for (int j = 0; j < n; j++) where[i * L + j] = at[j];
      }
    };
    if (lanes == L) run(L);
    else run(lanes);
    transpose2d(count, lanes, turned, L, back, L);
    for (int j = 0; j < lanes; j++) memcpy((void *)(out + p + j * s.n), back + j * L, (size_t)count * sizeof(O));
    if (places)
      for (int j = 0; j < lanes; j++)
        for (int e = 0; e < count; e++) places[p + j * s.n + e] = where[e * L + j];
  }
}

// R rows side by side, element by element: their chains of additions overlap, and no tile is turned.
template <class Rule, class V, int R, class T, class O>
inline void scan_beside(const ScanShape &s, long first, const T *x, const T *y, O *out, int64_t *places) {
  Rule rule;
  rule.begin();
  V a[R], b[R] = {}, c[R];
  int64_t at[R];
  const long begin = first * s.n;
  auto run = [&](auto second, auto placed) __attribute__((always_inline)) {
#pragma GCC unroll 2
    for (long k = 0; k < s.n; k++) {
      const long i = s.reverse ? s.n - 1 - k : k, p = begin + i;
      GH_UNROLL for (int j = 0; j < R; j++) a[j] = widened<V>(x[p + j * s.n]);
      if constexpr (decltype(second)::value) GH_UNROLL
        for (int j = 0; j < R; j++) b[j] = widened<V>(y[p + j * s.n]);
      rule.step(i, a, b, c, at, R);
      GH_UNROLL for (int j = 0; j < R; j++) out[p + j * s.n] = Stored<O>::of(c[j]);
      if constexpr (decltype(placed)::value) GH_UNROLL
        for (int j = 0; j < R; j++) places[p + j * s.n] = at[j];
    }
  };
  typedef std::true_type Yes;
  typedef std::false_type No;
  if (places) run(No{}, Yes{});
  else if (y) run(Yes{}, No{});
  else run(No{}, No{});
}

// A row of extremes: of n random elements few change what is held (8 of 2000), so runs that hold none are filled.
template <class V, bool Max, class T, class O>
inline void extremes_of_row(long n, const T *x, O *out, int64_t *places) {
  typedef RunningExtreme<V, Max> Rule;
  constexpr long kRun = 32;
  V held = n ? widened<V>(x[0]) : V();
  int64_t place = 0;
  bool busy = true;  // the last run changed it: the next one is not asked
  for (long i = 0; i < n; i += kRun) {
    const long end = i + kRun < n ? i + kRun : n;
    bool changes = busy;
    if (!busy) {
      int any = 0;
      for (long j = i; j < end; j++) any |= Rule::wins(widened<V>(x[j]), held);
      changes = any;
    }
    if (changes) {
      const int64_t before = place;
      for (long j = i; j < end; j++) {
        const V now = widened<V>(x[j]);
        if (Rule::wins(now, held)) held = now, place = j;
        out[j] = Stored<O>::of(held), places[j] = place;
      }
      busy = place != before;
    } else {
      const O value = Stored<O>::of(held);
      for (long j = i; j < end; j++) out[j] = value;
      for (long j = i; j < end; j++) places[j] = place;
    }
  }
}

// Rows from `first` on, as they are scanned best.
template <class Rule, class V> struct RowScan {
  template <class T, class O>
  static void of(const ScanShape &s, long first, int lanes, const T *x, const T *y, O *out, int64_t *places) {
    const long end = first + lanes;
    for (; first + 4 <= end; first += 4) scan_beside<Rule, V, 4>(s, first, x, y, out, places);
    for (; first < end; first++) scan_beside<Rule, V, 1>(s, first, x, y, out, places);
  }
};
// Functions of vectors are worth turning tiles for.
template <class V> struct RowScan<RunningLogSumExp<V>, V> {
  template <class T, class O>
  static void of(const ScanShape &s, long first, int lanes, const T *x, const T *y, O *out, int64_t *places) {
    if (lanes == 1) scan_beside<RunningLogSumExp<V>, V, 1>(s, first, x, y, out, places);
    else scan_rows<RunningLogSumExp<V>, V>(s, first, lanes, x, y, out, places);
  }
};
template <class V, bool Max> struct RowScan<RunningExtreme<V, Max>, V> {
  template <class T, class O>
  static void of(const ScanShape &s, long first, int lanes, const T *x, const T *, O *out, int64_t *places) {
    for (long p = first * s.n; p < (first + lanes) * s.n; p += s.n) extremes_of_row<V, Max>(s.n, x + p, out + p, places + p);
  }
};

template <class Rule, class V, class T, class O>
inline void scan_lines(Context &ctx, const ScanShape &s, const T *x, const T *y, O *out, int64_t *places) {
  const bool rows = s.inner == 1;
  const long lines = rows ? s.outer : s.inner, blocks = (lines + kLanes - 1) / kLanes, turns = rows ? 1 : s.outer;
  ctx.parallel(turns * blocks, s.outer * s.n * s.inner >= 16384, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      const long first = i % blocks * kLanes;
      const int lanes = (int)(lines - first < kLanes ? lines - first : kLanes);
      if (rows) RowScan<Rule, V>::of(s, first, lanes, x, y, out, places);
      else scan_columns<Rule, V>(s, i / blocks * s.n * s.inner + first, lanes, x, y, out, places);
    }
  });
}

}  // namespace GH_ISA_NS
}  // namespace gh
