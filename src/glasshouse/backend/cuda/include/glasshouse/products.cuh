// products.cuh: operands of products of one value with several weights, each where it lies, for `gemv` and `gemm_tma`, `gemm_turns`.
//
// Contract
// - `NormedRows`: the left operand of `gemv` before its norm. Squares are added up beside the products of x * scale, and what is handed
//   over is divided by their root: the sums need no second turn.
// - `WeightRows<T, PARTS>`: columns of several weights, one behind the other. `GatedRows<T, Gate>`: column n of two weights, whose sums become
//   one by `Gate`.
// - `MappedParts<T, PARTS, COLUMNS, BOX>`, `MappedGate<T, COLUMNS, Gate>`: the same by the copy engine. COLUMNS come in boxes, each of which lies in
//   one weight; or COLUMNS of the gate, then as many of what it lets through, so that a thread has both sums of an element.
#pragma once
#include "tensor_map.cuh"

namespace gh {

struct Silu {
  GH_FN float operator()(float gate, float passed) const { return silu(gate) * passed; }
};
struct Gelu {
  GH_FN float operator()(float gate, float passed) const { return gelu(gate) * passed; }
};

template <class T_> struct NormedRows {
  typedef T_ T;
  static constexpr bool normed = true;
  const T *p;
  int64_t outer_step;
  const T *scale;
  float eps;
};

template <class T, int PARTS> struct WeightRows {
  static constexpr int each = 1;
  const T *weights[PARTS];
  int ends[PARTS];
  int64_t outer_step;
  GH_FN const T *row(int n, int) const {
    const T *p = weights[0];
    int first = 0;
#pragma unroll
    for (int i = 1; i < PARTS; ++i)
      if (n >= ends[i - 1]) p = weights[i], first = ends[i - 1];
    return p + (n - first) * outer_step;
  }
  GH_FN float one(const float *sums) const { return sums[0]; }
};

template <class T, class Gate> struct GatedRows {
  static constexpr int each = 2;
  const T *gate, *passed;
  int64_t outer_step;
  GH_FN const T *row(int n, int which) const { return (which ? passed : gate) + n * outer_step; }
  GH_FN float one(const float *sums) const { return Gate()(sums[0], sums[1]); }
};

#if defined(GH_EMULATE) || __CUDA_ARCH__ >= 900
template <class T, int PARTS, int COLUMNS, int BOX> struct MappedParts {
  static constexpr bool eights = true;
  static constexpr int each = 1;
  const TensorMap *maps[PARTS];
  int ends[PARTS];
  GH_FN const TensorMap &map_of(int &n) const {
    const TensorMap *map = maps[0];
    int first = 0;
#pragma unroll
    for (int i = 1; i < PARTS; ++i)
      if (n >= ends[i - 1]) map = maps[i], first = ends[i - 1];
    n -= first;
    return *map;
  }
  GH_FN void prefetch(int n, int k) const {
#pragma unroll
    for (int i = 0; i < COLUMNS; i += BOX) {
      int at = n + i;
      const TensorMap &map = map_of(at);
      prefetch_eights(map, k, at);
    }
  }
  GH_FN void fetch(T *to, int n, int k, Barrier *b) const {
#pragma unroll
    for (int i = 0; i < COLUMNS; i += BOX) {
      int at = n + i;
      const TensorMap &map = map_of(at);
      fetch_eights(to + i * 64, map, k, at, b);
    }
  }
};

template <class T, int COLUMNS, class Gate> struct MappedGate {
  static constexpr bool eights = true;
  static constexpr int each = 2;
  const TensorMap &gate, &passed;
  GH_FN void prefetch(int n, int k) const { prefetch_eights(gate, k, n), prefetch_eights(passed, k, n); }
  GH_FN void fetch(T *to, int n, int k, Barrier *b) const {
    fetch_eights(to, gate, k, n, b);
    fetch_eights(to + COLUMNS * 64, passed, k, n, b);
  }
  GH_FN float one(float gate_, float passed_) const { return Gate()(gate_, passed_); }
};
#endif

}  // namespace gh
