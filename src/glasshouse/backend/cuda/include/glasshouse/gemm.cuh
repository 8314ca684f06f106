// gemm.cuh: matrix products C[M x N] = A[M x K] B[K x N], handed over element by element to what follows (`out`).
//
// Contract
// - Operands are loaders. `Matrix<T, ACROSS, WHOLE>` reads a matrix where it lies; `ACROSS`: neighbours are neighbours along m (or
//   n), otherwise along k. `WHOLE`: rows of 8 elements are aligned to 16 bytes and entirely inside or outside.
//   `fix(m)` is what a thread keeps of a row, `at(fixed, k)` the address of 8 elements and whether they are inside, `get(m, k)` one element or 0.
//   No address is null. Of "a pointer, or 0 outside" NVRTC 13.0 (sm_90) made a 0 (CS2R) that a predicated instruction may replace, and looked at it 5 cycles later;
//   elsewhere it leaves 6 or more. At such a place products of float64 read at illegal addresses, on lanes outside alone.
// - `gemm_mma`: half floats on tensor cores, sums in float; or floats, rounded to TF32 there, of operands that lie along k; or bytes (`mma.cuh`), which
//   lie so too, without splits: then `sums` are whole numbers, as the bits of floats.
//   Tile<BM, BN, BK, WM, WN, STAGES>: a block computes BM x BN, each warp WM x WN of it, with STAGES tiles of depth BK (of half floats; as
//   many bytes of others) under way from memory. `splits` blocks share the depth of one tile: each writes its
//   sums to `parts`, the last one to arrive adds them in order; where `parts` is null they are a cluster, and each adds its share of the
//   tile from the shared memory of all.
// - `gemm_wgmma`: the same on Hopper's warpgroup instructions (sm_90a), for operands that lie along k: Groups<BM, BN, STAGES>, a
//   warpgroup for each 64 rows, steps of 64 in depth.
// - `gemm_simt`: any element type, without tensor cores; Tile<BM, BN, BK, ...>, 256 threads, `splits` and `parts` as `gemm_mma` has them, V is 1.
// - `wait_for_earlier` has been called before.
// - out(m, n, sums): `sums` are V neighbours along n; called once for each V elements of C that are inside.
// - gridDim: x tiles, y splits, z batch (loaders are made for the batch item by the caller).
#pragma once
#include "after.cuh"
#include "cluster.cuh"
#include "wgmma.cuh"
#include "reduce.cuh"

