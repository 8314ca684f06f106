// columns.h: epilogues in two steps: what a vector of columns alone decides, then what is done for each row of it.
//
// Contract
// - `ByColumns{of}`: of(col, range) loads scales and biases of those columns, and gives what takes each row's sums: (row, acc). It is an epilogue
//   like any other, epi(row, col, acc, range); routines that stay with a vector of columns for many rows ask for the first step once.
// - `columns_of(epi, col, range)`: that step, of any epilogue.
// - Bytes may be stored anywhere as far as the compiler knows, so that in one step scales and biases are read, and multiplied, again for every
//   vector of results: 12544x16x96 took 18 cycles for each with a `quantize` behind, 15.5 in two steps, 13 with its division folded into
//   scales and biases (one Zen 4 core; the products of bytes alone take 9.5).
#pragma once
#include "vec.h"
#include <type_traits>

namespace gh {
inline namespace GH_ISA_NS {

template <class F>
struct ByColumns {
  F of;
  template <class A, class R>
  GH_INLINE void operator()(long row, long col, A acc, R t) const { of(col, t)(row, acc); }
};
template <class F>
ByColumns(F) -> ByColumns<F>;

template <class Epi>
constexpr bool kIsByColumns = false;
template <class F>
constexpr bool kIsByColumns<ByColumns<F>> = true;

template <class Epi, class R>
GH_INLINE auto columns_of(Epi &epi, long col, R t) {
  if constexpr (kIsByColumns<std::remove_const_t<Epi>>) return epi.of(col, t);
  else return [&epi, col, t](long row, auto acc) __attribute__((always_inline)) { epi(row, col, acc, t); };
}

}  // namespace GH_ISA_NS
}  // namespace gh
