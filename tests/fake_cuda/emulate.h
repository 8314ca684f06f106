// emulate.h: enough of CUDA for a host compiler: clusters of blocks run one after the other, the threads of a cluster as fibres that
// change at every barrier and collective step. For tests where there is no GPU; slow, and exact in what it does. Static shared memory
// is one for all blocks, so only kernels without clusters use it.
#pragma once
#define GH_EMULATE 1
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <ucontext.h>
#define GH_FN inline __attribute__((always_inline))
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __cluster_dims__(...)
#define __shared__ static
#define GH_SHARED_ROOM(name) char *name = gh_emu::rooms[gh_emu::now->rank]
#define __restrict__
#define __threadfence()
#define __syncwarp(...) gh_emu::warp_wait()

struct dim3 { unsigned x = 1, y = 1, z = 1; };

namespace gh_emu {
constexpr int MOST_BLOCKS = 8;  // of a cluster
struct Fibre { ucontext_t at; dim3 thread, block; int rank; bool done; char *stack; };
struct Meeting { int here, round; };
// Elements that a launch finds zero. Not a vector: what g++ made of vectors and of a function object was a third of the time that it
// took for a small kernel.
template <class T> struct Zeros {
  T *at;
  size_t room;
  T &operator[](size_t i) { return at[i]; }
  void take(size_t count) {
    if (count > room) free(at), at = (T *)malloc(count * sizeof(T)), room = count;
    memset((void *)at, 0, count * sizeof(T));
  }
};
inline Fibre *fibres;
inline int fibres_made;
inline ucontext_t home;
inline Fibre *now;
inline dim3 block_size, grid;
inline Meeting cluster;
inline int cluster_blocks;
inline Zeros<Meeting> whole, warps;
inline Zeros<uint64_t> slots;       // one for each thread: what it shows to its warp
inline Zeros<uint32_t> registers;   // six for each thread
inline Zeros<double> doubles;       // and as many of these
inline void (*body)(const void *);
inline const void *body_given;
alignas(1024) inline char rooms[MOST_BLOCKS][232448];  // shared memory that a launch asks for
// What the hardware ends a kernel for.
inline void aligned(const void *p, size_t bytes) {
  if ((uintptr_t)p % bytes) fprintf(stderr, "misaligned: %zu bytes at %p\n", bytes, p), abort();
}
inline void yield() { swapcontext(&now->at, &home); }
inline void wait(Meeting &m, int members) {
  const int round = m.round;
  if (++m.here == members) m.here = 0, ++m.round;
  else while (m.round == round) yield();
}
inline int lane() { return now->thread.x % 32; }
inline int first_of_warp() { return now->rank * block_size.x + now->thread.x / 32 * 32; }
inline int in_warp() { const int left = (int)block_size.x - (int)now->thread.x / 32 * 32; return left < 32 ? left : 32; }
inline void warp_wait() { wait(warps[now->rank * (block_size.x / 32 + 1) + now->thread.x / 32], in_warp()); }
inline void block_wait() { wait(whole[now->rank], block_size.x); }
inline void enter() { body(body_given); now->done = true; swapcontext(&now->at, &home); }
inline void run_blocks(dim3 g, int threads, unsigned blocks_x, unsigned blocks_y) {
  grid = g, block_size.x = threads, cluster_blocks = blocks_x * blocks_y;
  const int all = threads * cluster_blocks;
  if (fibres_made < all) fibres = (Fibre *)realloc((void *)fibres, all * sizeof(Fibre));
  for (; fibres_made < all; ++fibres_made) fibres[fibres_made].stack = (char *)malloc(256 << 10);
  slots.take(all), registers.take(all * 6), doubles.take(all * 6), warps.take((threads / 32 + 1) * cluster_blocks);
  whole.take(cluster_blocks), cluster = {};
  for (unsigned z = 0; z < g.z; ++z)
    for (unsigned y = 0; y < g.y; y += blocks_y)
      for (unsigned x0 = 0; x0 < g.x; x0 += blocks_x) {
        for (int i = 0; i < all; ++i) {
          Fibre &x = fibres[i];
          x.done = false, x.rank = i / threads, x.thread.x = i % threads, x.thread.y = x.thread.z = 0;
          x.block.x = x0 + x.rank % blocks_x, x.block.y = y + x.rank / blocks_x, x.block.z = z;
          getcontext(&x.at);
          x.at.uc_stack.ss_sp = x.stack, x.at.uc_stack.ss_size = 256 << 10, x.at.uc_link = &home;
          makecontext(&x.at, enter, 0);
        }
        for (int left = all; left;) {
          left = 0;
          for (int i = 0; i < all; ++i)
            if (!fibres[i].done) now = &fibres[i], swapcontext(&home, &now->at), left += !now->done;
        }
      }
}
template <class F> inline void run(dim3 g, int threads, F f, unsigned blocks_x = 1, unsigned blocks_y = 1) {
  body = [](const void *given) { (*(const F *)given)(); }, body_given = &f;
  run_blocks(g, threads, blocks_x, blocks_y);
}
template <class T> inline T shuffle_xor(T x, int mask) {
  uint64_t bits = 0;
  memcpy(&bits, &x, sizeof x);
  const int first = first_of_warp();
  slots[first + lane()] = bits;
  warp_wait();
  bits = slots[first + (lane() ^ mask)];
  warp_wait();
  memcpy(&x, &bits, sizeof x);
  return x;
}
}  // namespace gh_emu

