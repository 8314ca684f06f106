// What this processor can do at best: products and sums a second by element type, bytes a second from and to main memory.
// Each function runs on all threads of a pool and gives seconds; the caller takes the best of several runs.
#include "glasshouse/kernels.h"

template <class D>
static double gh_compute(gh::ThreadPool& pool, long turns) {
  const double begin = gh::seconds();
  pool.run([&](int, int) {
    alignas(64) static const char data[16 * sizeof(gh::vf)] = {1, 2, 3, 4, 5, 6, 7, 8};
    constexpr int kChains = 12;  // two units with a latency of four to five cycles need ten
    typename D::Acc sums[kChains];
    for (int i = 0; i < kChains; i++) sums[i] = D::zero();
    for (long turn = 0; turn < turns; turn++) {
      const auto a = D::bcast(data + 4 * (turn & 7));
      const auto b = D::loadb(data + sizeof(gh::vf) * (turn & 15));
      GH_UNROLL for (int i = 0; i < kChains; i++) sums[i] = D::dot(a, b, sums[i]);
    }
    volatile char sink[sizeof sums];
    memcpy((void*)sink, sums, sizeof sums);
  });
  return gh::seconds() - begin;
}

// Operations that one turn of one thread makes: a product and a sum count two.
template <class D>
static long gh_operations() {
  return 12L * (long)(sizeof(gh::vf) / 4) * D::kPer * 2;
}

#if defined(GH_AMX)
// Four sums in turn cover the latency of a tile's multiply-adds.
template <class D>
static double gh_compute_tiles(gh::ThreadPool& pool, long turns) {
  const double begin = gh::seconds();
  pool.run([&](int, int) {
    alignas(64) static const char data[1024] = {1, 2, 3, 4, 5, 6, 7, 8};
    alignas(64) char sink[1024];
    gh::configure_tiles(gh::kTileRows);
    GH_TILE_LOAD(4, data, 64);
    GH_TILE_LOAD(6, data, 64);
    for (long turn = 0; turn < turns; turn++) {
      if constexpr (D::kPer == 2) {
        GH_TILE_BF16(0, 4, 6);
        GH_TILE_BF16(1, 4, 6);
        GH_TILE_BF16(2, 4, 6);
        GH_TILE_BF16(3, 4, 6);
      } else {
        GH_TILE_BYTES(0, 4, 6);
        GH_TILE_BYTES(1, 4, 6);
        GH_TILE_BYTES(2, 4, 6);
        GH_TILE_BYTES(3, 4, 6);
      }
    }
    GH_TILE_STORE(0, sink, 64);
    GH_TILE_RELEASE();
  });
  return gh::seconds() - begin;
}
#endif

extern "C"
    __attribute__((visibility("default"))) double glasshouse_compute(void* pool, int type, long turns, long* operations) {
  gh::ThreadPool& threads = *(gh::ThreadPool*)pool;
  const long all = turns * threads.size();
#if defined(GH_AMX)
  const long of_tiles = all * 4 * 16 * 16 * 16 * 2;  // times the elements of a unit
  if (type == 1) return *operations = of_tiles * 2, gh_compute_tiles<gh::TilesBF16>(threads, turns);
  if (type == 2) return *operations = of_tiles * 4, gh_compute_tiles<gh::TilesI8>(threads, turns);
#endif
  if (type == 0) return *operations = all * gh_operations<gh::DotF32>(), gh_compute<gh::DotF32>(threads, turns);
  if (type == 1) return *operations = all * gh_operations<gh::DotBF16>(), gh_compute<gh::DotBF16>(threads, turns);
  return *operations = all * gh_operations<gh::DotI8>(), gh_compute<gh::DotI8>(threads, turns);
}

extern "C" __attribute__((visibility("default"))) double glasshouse_read(void* pool, const float* data, long count) {
  const double begin = gh::seconds();
  gh::parallel_for(*(gh::ThreadPool*)pool, count / 4096, 1, [&](long from, long to) {
    gh::vf sums[4] = {gh::vf(0.0f), gh::vf(0.0f), gh::vf(0.0f), gh::vf(0.0f)};
    constexpr long kLanes = sizeof(gh::vf) / 4;
    for (long i = from * 4096; i < to * 4096; i += 4 * kLanes)
      GH_UNROLL for (int k = 0; k < 4; k++) sums[k] = sums[k] + gh::load(data + i + k * kLanes);
    volatile char sink[sizeof sums];
    memcpy((void*)sink, sums, sizeof sums);
  });
  return gh::seconds() - begin;
}

extern "C" __attribute__((visibility("default"))) double glasshouse_copy(void* pool, const char* from, char* to, long count) {
  const double begin = gh::seconds();
  gh::parallel_for(*(gh::ThreadPool*)pool, count / 4096, 1,
                   [&](long a, long b) { memcpy(to + a * 4096, from + a * 4096, (size_t)(b - a) * 4096); });
  return gh::seconds() - begin;
}

extern "C" __attribute__((visibility("default"))) void* glasshouse_pool(int threads) { return new gh::ThreadPool(threads); }
