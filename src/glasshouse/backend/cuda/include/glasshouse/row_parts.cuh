// row_parts.cuh: what a product leaves of its rows' statistics, and what the next one makes of them, so that a norm between needs no kernel.
//
// Contract
// - A part of a row is 32 columns: their sum, and the squares of their distances from their mean (`Part`). Parts are joined by distances of
//   means, never by differences of large squares.
// - `leave_part<WIDTH>(parts, m, n, eight)`: a part of row m, eight columns from n on of each of four lanes, as `sums.cuh` hands them over, stored at
//   [m][n / 32]. All lanes of a warp call it together.
// - `RowsBefore<WIDTH>{parts, eps}` is what `after_rows` (`after.cuh`) asks of rows of so many columns: their mean, and 1 / sqrt(variance + eps).
// - With weights W' = scale * W, the norm of r times W is factor * (r W' - mean * sums) + shifts; `Columns` holds sums of W' over the depth and shifts,
//   eight neighbours of each.
#pragma once
#include "after.cuh"
#include "reduce.cuh"

namespace gh {

struct Part { float sum, rest; };
// Of two lanes with `count` columns each.
GH_FN void join_parts(Part &x, int mask, float count) {
  const float sum = shuffle_xor(x.sum, mask), rest = shuffle_xor(x.rest, mask), apart = x.sum - sum;
  x.sum += sum, x.rest += rest + apart * apart * (0.5f / count);
}
template <int WIDTH, class T> GH_FN void leave_part(float *parts, int m, int n, const Vec<T, 8> &eight) {
  Part x = {0.0f, 0.0f};
#pragma unroll
  for (int i = 0; i < 8; ++i) x.sum += to_scalar(eight[i]);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const float apart = to_scalar(eight[i]) - x.sum * 0.125f;
    x.rest += apart * apart;
  }
  join_parts(x, 1, 8.0f), join_parts(x, 2, 16.0f);
  if (threadIdx.x % 4 == 0) store_vec(parts + (m * (WIDTH / 32) + n / 32) * 2, Vec<float, 2>{{x.sum, x.rest}});
}

// 1 / sqrt(x) to two units in the last place: a root and a division are sixty instructions more.
GH_FN float fast_rsqrt(float x) {
#ifdef GH_EMULATE
  return 1.0f / sqrtf(x);
#else
  float y;
  asm("rsqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#endif
}

struct Moments {
  float mean, factor;
  GH_FN float standard(float x) const { return (x - mean) * factor; }
};
template <int WIDTH> struct RowsBefore {
  static constexpr int OWN = WIDTH / 256;  // of a lane, two parts each
  static_assert(WIDTH % 256 == 0, "four lanes share the parts of a row, two neighbours each at a time");
  struct Asked { Vec<float, 4> x[OWN]; };
  typedef Moments Known;
  const float *parts;
  float eps;
  GH_FN Asked ask(int m) const {
    Asked asked;
#pragma unroll
    for (int i = 0; i < OWN; ++i) asked.x[i] = load_vec<4>(parts + m * (WIDTH / 16) + i * 16 + threadIdx.x % 4 * 4);
    return asked;
  }
  GH_FN Moments known(const Asked &asked) const {
    Part x = {0.0f, 0.0f};
#pragma unroll
    for (int i = 0; i < OWN; ++i) x.sum += asked.x[i][0] + asked.x[i][2], x.rest += asked.x[i][1] + asked.x[i][3];
    const float mean = x.sum * (1.0f / (2 * OWN));
#pragma unroll
    for (int i = 0; i < 2 * OWN; ++i) {
      const float apart = asked.x[i / 2][i % 2 * 2] - mean;
      x.rest += apart * apart * (1.0f / 32);
    }
    join_parts(x, 1, 64.0f * OWN), join_parts(x, 2, 128.0f * OWN);
    return {x.sum * (1.0f / WIDTH), fast_rsqrt(x.rest * (1.0f / WIDTH) + eps)};
  }
};

// Sums and shifts of eight columns.
struct Columns {
  Vec<float, 4> sums[2], shifts[2];
  GH_FN float normed(float product, const Moments &row, int i) const {
    return (product - row.mean * sums[i / 4][i % 4]) * row.factor + shifts[i / 4][i % 4];
  }
};
GH_FN Columns columns_at(const float *columns, int count, int n) {
  const float *p = columns + n;
  return {{load_vec<4>(p), load_vec<4>(p + 4)}, {load_vec<4>(p + count), load_vec<4>(p + count + 4)}};
}

}  // namespace gh