#define threadIdx (gh_emu::now->thread)
#define blockIdx (gh_emu::now->block)
#define blockDim (gh_emu::block_size)
#define gridDim (gh_emu::grid)
#define __syncthreads() gh_emu::block_wait()
template <class T> inline T __shfl_xor_sync(unsigned, T x, int mask) { return gh_emu::shuffle_xor(x, mask); }
inline int atomicCAS(int *p, int old, int value) { const int was = *p; if (was == old) *p = value; return was; }
inline unsigned atomicInc(unsigned *p, unsigned top) { const unsigned was = *p; *p = was >= top ? 0 : was + 1; return was; }
template <class T> inline T atomicMax(T *p, T x) { const T was = *p; if (x > was) *p = x; return was; }
// Of x in [0, 2), exact at the quarters of a turn.
inline void sincospi(double x, double *s, double *c) {
  const int quarter = (int)(2 * x + 0.5);
  const double rest = 3.14159265358979323846 * (x - 0.5 * quarter), a = std::sin(rest), b = std::cos(rest);
  *s = quarter % 4 == 0 ? a : quarter % 4 == 1 ? b : quarter % 4 == 2 ? -a : -b;
  *c = quarter % 4 == 0 ? b : quarter % 4 == 1 ? -a : quarter % 4 == 2 ? -b : a;
}
template <class T> inline T atomicAdd(T *p, T x) { const T was = *p; *p = was + x; return was; }
template <class T> inline T atomicOr(T *p, T x) { const T was = *p; *p = was | x; return was; }

