// results.cuh: results that a thread has found, handed to what follows.
#pragma once
#include "launch.cuh"

namespace gh {

// One result, handed over.
template <class R, class Out> GH_FN void once(const R &result, int pixel, int c, Out &&out) { out(pixel, c, result); }

// Neighbouring results that lie in memory, as what follows takes them.
template <int V, class T> GH_FN Vec<Wide<T>, V> widened(const T *from) {
  const Vec<T, V> x = load_vec<V>(from);
  Vec<Wide<T>, V> out;
#pragma unroll
  for (int u = 0; u < V; ++u) out[u] = to_scalar(x[u]);
  return out;
}

}  // namespace gh