namespace gh {

// An address that may be read where it is inside.
template <class T> struct Source {
  const T *p;
  bool inside;
  GH_FN T value() const { return inside ? *p : from_scalar<T>(0.0f); }
};

template <class T_, bool ACROSS, bool WHOLE> struct Matrix {
  typedef T_ T;
  static constexpr bool across = ACROSS, whole = WHOLE, normed = false;
  static constexpr int each = 1;  // weights of a column, for `gemv`
  typedef Source<T> Fixed;
  const T *p;
  int64_t outer_step, depth_step;
  int outer, depth;
  GH_FN Fixed fix(int m) const { return {p + m * outer_step, m < outer}; }
  GH_FN Source<T> at(Fixed f, int k) const { return {f.p + k * depth_step, f.inside && k < depth}; }
  GH_FN T get(int m, int k) const {
    return m < outer && k < depth ? p[m * outer_step + k * depth_step] : from_scalar<T>(0.0f);
  }
  GH_FN const T *row(int n, int) const { return p + n * outer_step; }
  GH_FN float one(const float *sums) const { return sums[0]; }
};

template <int BM_, int BN_, int BK_, int WM_, int WN_, int STAGES_> struct Tile {
  static constexpr int BM = BM_, BN = BN_, BK = BK_, WM = WM_, WN = WN_, STAGES = STAGES_;
  static constexpr int THREADS = (BM / WM) * (BN / WN) * 32;
  static constexpr int ROW = BN + 4;  // of the sums in shared memory, in floats
  static constexpr int LOADED = STAGES * (BM + BN) * BK * 2, SUMS = BM * ROW * 4;
  static constexpr int SHARED = LOADED > SUMS ? LOADED : SUMS;
};

// One operand's tile of depth BK into shared memory: [SIZE][BK], or [BK][SIZE] where it lies across. A chunk is 16 bytes.
template <int SIZE, int BK, int THREADS, class L> struct Copier {
  typedef typename L::T T;
  static constexpr int PER = 16 / sizeof(T);  // elements of a chunk
  static_assert(PER == 8 || PER == 2 || !L::across, "ldmatrix turns half floats alone");
  static constexpr int CHUNKS = L::across ? SIZE / PER : BK / 8;  // of a row
  static constexpr int ROWS = L::across ? BK / 8 * PER : SIZE;
  static constexpr int EACH = (ROWS * CHUNKS + THREADS - 1) / THREADS;
  const L &from;
  int first, thread;  // the number of this one among THREADS
  typename L::Fixed fixed[EACH];
  GH_FN Copier(const L &l, int first_, int thread_) : from(l), first(first_), thread(thread_) {
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
      const int q = thread + i * THREADS;
      fixed[i] = from.fix(first + (L::across ? q % CHUNKS * PER : q / CHUNKS));
    }
  }
  GH_FN void copy(T *to, int k0) const {
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
      const int q = thread + i * THREADS, row = q / CHUNKS, c = q % CHUNKS;
      if (ROWS * CHUNKS % THREADS && q >= ROWS * CHUNKS) break;
      T *place = to + chunk_at<T, L::across, CHUNKS>(row, c);
      if constexpr (L::whole) {
        const Source<T> source = from.at(fixed[i], L::across ? k0 + row : k0 + c * PER);
        copy16(place, source.inside ? source.p : from.p, source.inside);
      } else {
        Vec<T, PER> v;
#pragma unroll
        for (int e = 0; e < PER; ++e) {
          if constexpr (L::across) {
            v[e] = from.get(first + c * PER + e, k0 + row);
          } else {
            v[e] = from.at(fixed[i], k0 + c * PER + e).value();
          }
        }
        *(Vec<T, PER> *)place = v;
      }
    }
  }
};

// Tile number `work`: eight rows of tiles at a time, so that what neighbours read stays in the cache.
struct TilePlace {
  int m, n;
  GH_FN TilePlace(int work, int tiles_m, int tiles_n) {
    const int band = 8 * tiles_n, b = work / band, first = b * 8;
    const int high = tiles_m - first < 8 ? tiles_m - first : 8, inside = work - b * band;
    m = first + inside % high, n = inside / high;
  }
};

// Sums of a tile lie in the shared memory of all blocks of a cluster: each adds its share of them, in order, and hands it over.
template <class S, int V, class Out> GH_FN void join_tile(int M, int N, int m0, int n0, int splits, Out &&out) {
  constexpr int BM = S::BM, BN = S::BN, THREADS = S::THREADS, ROW = S::ROW;
  GH_SHARED_ROOM(room);
  cluster_meets();
  for (int e = (blockIdx.y * THREADS + threadIdx.x) * V; e < BM * BN; e += splits * THREADS * V) {
    const int m = m0 + e / BN, n = n0 + e % BN;
    if (m >= M || n >= N) continue;
    float *place = (float *)room + e / BN * ROW + e % BN;
    Vec<float, V> result;
#pragma unroll
    for (int s = 0; s < splits; ++s) {
      const float *part = in_block(place, s);
      constexpr int W = V < 4 ? V : 4;
#pragma unroll
      for (int i = 0; i < V; i += W) {
        const Vec<float, W> x = load_vec<W>(part + i);
#pragma unroll
        for (int u = 0; u < W; ++u) result[i + u] = s ? result[i + u] + x[u] : x[u];
      }
    }
    out(m, n, result);
  }
  cluster_meets();
}

