// recurrent.cuh: the loop over time of recurrent layers, in one kernel.
//
// Contract
// - given [steps, batch, GATES * HIDDEN] is the input's share of the gates, weights [GATES * HIDDEN, HIDDEN] make the state's; rest is the first memory
//   [batch, HIDDEN] of an LSTM, the bias [HIDDEN] of a GRU's reset part, null otherwise. out and memories (an LSTM's) are [steps, batch, HIDDEN].
// - BLOCKS blocks of a cluster take ROWS rows of the batch through all steps: gridDim.x = ceil(batch / ROWS) * BLOCKS. Each block has a share of the
//   units, with all of their gates; the whole state is in each block's shared memory, twice, and new parts of it are sent to all (`cluster.cuh`). With
//   one block there is no cluster.
// - HELD: the weights of a block's units stay in its shared memory; otherwise they are read again in each step. `RecurrentRoom` says what it takes.
// - Sums over the depth are taken in PARTS, joined in order: the same from run to run.
#pragma once
#include "cluster.cuh"

namespace gh {

struct LstmCell {
  static constexpr int GATES = 4;
  static constexpr bool MEMORY = true;
  template <class T> GH_FN static T step(const T (&x)[4], const T (&r)[4], T, T &memory) {
    memory = sigmoid(x[1] + r[1]) * memory + sigmoid(x[0] + r[0]) * tanh(x[2] + r[2]);
    return sigmoid(x[3] + r[3]) * tanh(memory);
  }
};
struct GruCell {
  static constexpr int GATES = 3;
  static constexpr bool MEMORY = false;
  template <class T> GH_FN static T step(const T (&x)[3], const T (&r)[3], T before, T &bias) {
    const T now = tanh(x[2] + sigmoid(x[0] + r[0]) * (r[2] + bias));
    return now + sigmoid(x[1] + r[1]) * (before - now);
  }
};
struct TanhCell {
  static constexpr int GATES = 1;
  static constexpr bool MEMORY = false;
  template <class T> GH_FN static T step(const T (&x)[1], const T (&r)[1], T, T &) { return tanh(x[0] + r[0]); }
};
struct ReluCell : TanhCell {
  template <class T> GH_FN static T step(const T (&x)[1], const T (&r)[1], T, T &) { return relu(x[0] + r[0]); }
};

template <class Cell, int BLOCKS, int ROWS, int HIDDEN, class T> struct RecurrentRoom {
  static constexpr int THREADS = 256, VEC = 16 / sizeof(T), DEPTH = (HIDDEN + VEC - 1) / VEC;
  static constexpr int UNITS = (HIDDEN + BLOCKS - 1) / BLOCKS, LINES = Cell::GATES * UNITS;
  static constexpr int MANY = LINES < THREADS ? THREADS / LINES : 1, PARTS = MANY < DEPTH ? MANY : DEPTH;
  static constexpr int STATES = 16, SUMS = STATES + 2 * ROWS * DEPTH * 16, OWN = SUMS + PARTS * ROWS * LINES * (int)sizeof(T);
  static constexpr int WEIGHTS = (OWN + ROWS * UNITS * (int)sizeof(T) + 15) / 16 * 16, ALL = WEIGHTS + LINES * DEPTH * 16;
};

template <class Cell, int BLOCKS, int ROWS, int HIDDEN, bool HELD, class T>
GH_FN void recurrent(const T *given, const T *first, const T *weights, const T *rest, int64_t steps, int64_t batch, bool reverse, T *out, T *memories) {
  typedef RecurrentRoom<Cell, BLOCKS, ROWS, HIDDEN, T> Room;
  constexpr int G = Cell::GATES, V = Room::VEC, DEPTH = Room::DEPTH, UNITS = Room::UNITS, LINES = Room::LINES, PARTS = Room::PARTS;
  constexpr int THREADS = Room::THREADS, MINE = (ROWS * UNITS + THREADS - 1) / THREADS, EACH = (DEPTH + PARTS - 1) / PARTS;
  GH_SHARED_ROOM(room);
  Barrier *ready = (Barrier *)room;                          // when the state of a step is there, by its number modulo 2
  Vec<T, V> *states = (Vec<T, V> *)(room + Room::STATES);    // [2, ROWS, DEPTH]
  T *sums = (T *)(room + Room::SUMS);                        // [PARTS, ROWS, LINES]
  T *own = (T *)(room + Room::OWN);                          // [ROWS, UNITS]: memory, or the bias
  Vec<T, V> *held = (Vec<T, V> *)(room + Room::WEIGHTS);     // [DEPTH, LINES]
  const int thread = threadIdx.x, begin = blockIdx.x % BLOCKS * UNITS;
  const int64_t row0 = (int64_t)(blockIdx.x / BLOCKS) * ROWS;
  auto weight = [&](int line, int k) {
    const int unit = begin + line % UNITS;
    Vec<T, V> found = {};
    if (unit >= HIDDEN) return found;
    const T *from = weights + ((int64_t)(line / UNITS) * HIDDEN + unit) * HIDDEN + k * V;
    if constexpr (HIDDEN % V == 0) return load_vec<V>(from);
#pragma unroll
    for (int v = 0; v < V; ++v)
      if (k * V + v < HIDDEN) found[v] = from[v];
    return found;
  };
  if constexpr (BLOCKS > 1) {
    if (thread < 2) barrier_begins(&ready[thread], 1);
  }
  for (int i = thread; i < 2 * ROWS * DEPTH * V; i += THREADS) {
    const int row = i / (DEPTH * V), unit = i % (DEPTH * V);
    const bool inside = row < ROWS && unit < HIDDEN && row0 + row < batch;
    ((T *)states)[i] = inside ? first[(row0 + row) * HIDDEN + unit] : T(0);
  }
  for (int j = thread; j < ROWS * UNITS; j += THREADS) {
    const int unit = begin + j % UNITS;
    const int64_t row = row0 + j / UNITS;
    own[j] = rest && unit < HIDDEN && row < batch ? rest[Cell::MEMORY ? row * HIDDEN + unit : unit] : T(0);
  }
  if constexpr (HELD)
    for (int i = thread; i < LINES * DEPTH; i += THREADS) held[i % DEPTH * LINES + i / DEPTH] = weight(i / DEPTH, i % DEPTH);
  __syncthreads();
  if constexpr (BLOCKS > 1) cluster_arrives(), cluster_waits();  // all barriers are there
  for (int64_t s = 0; s < steps; ++s) {
    const int64_t t = reverse ? steps - 1 - s : s;
    T x[MINE][G];  // asked for before the state is waited for
#pragma unroll
    for (int m = 0; m < MINE; ++m) {
      const int j = thread + m * THREADS, unit = begin + j % UNITS;
      const int64_t row = row0 + j / UNITS;
      const bool inside = j < ROWS * UNITS && unit < HIDDEN && row < batch;
#pragma unroll
      for (int g = 0; g < G; ++g) x[m][g] = inside ? given[((t * batch + row) * G + g) * HIDDEN + unit] : T(0);
    }
    if constexpr (BLOCKS > 1) {
      if (s) {
        if (thread == 0) expect_bytes(&ready[s % 2], ROWS * HIDDEN * (int)sizeof(T));
        wait_round(&ready[s % 2], (int)((s - 1) / 2 % 2));
      }
    }
    const Vec<T, V> *now = states + s % 2 * ROWS * DEPTH;
    for (int job = thread; job < LINES * PARTS; job += THREADS) {
      const int line = job % LINES, part = job / LINES, last = (part + 1) * EACH < DEPTH ? (part + 1) * EACH : DEPTH;
      T sum[ROWS] = {};
#pragma unroll 4
      for (int k = part * EACH; k < last; ++k) {
        Vec<T, V> w;
        if constexpr (HELD) w = held[k * LINES + line];
        else w = weight(line, k);
#pragma unroll
        for (int row = 0; row < ROWS; ++row) {
          const Vec<T, V> h = now[row * DEPTH + k];
#pragma unroll
          for (int v = 0; v < V; ++v) sum[row] += w[v] * h[v];
        }
      }
#pragma unroll
      for (int row = 0; row < ROWS; ++row) sums[(part * ROWS + row) * LINES + line] = sum[row];
    }
    __syncthreads();
#pragma unroll
    for (int m = 0; m < MINE; ++m) {
      const int j = thread + m * THREADS, row = j / UNITS, u = j % UNITS, unit = begin + u;
      if (j >= ROWS * UNITS || unit >= HIDDEN) continue;
      T next = T(0);
      if (row0 + row < batch) {
        T r[G];
#pragma unroll
        for (int g = 0; g < G; ++g) {
          r[g] = T(0);
          for (int part = 0; part < PARTS; ++part) r[g] += sums[(part * ROWS + row) * LINES + g * UNITS + u];
        }
        next = Cell::step(x[m], r, ((const T *)now)[row * DEPTH * V + unit], own[j]);
        const int64_t to = (t * batch + row0 + row) * HIDDEN + unit;
        out[to] = next;
        if constexpr (Cell::MEMORY) memories[to] = own[j];
      }
      T *place = (T *)(states + (s + 1) % 2 * ROWS * DEPTH) + row * DEPTH * V + unit;
      if constexpr (BLOCKS > 1) {
        if (s + 1 < steps)
#pragma unroll
          for (int block = 0; block < BLOCKS; ++block) send_to_block(place, next, &ready[(s + 1) % 2], block);
      } else {
        *place = next;
      }
    }
    if constexpr (BLOCKS == 1) __syncthreads();  // with more, who has the next state has it from threads that are done with these sums
  }
}

}  // namespace gh
