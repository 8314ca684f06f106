// recurrent_grad.cuh: the gradient of the loop over time of recurrent layers, as one kernel: a cluster of blocks goes back through all steps for a few
// rows of the batch, which are independent of the others'.
//
// Contract
// - `g` [steps, batch, hidden] is the gradient of the states; `given` and `recurred` [steps, batch, gates, hidden] are the input's and the state's share
//   of the gates, `weights` [gates, hidden, hidden] made the second. Gates: input, forget, new, output (Lstm); reset, keep, new (Gru); one (Tanh, Relu).
// - gridDim: the CLUSTER's blocks, runs of ROWS rows. Blocks tell each other what they have through global memory: `meet` is a barrier of the
//   cluster behind which it is seen.
// - `through`, the gradient of the state's share, is that of the gates but for Gru. A step goes by threads of the cluster, unit by unit; then every block
//   adds up its own units of the gradient of the state before, 32 at a time, a lane each, its warps sharing the gates in order; `room` has a word for
//   each thread and row.
#pragma once
#include "cluster.cuh"

namespace gh {

template <int CLUSTER> GH_FN void meet() {
  if constexpr (CLUSTER > 1) cluster_meets();
  else __syncthreads();
}

struct Recurrence {
  int steps, batch, hidden;
  bool reverse;
  GH_FN int at(int s) const { return reverse ? steps - 1 - s : s; }
};

// What one unit has at a step, and what comes of it; `dh` is the gradient of its state, `dc` that of its memory from later steps.
template <class T> struct UnitBack { T dh, dc, kept; };
struct LstmBack {
  static constexpr int GATES = 4;
  template <class T> GH_FN static void back(const T (&x)[4], const T (&r)[4], T memory, T old, T, UnitBack<T> &b, T (&by)[4], T (&through)[4]) {
    const T i = sigmoid(x[0] + r[0]), f = sigmoid(x[1] + r[1]), n = gh::tanh(x[2] + r[2]), o = sigmoid(x[3] + r[3]), bent = gh::tanh(memory);
    const T dc = b.dc + b.dh * o * (1 - bent * bent);
    by[0] = dc * n * i * (1 - i), by[1] = dc * old * f * (1 - f), by[2] = dc * i * (1 - n * n), by[3] = b.dh * bent * o * (1 - o);
    for (int g = 0; g < 4; ++g) through[g] = by[g];
    b.dc = dc * f, b.kept = 0;
  }
};
struct GruBack {
  static constexpr int GATES = 3;
  template <class T> GH_FN static void back(const T (&x)[3], const T (&r)[3], T, T old, T bias, UnitBack<T> &b, T (&by)[3], T (&through)[3]) {
    const T reset = sigmoid(x[0] + r[0]), keep = sigmoid(x[1] + r[1]), inside = r[2] + bias, now = gh::tanh(x[2] + reset * inside);
    by[2] = b.dh * (1 - keep) * (1 - now * now);
    by[0] = by[2] * inside * reset * (1 - reset), by[1] = b.dh * (old - now) * keep * (1 - keep);
    through[0] = by[0], through[1] = by[1], through[2] = by[2] * reset;
    b.kept = b.dh * keep;
  }
};
struct TanhBack {
  static constexpr int GATES = 1;
  template <class T> GH_FN static void back(const T (&x)[1], const T (&r)[1], T, T, T, UnitBack<T> &b, T (&by)[1], T (&through)[1]) {
    const T h = gh::tanh(x[0] + r[0]);
    by[0] = through[0] = b.dh * (1 - h * h), b.kept = 0;
  }
};
struct ReluBack {
  static constexpr int GATES = 1;
  template <class T> GH_FN static void back(const T (&x)[1], const T (&r)[1], T, T, T, UnitBack<T> &b, T (&by)[1], T (&through)[1]) {
    by[0] = through[0] = b.dh * T(x[0] + r[0] > 0 ? 1 : 0), b.kept = 0;
  }
};

// Lstm: by_memories, memories and the first memory; Gru: the states before each step, and its bias; `all_through` is Gru's third result.
template <class Cell, int CLUSTER, int ROWS, class T>
GH_FN void recurrent_grad(const Recurrence &s, const T *g, const T *given, const T *recurred, const T *weights, const T *by_memories,
                          const T *memories, const T *first_memory, const T *olds, const T *bias, T *by_given, T *by_state, T *by_memory,
                          T *all_through, T *room) {
  constexpr int GATES = Cell::GATES;
  constexpr bool GRU = GATES == 3, LSTM = GATES == 4;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32, first = blockIdx.y * ROWS, deep = GATES * s.hidden;
  const int rows = s.batch - first < ROWS ? s.batch - first : ROWS, own = blockIdx.x * blockDim.x + threadIdx.x;
  const int64_t all = (int64_t)s.batch * s.hidden;
  const T *sent = GRU ? all_through : by_given;
  for (int e = own; e < rows * s.hidden; e += CLUSTER * blockDim.x) {
    by_state[(int64_t)first * s.hidden + e] = 0;
    if (LSTM) by_memory[(int64_t)first * s.hidden + e] = 0;
  }
  for (int step = s.steps - 1; step >= 0; --step) {
    const int t = s.at(step);
    meet<CLUSTER>();  // the gradient of the state is there
    for (int e = own; e < rows * s.hidden; e += CLUSTER * blockDim.x) {
      const int row = first + e / s.hidden, j = e % s.hidden;
      const int64_t at = (int64_t)row * s.hidden + j, cell = t * all + at, gates = ((int64_t)t * s.batch + row) * deep + j;
      T x[GATES], r[GATES], by[GATES], through[GATES];
#pragma unroll
      for (int i = 0; i < GATES; ++i) x[i] = given[gates + (int64_t)i * s.hidden], r[i] = recurred[gates + (int64_t)i * s.hidden];
      UnitBack<T> b{g[cell] + by_state[at], LSTM ? by_memory[at] + by_memories[cell] : T(0), T(0)};
      const T old = LSTM ? (step ? memories[s.at(step - 1) * all + at] : first_memory[at]) : GRU ? olds[cell] : T(0);
      Cell::back(x, r, LSTM ? memories[cell] : T(0), old, GRU ? bias[j] : T(0), b, by, through);
#pragma unroll
      for (int i = 0; i < GATES; ++i) {
        by_given[gates + (int64_t)i * s.hidden] = by[i];
        if (GRU) all_through[gates + (int64_t)i * s.hidden] = through[i];
      }
      by_state[at] = b.kept;
      if (LSTM) by_memory[at] = b.dc;
    }
    meet<CLUSTER>();  // all gates of the rows are there
    for (int k0 = blockIdx.x * 32; k0 < s.hidden; k0 += CLUSTER * 32) {
      const int k = k0 + lane;
      T sum[ROWS] = {};
      for (int d = warp; d < deep; d += warps) {
        const T w = k < s.hidden ? weights[(int64_t)d * s.hidden + k] : T(0);
#pragma unroll
        for (int r = 0; r < ROWS; ++r) sum[r] += w * sent[((int64_t)t * s.batch + (r < rows ? first + r : first)) * deep + d];
      }
#pragma unroll
      for (int r = 0; r < ROWS; ++r) room[(warp * ROWS + r) * 32 + lane] = sum[r];
      __syncthreads();
      for (int r = warp; r < rows; r += warps) {
        T whole = 0;
        for (int i = 0; i < warps; ++i) whole += room[(i * ROWS + r) * 32 + lane];
        if (k < s.hidden) by_state[(int64_t)(first + r) * s.hidden + k] += whole;
      }
      __syncthreads();
    }
  }
}

}  // namespace gh
