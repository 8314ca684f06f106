// extremes.cuh: places of the largest or smallest elements along an axis.
//
// Contract
// - "Lines" of a tensor seen as [outer, n, inner] are its n elements along the middle axis, `inner` apart.
// - `arg_lines<MAX, PARTS, BESIDE>`: blocks of 256 threads, each with 256 / PARTS neighbouring lines, whose elements PARTS threads share in turns. BESIDE:
//   neighbouring threads take neighbouring lines, otherwise neighbouring elements.
// - NaN is the largest and the smallest element, as in NumPy; the first of equal ones counts, whoever finds it.
#pragma once
#include "launch.cuh"

namespace gh {

template <bool MAX, class V> struct Extreme {
  V value;
  int64_t place;  // -1: nothing yet
  GH_FN static Extreme of(Extreme a, Extreme b) {
    if (a.place < 0 || b.place < 0) return a.place < 0 ? b : a;
    const bool ahead = a.value != a.value ? b.value == b.value : b.value == b.value && (MAX ? a.value > b.value : a.value < b.value);
    const bool behind = b.value != b.value ? a.value == a.value : a.value == a.value && (MAX ? b.value > a.value : b.value < a.value);
    return ahead || (!behind && a.place < b.place) ? a : b;
  }
};

template <bool MAX, int PARTS, bool BESIDE, class T> GH_FN void arg_lines(const T *x, int64_t lines, int64_t n, int64_t inner, int64_t *out) {
  typedef Extreme<MAX, Wide<T>> State;
  constexpr int LINES = 256 / PARTS, APART = BESIDE ? LINES : 1;  // threads of one line in the block
  __shared__ double room[256 * 2];
  static_assert(sizeof(State) <= 16, "a state is two words at most");
  State *states = (State *)room;
  const int column = BESIDE ? threadIdx.x % LINES : threadIdx.x / PARTS, part = BESIDE ? threadIdx.x / LINES : threadIdx.x % PARTS;
  const int64_t line = (int64_t)blockIdx.x * LINES + column;
  const T *from = x + line / inner * n * inner + line % inner;
  State mine = {Wide<T>(0), -1};
  const int64_t end = line < lines ? n : 0;
#pragma unroll 8
  for (int64_t i = part; i < end; i += PARTS) mine = State::of(mine, {to_scalar(from[i * inner]), i});
  for (int half = PARTS / 2; half; half /= 2) {
    states[threadIdx.x] = mine;
    __syncthreads();
    if (part < half) mine = State::of(mine, states[threadIdx.x + half * APART]);
    __syncthreads();
  }
  if (part == 0 && line < lines) out[line] = mine.place;
}

}  // namespace gh