// Sums of a tile lie in shared memory: those of all splits are added, then each thread hands over neighbours along n.
template <class S, int V, class Out>
GH_FN void finish_tile(const Context &ctx, int M, int N, int m0, int n0, int splits, float *parts, Out &&out) {
  constexpr int BM = S::BM, BN = S::BN, THREADS = S::THREADS, ROW = S::ROW;
  GH_SHARED_ROOM(room);
  float *staged = (float *)room;
  if (splits > 1 && !parts) {
    join_tile<S, V>(M, N, m0, n0, splits, out);
    return;
  }
  if (splits > 1) {
    const int64_t number = (int64_t)blockIdx.z * gridDim.x + blockIdx.x;
    float *mine = parts + (number * splits + blockIdx.y) * (BM * BN);
    for (int e = threadIdx.x * 4; e < BM * BN; e += THREADS * 4)
      store_vec(mine + e, load_vec<4>(staged + e / BN * ROW + e % BN));
    __threadfence();
    __syncthreads();
    __shared__ bool is_last;
    if (threadIdx.x == 0) is_last = atomicInc(ctx.counters + number, splits - 1) == (unsigned)splits - 1;
    __syncthreads();
    if (!is_last) return;
    __threadfence();
    const float *all = parts + number * splits * (BM * BN);
    for (int e = threadIdx.x * 4; e < BM * BN; e += THREADS * 4) {
      Vec<float, 4> total = load_vec<4>(all + e);
      for (int s = 1; s < splits; ++s) {
        const Vec<float, 4> x = load_vec<4>(all + s * (BM * BN) + e);
#pragma unroll
        for (int i = 0; i < 4; ++i) total[i] += x[i];
      }
      store_vec(staged + e / BN * ROW + e % BN, total);
    }
    __syncthreads();
  }
#pragma unroll 2
  for (int e = threadIdx.x * V; e < BM * BN; e += THREADS * V) {
    const int m = m0 + e / BN, n = n0 + e % BN;
    if (m >= M || n >= N) continue;
    Vec<float, V> result;
    const float *row = staged + e / BN * ROW + e % BN;
#pragma unroll
    for (int i = 0; i < V; ++i) result[i] = row[i];
    out(m, n, result);
  }
}