#include "glasshouse/float8.cuh"
namespace gh {
inline void copy16(void *shared, const void *global, bool inside) {
  gh_emu::aligned(shared, 16), gh_emu::aligned(global, 16);
  if (inside) memcpy(shared, global, 16); else memset(shared, 0, 16);
}
inline unsigned long long nanoseconds() { static unsigned long long ticks; return ++ticks; }
inline void end_copies() {}
template <int N> inline void copies_left() {}
inline void ldmatrix_any(uint32_t (&r)[4], const void *p, bool trans) {
  const int first = gh_emu::first_of_warp(), lane = gh_emu::lane();
  gh_emu::slots[first + lane] = (uint64_t)p;
  gh_emu::warp_wait();
  for (int q = 0; q < 4; ++q) {
    uint16_t low, high;
    auto row = [&](int i) { return (const uint16_t *)gh_emu::slots[first + q * 8 + i]; };
    if (!trans) low = row(lane / 4)[lane % 4 * 2], high = row(lane / 4)[lane % 4 * 2 + 1];
    else low = row(lane % 4 * 2)[lane / 4], high = row(lane % 4 * 2 + 1)[lane / 4];
    r[q] = low | (uint32_t)high << 16;
  }
  gh_emu::warp_wait();
}
inline void ldmatrix(uint32_t (&r)[4], const void *p) { ldmatrix_any(r, p, false); }
inline void ldmatrix_trans(uint32_t (&r)[4], const void *p) { ldmatrix_any(r, p, true); }
template <class T> inline void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  const int first = gh_emu::first_of_warp(), lane = gh_emu::lane(), g = lane / 4, t = lane % 4;
  uint32_t *mine = &gh_emu::registers[(first + lane) * 6];
  for (int i = 0; i < 4; ++i) mine[i] = a[i];
  mine[4] = b0, mine[5] = b1;
  gh_emu::warp_wait();
  constexpr int PER = 4 / sizeof(T);  // elements of a register
  auto element = [&](int who, int reg, int part) {
    const uint32_t bits = gh_emu::registers[(first + who) * 6 + reg] >> (16 * part);
    T x;
    memcpy(&x, &bits, sizeof x);
    return to_scalar(x);
  };
  for (int i = 0; i < 4; ++i) {
    const int n = t * 2 + i % 2, high = i / 2;
    float sum = 0;
    for (int k = 0; k < 8 * PER; ++k) {
      const int half = k / (4 * PER), who = k % (4 * PER) / PER;
      sum += element(g * 4 + who, high + half * 2, k % PER) * element(n * 4 + who, 4 + half, k % PER);
    }
    d[i] += sum;
  }
  gh_emu::warp_wait();
}
template <class T> inline void mma(int32_t (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  const int first = gh_emu::first_of_warp(), lane = gh_emu::lane(), g = lane / 4, t = lane % 4;
  uint32_t *mine = &gh_emu::registers[(first + lane) * 6];
  for (int i = 0; i < 4; ++i) mine[i] = a[i];
  mine[4] = b0, mine[5] = b1;
  gh_emu::warp_wait();
  auto byte = [&](int who, int reg, int part) { return (uint8_t)(gh_emu::registers[(first + who) * 6 + reg] >> (8 * part)); };
  for (int i = 0; i < 4; ++i) {
    const int n = t * 2 + i % 2, high = i / 2;
    for (int k = 0; k < 32; ++k) {
      const int half = k / 16, who = k % 16 / 4;
      d[i] += (int32_t)(T)byte(g * 4 + who, high + half * 2, k % 4) * (int8_t)byte(n * 4 + who, 4 + half, k % 4);
    }
  }
  gh_emu::warp_wait();
}
inline void mma(double (&d)[4], const double (&a)[4], double b0, double b1) {
  const int first = gh_emu::first_of_warp(), lane = gh_emu::lane(), g = lane / 4, t = lane % 4;
  double *mine = &gh_emu::doubles[(first + lane) * 6];
  for (int i = 0; i < 4; ++i) mine[i] = a[i];
  mine[4] = b0, mine[5] = b1;
  gh_emu::warp_wait();
  auto of = [&](int who, int number) { return gh_emu::doubles[(first + who) * 6 + number]; };
  for (int i = 0; i < 4; ++i)
    for (int k = 0; k < 8; ++k)
      d[i] = std::fma(of(g * 4 + k % 4, i / 2 + k / 4 * 2), of((t * 2 + i % 2) * 4 + k % 4, 4 + k / 4), d[i]);
  gh_emu::warp_wait();
}
inline float as_float(int32_t x) { float y; memcpy(&y, &x, 4); return y; }
inline int same_in_warp(int x) { return x; }
inline uint32_t bits_of(float x) { uint32_t y; memcpy(&y, &x, 4); return y; }
inline void round_tf32(uint32_t (&r)[4]) {  // to nearest, ties away from zero; infinities and NaN stay
  for (uint32_t &x : r) if ((x & 0x7f800000) != 0x7f800000) x = (x + 0x1000) & ~0x1fffu;
}
inline void shared_is_written() {}
inline void begin_products() {}
inline void end_products() {}
template <int N> inline void products_left() {}
// Element k of row r in a tile of 64 half floats a row, its chunks moved as the hardware expects.
template <class T> inline float swizzled_at(const T *tile, int r, int k) { return to_scalar(tile[r * 64 + ((k / 8) ^ (r & 7)) * 8 + k % 8]); }
// Of pairs of bytes: what each byte of the first and of the second operand is, and what their products are added up in.
template <class A, class B> struct Bytes { typedef A First; typedef B Second; typedef decltype(to_scalar(A{}) * to_scalar(B{})) Sum; };
template <class T> struct BytesOf { typedef void type; };
template <> struct BytesOf<s8x2> { typedef Bytes<int8_t, int8_t> type; };
template <> struct BytesOf<u8x2> { typedef Bytes<uint8_t, int8_t> type; };
template <class A, class B> struct BytesOf<f8x2<A, B>> { typedef Bytes<A, B> type; };
template <class E, class T> inline auto swizzled_byte(const T *tile, int r, int k) {
  return to_scalar(((const E *)tile)[r * 128 + ((k / 16) ^ (r & 7)) * 16 + k % 16]);
}
template <class T, int N, bool FRESH = false> inline void wgmma(float (&d)[N / 2], const T *a, const T *b, int k0) {
  typedef typename BytesOf<T>::type Pair;
  const int t = gh_emu::now->thread.x % 128, row = t / 32 * 16 + t % 32 / 4, column = t % 4 * 2;
  for (int i = 0; i < N / 2; ++i) {
    const int m = row + i % 4 / 2 * 8, n = i / 4 * 8 + column + i % 2;
    if (FRESH) d[i] = 0.0f;
    if constexpr (same<Pair, void>::value) {
      for (int k = k0; k < k0 + 16; ++k) d[i] += swizzled_at(a, m, k) * swizzled_at(b, n, k);
    } else {
      typename Pair::Sum sum;
      memcpy(&sum, &d[i], 4);
      for (int k = 2 * k0; k < 2 * k0 + 32; ++k)
        sum += swizzled_byte<typename Pair::First>(a, m, k) * swizzled_byte<typename Pair::Second>(b, n, k);
      memcpy(&d[i], &sum, 4);
    }
  }
}
template <class T, int N> inline void wgmma_across(float (&d)[N / 2], const uint32_t (&a)[4], const T *b, int k0, int rows) {
  const int first = gh_emu::first_of_warp(), lane = gh_emu::lane();
  for (int i = 0; i < 4; ++i) gh_emu::registers[(first + lane) * 6 + i] = a[i];
  gh_emu::warp_wait();
  for (int i = 0; i < N / 2; ++i)
    for (int k = 0; k < 16; ++k) {
      T x;
      x.bits = (uint16_t)(gh_emu::registers[(first + lane / 4 * 4 + k % 8 / 2) * 6 + i % 4 / 2 + k / 8 * 2] >> 16 * (k % 2));
      const int n = i / 4 * 8 + lane % 4 * 2 + i % 2;
      d[i] += to_scalar(x) * swizzled_at(b + n / 64 * rows * 64, k0 + k, n % 64);
    }
  gh_emu::warp_wait();
}
template <int N> inline void settled(float (&)[N]) {}
template <int N> inline void give_registers() {}
template <int N> inline void take_registers() {}
struct alignas(8) Barrier {
  int16_t members, missing;
  int expected : 31;  // bytes still to come; those that come first make it negative
  unsigned parity : 1;
  void step() { if (!missing && !expected) parity ^= 1, missing = members; }
};
inline void barrier_begins(Barrier *b, int members) { b->members = b->missing = members, b->expected = 0, b->parity = 0; }
inline void arrive(Barrier *b) { --b->missing, b->step(); }
template <class T> inline T *in_block(T *p, int rank) {
  return (T *)(gh_emu::rooms[rank] + ((const char *)p - gh_emu::rooms[gh_emu::now->rank]));
}
inline void expect_bytes(Barrier *b, int count) { b->expected += count, arrive(b); }
inline void wait_round(Barrier *b, int parity) { while ((int)b->parity == parity) gh_emu::yield(); }
// What stands in for an encoded map (`fake_cuda/libcuda.cpp` and `cuda_emulator.py` write it): address; sizes, innermost first; bytes
// between neighbours of the axes from the second on; box; of an image the lower corner, the upper corner and the strides, width first.
struct alignas(64) TensorMap {
  const char *at;
  int64_t sizes[5], steps[4];
  int32_t box[5], lower[2], upper[2], strides[2], unused;
  // A row of the box, from `place` on, or zeros.
  void row(char *to, int r, const char *place, int inside) const {
    for (int c = 0; c < 8; ++c) {
      char *chunk = to + (r * 8 + (c ^ (r & 7))) * 16;
      for (int e = 0; e < 8; ++e) place && c * 8 + e < inside ? (void)memcpy(chunk + e * 2, place + (c * 8 + e) * 2, 2) : (void)memset(chunk + e * 2, 0, 2);
    }
  }
};
inline void prefetch_map(const TensorMap &) {}
inline void prefetch_rows(const TensorMap &, int, int) {}
inline void came(Barrier *b, int count) { b->expected -= count, b->step(); }
inline void fetch_rows(void *to, const TensorMap &map, int k, int row, Barrier *b) {
  for (int r = 0; r < map.box[1]; ++r)
    map.row((char *)to, r, row + r < map.sizes[1] ? map.at + (row + r) * map.steps[0] + k * 2 : nullptr, (int)map.sizes[0] - k);
  came(b, map.box[0] * map.box[1] * 2);
}
inline void prefetch_eights(const TensorMap &, int, int) {}
inline void fetch_eights(void *to, const TensorMap &map, int k, int row, Barrier *b) {
  int r = 0;
  for (int g = row / 32; g < row / 32 + map.box[4]; ++g)
    for (int j = 0; j < map.box[3]; ++j)
      for (int q = 0; q < map.box[2]; ++q)
        for (int e = 0; e < map.box[1]; ++e, ++r) {
          const char *place = map.at + e * map.steps[0] + q * map.steps[1] + j * map.steps[2] + g * map.steps[3] + k * 2;
          map.row((char *)to, r, g < map.sizes[4] ? place : nullptr, (int)map.sizes[0] - k);
        }
  came(b, map.box[0] * r * 2);
}
inline void fetch_head(void *to, const TensorMap &map, int d, int row, int head, int batch, Barrier *b) {
  const char *begin = map.at + head * map.steps[1] + batch * map.steps[2] + d * 2;
  for (int r = 0; r < map.box[1]; ++r)
    map.row((char *)to, r, row + r < map.sizes[1] ? begin + (row + r) * map.steps[0] : nullptr, (int)map.sizes[0] - d);
  came(b, map.box[0] * map.box[1] * 2);
}
inline void fetch_pixels(void *to, const TensorMap &map, int c, int w, int h, int n, int dw, int dh, Barrier *b) {
  for (int r = 0; r < map.box[1]; ++r) {
    const int x = w + dw, y = h + dh;
    const bool inside = x >= 0 && x < map.sizes[1] && y >= 0 && y < map.sizes[2] && n < map.sizes[3];
    map.row((char *)to, r, inside ? map.at + x * map.steps[0] + y * map.steps[1] + n * map.steps[2] + c * 2 : nullptr, (int)map.sizes[0] - c);
    if ((w += map.strides[0]) < map.sizes[1] + map.upper[0]) continue;
    w = map.lower[0];
    if ((h += map.strides[1]) < map.sizes[2] + map.upper[1]) continue;
    h = map.lower[1], ++n;
  }
  came(b, map.box[0] * map.box[1] * 2);
}
inline void cluster_meets() { gh_emu::wait(gh_emu::cluster, gh_emu::block_size.x * gh_emu::cluster_blocks); }
inline void cluster_arrives() {}
inline void cluster_waits() { cluster_meets(); }
inline void arrive_in_block(Barrier *b, int rank) { arrive(in_block(b, rank)); }
inline void send_to_block(float *to, float x, Barrier *b, int rank) {
  *in_block(to, rank) = x;
  came(in_block(b, rank), 4);
}
inline void send_to_block(float *to, const Vec<float, 4> &x, Barrier *b, int rank) {
  store_vec(in_block(to, rank), x);
  came(in_block(b, rank), 16);
}
}  // namespace gh
