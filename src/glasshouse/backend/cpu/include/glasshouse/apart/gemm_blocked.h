// gemm_blocked.h: products whose blocks have a given number of rows.
//
// Contract
// - `Blocked<Src, R>` in the place of a source `Src` of gemm.h: a block of A has R rows, whatever fits into the cache. Blocks of fewer rows
//   than a tile of registers are as slow as they look.
#pragma once
#include "../gemm.h"

namespace gh {
inline namespace GH_ISA_NS {

template <class Src, long R>
struct Blocked : Src {};

template <class D, class Src, long R>
struct SerialPlan<D, Blocked<Src, R>> : SerialPlan<D, Src> {
  SerialPlan(const Blocked<Src, R> &src, long K) : SerialPlan<D, Src>(src, K) { this->block = R; }
};

}  // namespace GH_ISA_NS
}  // namespace gh