template <class S, int V, class A, class B, class Out>
GH_FN void gemm_mma(const Context &ctx, int M, int N, int K, const A &a, const B &b, int splits, float *parts, Out &&out) {
  typedef typename A::T T;
  constexpr int BM = S::BM, BN = S::BN, BK = S::BK, STAGES = S::STAGES, THREADS = S::THREADS;
  constexpr int PER = 16 / sizeof(T), DEPTH = BK / 8 * PER;  // elements of a chunk, and of a step in depth
  GH_SHARED_ROOM(room);
  T *shared = (T *)room;
  const int tiles_n = (N + BN - 1) / BN;
  const TilePlace tile(blockIdx.x, (M + BM - 1) / BM, tiles_n);
  const int m0 = tile.m * BM, n0 = tile.n * BN;
  const int steps_all = (K + DEPTH - 1) / DEPTH, each = (steps_all + splits - 1) / splits;
  const int first = blockIdx.y * each, last = first + each < steps_all ? first + each : steps_all;
  const int steps = last > first ? last - first : 0;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int wm = warp / (BN / S::WN) * S::WM, wn = warp % (BN / S::WN) * S::WN;
  constexpr int MT = S::WM / 16, NT = S::WN / 16;
  typename SumsOf<T>::type sums[MT][NT * 2][4] = {};
  {
    const Copier<BM, BK, THREADS, A> copy_a(a, m0, threadIdx.x);
    const Copier<BN, BK, THREADS, B> copy_b(b, n0, threadIdx.x);
    auto stage = [&](int s) { return shared + s * (BM + BN) * DEPTH; };
    auto fill = [&](T *to, int k) { copy_a.copy(to, k), copy_b.copy((typename B::T *)(to + BM * DEPTH), k); };
#pragma unroll
    for (int s = 0; s < STAGES - 1; ++s) {
      if (s < steps) fill(stage(s), (first + s) * DEPTH);
      end_copies();
    }
    for (int step = 0; step < steps; ++step) {
      copies_left<STAGES - 2>();
      __syncthreads();
      const int next = step + STAGES - 1;
      if (next < steps) fill(stage(next % STAGES), (first + next) * DEPTH);
      end_copies();
      const T *at = stage(step % STAGES), *bt = at + BM * DEPTH;
#pragma unroll
      for (int k = 0; k < BK; k += 16) {
        uint32_t fa[MT][4], fb[NT][4];
#pragma unroll
        for (int i = 0; i < MT; ++i) {
          const int m = wm + i * 16, q = lane >> 3;
          if constexpr (A::across) ldmatrix_trans(fa[i], at + swizzled<BM / 8>(k + (lane & 7) + (q >> 1) * 8, m / 8 + (q & 1)));
          else ldmatrix(fa[i], at + swizzled<BK / 8>(m + (lane & 15), k / 8 + (lane >> 4)) / 8 * PER);
        }
#pragma unroll
        for (int j = 0; j < NT; ++j) {
          const int n = wn + j * 16, q = lane >> 3;
          if constexpr (B::across) ldmatrix_trans(fb[j], bt + swizzled<BN / 8>(k + (lane & 7) + (q & 1) * 8, n / 8 + (q >> 1)));
          else ldmatrix(fb[j], bt + swizzled<BK / 8>(n + (lane & 7) + (q >> 1) * 8, k / 8 + (q & 1)) / 8 * PER);
        }
        if constexpr (PER == 4) {
#pragma unroll
          for (int i = 0; i < MT; ++i) round_tf32(fa[i]);
#pragma unroll
          for (int j = 0; j < NT; ++j) round_tf32(fb[j]);
        }
#pragma unroll
        for (int i = 0; i < MT; ++i)
#pragma unroll
          for (int j = 0; j < NT; ++j) {
            mma<T>(sums[i][2 * j], fa[i], fb[j][0], fb[j][1]);
            mma<T>(sums[i][2 * j + 1], fa[i], fb[j][2], fb[j][3]);
          }
      }
    }
    copies_left<0>();
    __syncthreads();
  }
  // Sums go through shared memory, so that each thread hands over neighbours along n.
  float *staged = (float *)room;
  constexpr int ROW = S::ROW;
#pragma unroll
  for (int i = 0; i < MT; ++i)
#pragma unroll
    for (int j = 0; j < NT * 2; ++j) {
      const int m = wm + i * 16 + lane / 4, n = wn + j * 8 + lane % 4 * 2;
      *(Vec<float, 2> *)(staged + m * ROW + n) = Vec<float, 2>{{as_float(sums[i][j][0]), as_float(sums[i][j][1])}};
      *(Vec<float, 2> *)(staged + (m + 8) * ROW + n) = Vec<float, 2>{{as_float(sums[i][j][2]), as_float(sums[i][j][3])}};
    }
  __syncthreads();
  finish_tile<S, V>(ctx, M, N, m0, n0, splits, parts, out);
}

template <int BM_, int BN_, int STAGES_> struct Groups {
  static constexpr int BM = BM_, BN = BN_, BK = 64, STAGES = STAGES_, THREADS = BM / 64 * 128, ROW = BN + 4;
  static constexpr int LOADED = STAGES * (BM + BN) * BK * 2, SUMS = BM * ROW * 4;
  static constexpr int SHARED = LOADED > SUMS ? LOADED : SUMS;
};

