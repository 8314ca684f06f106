// after.cuh: what follows the results of a routine, in two parts: what it loads, and what it computes and stores.
//
// Contract
// - `out` is a function of positions and results; or `after(loads, rest)`: `loads(positions...)` gives `loaded(a, b, ...)`, and
//   `rest(positions..., results, loaded)` reads them by `get<i>`. Called as a function, it does both.
// - `loads_of(out, positions...)` and `hand_to(out, positions..., results, loaded)` take both kinds, so that a routine can load for the next
//   results first, and the way from memory is hidden behind these. Loads of one place never follow stores to another's: results that take
//   the place of an operand are stored where that element was loaded.
// - `after_rows(rows, loads, rest)`: besides, something is known of each row: `rows.ask(m)` loads it, `rows.known(asked)` makes it of that, all lanes of
//   a warp together, and `rest` takes it last. `KnownRows<Out, N>` holds it for N rows of a thread; where `out` asks for nothing it is empty.
#pragma once
#include "platform.cuh"

namespace gh {

template <class... All> struct Loaded {};
template <class First, class... Rest> struct Loaded<First, Rest...> {
  First first;
  Loaded<Rest...> rest;
};
GH_FN Loaded<> loaded() { return {}; }
template <class First, class... Rest> GH_FN Loaded<First, Rest...> loaded(const First &first, const Rest &...rest) {
  return {first, loaded(rest...)};
}
template <int I, class First, class... Rest> GH_FN const auto &get(const Loaded<First, Rest...> &from) {
  if constexpr (I == 0) return from.first;
  else return get<I - 1>(from.rest);
}

template <class Loads, class Rest> struct After {
  Loads loads;
  Rest rest;
  template <class R> GH_FN void operator()(int a, int b, const R &results) const { rest(a, b, results, loads(a, b)); }
  template <class R> GH_FN void operator()(int a, int b, int c, int d, const R &results) const {
    rest(a, b, c, d, results, loads(a, b, c, d));
  }
};
template <class Loads, class Rest> GH_FN After<Loads, Rest> after(const Loads &loads, const Rest &rest) { return {loads, rest}; }

template <class Rows, class Loads, class Rest> struct AfterRows {
  Rows rows;
  Loads loads;
  Rest rest;
};
template <class Rows, class Loads, class Rest>
GH_FN AfterRows<Rows, Loads, Rest> after_rows(const Rows &rows, const Loads &loads, const Rest &rest) { return {rows, loads, rest}; }

template <class Out, int N> struct KnownRows {
  GH_FN void ask(const Out &, const int (&)[N]) {}
  GH_FN void know(const Out &) {}
};
template <class Rows, class Loads, class Rest, int N> struct KnownRows<AfterRows<Rows, Loads, Rest>, N> {
  typename Rows::Asked asked[N];
  typename Rows::Known known[N];
  GH_FN void ask(const AfterRows<Rows, Loads, Rest> &out, const int (&m)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) asked[i] = out.rows.ask(m[i]);
  }
  GH_FN void know(const AfterRows<Rows, Loads, Rest> &out) {
#pragma unroll
    for (int i = 0; i < N; ++i) known[i] = out.rows.known(asked[i]);
  }
};

template <class Out> GH_FN Loaded<> loads_of(const Out &, int, int) { return {}; }
template <class Loads, class Rest> GH_FN auto loads_of(const After<Loads, Rest> &out, int a, int b) { return out.loads(a, b); }
template <class Rows, class Loads, class Rest> GH_FN auto loads_of(const AfterRows<Rows, Loads, Rest> &out, int a, int b) { return out.loads(a, b); }
template <class Out, class R> GH_FN void hand_to(const Out &out, int a, int b, const R &results, const Loaded<> &) { out(a, b, results); }
template <class Loads, class Rest, class R, class L>
GH_FN void hand_to(const After<Loads, Rest> &out, int a, int b, const R &results, const L &loaded) {
  out.rest(a, b, results, loaded);
}
// The same for a row of which something may be known, number `i` of those that were asked for.
template <class Out, int N, class R, class L>
GH_FN void hand_row_to(const Out &out, int a, int b, const R &results, const L &loaded, const KnownRows<Out, N> &, int) {
  hand_to(out, a, b, results, loaded);
}
template <class Rows, class Loads, class Rest, int N, class R, class L>
GH_FN void hand_row_to(const AfterRows<Rows, Loads, Rest> &out, int a, int b, const R &results, const L &loaded,
                       const KnownRows<AfterRows<Rows, Loads, Rest>, N> &rows, int i) {
  out.rest(a, b, results, loaded, rows.known[i]);
}

}  // namespace gh
