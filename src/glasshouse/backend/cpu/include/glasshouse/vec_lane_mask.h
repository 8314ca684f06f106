// vec_lane_mask.h: the mask of ISAs that have no register for one: a vector whose lanes are 0 or -1. Included by vec.h alone.
#pragma once
namespace gh {
inline namespace GH_ISA_NS {

struct vm {
  ni m;  // each lane 0 or -1
};
GH_INLINE vm operator&(vm a, vm b) { return {a.m & b.m}; }
GH_INLINE vm operator|(vm a, vm b) { return {a.m | b.m}; }
GH_INLINE vm operator^(vm a, vm b) { return {a.m ^ b.m}; }
GH_INLINE vm operator!(vm a) { return {~a.m}; }
GH_INLINE vm first_n(int n) { return {iota().v < (ni{} + n)}; }

struct Tail {
  int n;
  vm m;
  GH_INLINE explicit Tail(int count) : n(count), m(first_n(count)) {}
};

}  // namespace GH_ISA_NS
}  // namespace gh