template <class S, int V, class A, class B, class Out>
GH_FN void gemm_wgmma(const Context &ctx, int M, int N, int K, const A &a, const B &b, int splits, float *parts, Out &&out) {
  typedef typename A::T T;
  static_assert(!A::across && !B::across, "operands lie along k");
  constexpr int BM = S::BM, BN = S::BN, BK = S::BK, STAGES = S::STAGES, THREADS = S::THREADS;
  GH_SHARED_ROOM(room);
  T *shared = (T *)room;
  const TilePlace tile(blockIdx.x, (M + BM - 1) / BM, (N + BN - 1) / BN);
  const int m0 = tile.m * BM, n0 = tile.n * BN;
  const int steps_all = (K + BK - 1) / BK, each = (steps_all + splits - 1) / splits;
  const int first = blockIdx.y * each, last = first + each < steps_all ? first + each : steps_all;
  const int steps = last > first ? last - first : 0;
  const int group = same_in_warp(threadIdx.x / 128), lane = threadIdx.x % 32, warp = threadIdx.x % 128 / 32;
  float sums[BN / 2];
#pragma unroll
  for (int i = 0; i < BN / 2; ++i) sums[i] = 0.0f;
  {
    const Copier<BM, BK, THREADS, A> copy_a(a, m0, threadIdx.x);
    const Copier<BN, BK, THREADS, B> copy_b(b, n0, threadIdx.x);
    auto stage = [&](int s) { return shared + s * (BM + BN) * BK; };
#pragma unroll
    for (int s = 0; s < STAGES - 2; ++s) {
      if (s < steps) copy_a.copy(stage(s), (first + s) * BK), copy_b.copy(stage(s) + BM * BK, (first + s) * BK);
      end_copies();
    }
    for (int step = 0; step < steps; ++step) {
      copies_left<STAGES - 3>();
      shared_is_written();
      __syncthreads();
      // The products of the step before may still be under way; those of the one before that are done.
      const int next = step + STAGES - 2;
      if (next < steps) {
        T *to = stage(next % STAGES);
        copy_a.copy(to, (first + next) * BK), copy_b.copy(to + BM * BK, (first + next) * BK);
      }
      end_copies();
      const T *at = stage(step % STAGES), *bt = at + BM * BK;
      begin_products();
#pragma unroll
      for (int k = 0; k < BK; k += 16) wgmma<T, BN>(sums, at + group * 64 * BK, bt, k);
      end_products();
      products_left<1>();
    }
    products_left<0>();
    copies_left<0>();
    __syncthreads();
  }
  float *staged = (float *)room;
#pragma unroll
  for (int j = 0; j < BN / 8; ++j) {
    const int m = group * 64 + warp * 16 + lane / 4, n = j * 8 + lane % 4 * 2;
    *(Vec<float, 2> *)(staged + m * S::ROW + n) = Vec<float, 2>{{sums[4 * j], sums[4 * j + 1]}};
    *(Vec<float, 2> *)(staged + (m + 8) * S::ROW + n) = Vec<float, 2>{{sums[4 * j + 2], sums[4 * j + 3]}};
  }
  __syncthreads();
  finish_tile<S, V>(ctx, M, N, m0, n0, splits, parts, out);
}

// Sums of a tile that each thread of `splits` blocks holds, COUNT of them in the same places: added in order by the last block to arrive, which alone goes on.
template <int COUNT, int THREADS, class W> GH_FN bool joined_by_last(const Context &ctx, int splits, W *parts, W *sums) {
  constexpr int MOST = 16 / sizeof(W), V = COUNT % MOST == 0 ? MOST : COUNT % 2 == 0 ? 2 : 1;
  const int64_t number = (int64_t)blockIdx.z * gridDim.x + blockIdx.x;
  W *all = parts + number * splits * (COUNT * THREADS) + threadIdx.x * V;
  auto place = [&](int split, int i) { return all + (split * COUNT + i) * THREADS; };
#pragma unroll
  for (int i = 0; i < COUNT; i += V) {
    Vec<W, V> mine;
#pragma unroll
    for (int u = 0; u < V; ++u) mine[u] = sums[i + u];
    store_vec(place(blockIdx.y, i), mine);
  }
  __threadfence();
  __syncthreads();
  __shared__ bool is_last;
  if (threadIdx.x == 0) is_last = atomicInc(ctx.counters + number, splits - 1) == (unsigned)splits - 1;
  __syncthreads();
  if (!is_last) return false;
  __threadfence();
#pragma unroll
  for (int i = 0; i < COUNT; i += V) {
    Vec<W, V> total = load_vec<V>((const W *)place(0, i));
    for (int s = 1; s < splits; ++s) {
      const Vec<W, V> x = load_vec<V>((const W *)place(s, i));
#pragma unroll
      for (int u = 0; u < V; ++u) total[u] += x[u];
    }
#pragma unroll
    for (int u = 0; u < V; ++u) sums[i + u] = total[u];
  }
  return true;
}

template <class S, int V, class A, class B, class Out>
GH_FN void gemm_simt(const Context &ctx, int M, int N, int K, const A &a, const B &b, int splits, Wide<typename A::T> *parts, Out &&out) {
  typedef typename A::T T;
  typedef Wide<T> W;
  constexpr int BM = S::BM, BN = S::BN, DEPTH = S::BK * 2 / sizeof(T), TM = BM / 16, TN = BN / 16;
  constexpr int EA = BM * DEPTH / 256, EB = BN * DEPTH / 256;  // elements that a thread loads
  static_assert(V == 1 && EA > 0 && EB > 0, "a thread's sums are 16 apart");
  __shared__ W at[2][DEPTH][BM + 1], bt[2][DEPTH][BN + 1];
  const TilePlace tile(blockIdx.x, (M + BM - 1) / BM, (N + BN - 1) / BN);
  const int m0 = tile.m * BM, n0 = tile.n * BN, tm = threadIdx.x / 16, tn = threadIdx.x % 16;
  const int steps_all = (K + DEPTH - 1) / DEPTH, each = (steps_all + splits - 1) / splits;
  const int first = blockIdx.y * each, last = first + each < steps_all ? first + each : steps_all;
  // Where element i of a thread lies in an operand's tile: neighbours in memory are neighbours among threads.
  auto outer_of = [&](int i, bool across, int size) { const int e = threadIdx.x + i * 256; return across ? e % size : e / DEPTH; };
  auto depth_of = [&](int i, bool across, int size) { const int e = threadIdx.x + i * 256; return across ? e / size : e % DEPTH; };
  W sums[TM * TN] = {}, xa[EA], xb[EB];
  auto load = [&](int step) {
#pragma unroll
    for (int i = 0; i < EA; ++i) xa[i] = to_scalar(a.get(m0 + outer_of(i, A::across, BM), step * DEPTH + depth_of(i, A::across, BM)));
#pragma unroll
    for (int i = 0; i < EB; ++i) xb[i] = to_scalar(b.get(n0 + outer_of(i, B::across, BN), step * DEPTH + depth_of(i, B::across, BN)));
  };
  auto store = [&](int s) {
#pragma unroll
    for (int i = 0; i < EA; ++i) at[s][depth_of(i, A::across, BM)][outer_of(i, A::across, BM)] = xa[i];
#pragma unroll
    for (int i = 0; i < EB; ++i) bt[s][depth_of(i, B::across, BN)][outer_of(i, B::across, BN)] = xb[i];
  };
  if (first < last) load(first), store(0);
  for (int step = first; step < last; ++step) {
    const int s = (step - first) % 2;
    __syncthreads();  // this step is there, and all have read the one before
    if (step + 1 < last) load(step + 1);
#pragma unroll 16
    for (int k = 0; k < DEPTH; ++k) {
      W x[TM], y[TN];
#pragma unroll
      for (int i = 0; i < TM; ++i) x[i] = at[s][k][tm + i * 16];
#pragma unroll
      for (int j = 0; j < TN; ++j) y[j] = bt[s][k][tn + j * 16];
#pragma unroll
      for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int j = 0; j < TN; ++j) sums[i * TN + j] += x[i] * y[j];
    }
    if (step + 1 < last) store(1 - s);
  }
  if (splits > 1 && !joined_by_last<TM * TN, 256>(ctx, splits, parts, sums)) return;
#pragma unroll
  for (int i = 0; i < TM; ++i)
#pragma unroll
    for (int j = 0; j < TN; ++j) {
      const int m = m0 + tm + i * 16, n = n0 + tn + j * 16;
      if (m < M && n < N) out(m, n, Vec<W, 1>{{sums[i * TN + j]}});
    }
}

}  // namespace gh
