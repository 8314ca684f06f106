// attention_tma.cuh: flash attention on Hopper's warpgroup instructions; queries, keys and values come by the copy engine (sm_90a).
//
// Contract
// - As `attention.cuh` has it, for half floats and heads of D = 64 or 128; `q`, `k`, `v` are maps over [dim, rows, heads, batch] with boxes
//   of 64, KEYS and KEYS rows. gridDim.x: blocks go on with the next run of queries of a head until there is none. It waits for earlier
//   kernels itself, behind barriers and maps.
// - AttentionGroups<D, GROUPS, KEYS, STAGES, BESIDE>: one thread fetches, each of GROUPS warpgroups takes 64 queries and goes over keys, KEYS
//   at a time; BESIDE blocks fit on a multiprocessor. Registers move from the warpgroup of that thread to the others. The scores of the next keys are computed before the values of these are mixed, so that powers are taken meanwhile.
// - A weight is a power of two relative to a score of its row, its anchor: the largest one, or one that is less by at most SLACK. So sums
//   are scaled seldom, and no weight is past 2^SLACK, which half floats hold.
//
// - A mask with a number for each key comes with the keys: a warp beside the one that fetches puts it into shared memory. One for each query
//   and key is loaded while scores are computed, numbers in pairs, flags in 16s, which become bits.
// - Keys that flags hide from all queries of a block are neither fetched nor scored, as those that `causal` hides: each warp looks through the
//   flags of its queries while these and the first keys, which are always taken, come. A prompt of 512 in a cache of 1024 sees a quarter of them.
//
// Barriers: `ready` of one of two places ends its round when queries are there, `spent` when all have used them, and results went through
// their room; `full` of a stage when its
// keys and values are there, `empty` when all have read them; `known` of one of two places when all warps have noted which keys they see.
#pragma once
#include "attention.cuh"
#include "gemm_tma.cuh"

namespace gh {

template <int D_, int GROUPS_, int KEYS_, int STAGES_, int BESIDE> struct AttentionGroups {
  static constexpr int D = D_, GROUPS = GROUPS_, KEYS = KEYS_, STAGES = STAGES_;
  static constexpr int THREADS = GROUPS * 128 + 128, QUERIES = GROUPS * 64, STAGE = 2 * KEYS * D;  // elements
  static constexpr int BEFORE = 65536 / (THREADS * BESIDE) / 8 * 8, FEW = 32, MANY = (BEFORE * (GROUPS + 1) - FEW) / GROUPS / 8 * 8;
  static constexpr bool MOVES = GROUPS > 1 || BESIDE > 1;  // registers: a warpgroup alone on a multiprocessor has as many as a thread can have
  static constexpr float SLACK = 8.0f;
};

// The scores of 64 queries, as a warpgroup's threads hold them: two rows each.
template <int KEYS> struct Weights {
  float x[KEYS / 2];
  float anchor[2], total[2];
  // Of each row: scores, in powers of two once they are times `unit`, become weights. What sums so far are to be multiplied with.
  GH_FN Vec<float, 2> taken(float unit, float slack) {
    const float low = -__builtin_inff();
    Vec<float, 2> scaled;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float high = low;
#pragma unroll
      for (int j = 0; j < KEYS / 8; ++j) high = fmaxf(high, fmaxf(x[4 * j + 2 * r], x[4 * j + 2 * r + 1]));
      high = fmaxf(high, shuffle_xor(high, 1));
      high = fmaxf(high, shuffle_xor(high, 2)) * unit;
      scaled[r] = 1.0f;
      if (high > anchor[r] + slack) scaled[r] = power_of_two(anchor[r] - high), anchor[r] = high;
      const float base = anchor[r] == low ? 0.0f : anchor[r];
      float sum = 0.0f;
#pragma unroll
      for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
        for (int e = 4 * j + 2 * r; e < 4 * j + 2 * r + 2; ++e) {
          x[e] = power_of_two(x[e] * unit - base);
          sum += x[e];
        }
      total[r] = total[r] * scaled[r] + sum;
    }
    return scaled;
  }
};

// Hands over the 16 x D results of a warp, which go through `room`, 2 KB of shared memory that is its own: 16 x 32 floats at a time, in
// chunks of 16 bytes, moved so that neither writing nor reading meets a bank twice.
template <int D, int V, class Out> GH_FN void hand_over_rows(const float (&sums)[D / 2], float *room, const Out &out) {
  const int row = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
  auto place = [&](int r, int column) { return room + r * 32 + (column / 4 ^ (r % 4 * 2 + r % 2)) * 4 + column % 4; };
#pragma unroll
  for (int d = 0; d < D; d += 32) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float *pair = sums + d / 2 + i / 2 * 4 + i % 2 * 2;
      store_vec(place(row + i % 2 * 8, i / 2 * 8 + q * 2), Vec<float, 2>{{pair[0], pair[1]}});
    }
    __syncwarp();
#pragma unroll
    for (int r = 0; r < 16; r += 8) {
      Vec<float, 4> half[2];
      for (int i = 0; i < 2; ++i) half[i] = load_vec<4>(place(row + r, q * 8 + i * 4));
#pragma unroll
      for (int e = 0; e < 8; e += V) {
        Vec<float, V> result;
#pragma unroll
        for (int i = 0; i < V; ++i) result[i] = half[(e + i) / 4][(e + i) % 4];
        out(row + r, d + q * 8 + e, result);
      }
    }
    __syncwarp();
  }
}

// Number `work` of all: QUERIES of one head. Of causal ones the last see most keys: they come first.
template <class S> struct AttentionWork {
  int b, h, i0, steps;
  GH_FN AttentionWork(const AttentionShape &s, int work) {
    const int runs = (s.length + S::QUERIES - 1) / S::QUERIES, at = work % runs;
    b = work / runs / s.heads, h = work / runs % s.heads, i0 = (s.causal ? runs - 1 - at : at) * S::QUERIES;
    const int seen = s.causal && i0 + S::QUERIES < s.keys ? i0 + S::QUERIES : s.keys;
    steps = (seen + S::KEYS - 1) / S::KEYS;
  }
};

// Which steps over keys are taken, behind the first, which always is: bit n of the words of all warps is that of step n; those behind the
// 64th are. Not by flags: all are.
template <bool BY_FLAG, int WARPS> struct StepsSeen {
  unsigned long long bits;
  GH_FN explicit StepsSeen(const unsigned long long *words) : bits(0) {
    if constexpr (BY_FLAG)
      for (int i = 0; words && i < WARPS; ++i) bits |= words[i];
  }
  GH_FN int from(int step, int steps) const {
    if constexpr (BY_FLAG)
      while (step < steps && step < 64 && !(bits >> step & 1)) ++step;
    return step;
  }
};

// A warpgroup's part: 64 queries from `first` on.
template <class S, class T, class Mask> struct AttentionGroup {
  static constexpr int D = S::D, KEYS = S::KEYS, STAGES = S::STAGES;
  static constexpr bool by_key = is_by_key<Mask>::value, by_pair = is_by_pair<Mask>::value, by_flag = is_by_flag<Mask>::value;
  const AttentionShape &s;
  Mask mask;
  const T *own, *staged;
  const float *added;
  Barrier *full;
  int b, h, first;
  Weights<KEYS> w;
  uint32_t p[KEYS / 16][4];
  float sums[D / 2];
  unsigned long long whole;

  GH_FN void score(int number) {
    wait_round(full + number % STAGES, number / STAGES % 2);
    const T *keys = staged + number % STAGES * S::STAGE;
    begin_products();
    wgmma<T, KEYS, true>(w.x, own, keys, 0);
#pragma unroll
    for (int d = 16; d < D; d += 16) wgmma<T, KEYS>(w.x, own + d / 64 * 64 * 64, keys + d / 64 * 64 * KEYS, d % 64);
    end_products();
  }
  GH_FN void mix(int number) {
    const T *values = staged + number % STAGES * S::STAGE + D * KEYS;
    begin_products();
#pragma unroll
    for (int j = 0; j < KEYS / 16; ++j) wgmma_across<T, D>(sums, p[j], values, j * 16, KEYS);
    end_products();
  }
  // What the mask has for the two rows of a thread, loaded while scores are computed, where registers can hold it.
  template <bool EARLY> GH_FN auto ahead(int key0) const {
    if constexpr (by_pair && EARLY) {
      const int lane = threadIdx.x % 32, row = first + threadIdx.x % 128 / 32 * 16 + lane / 4;
      Vec<decltype(mask.two(0, 0, 0, 0)), KEYS / 4> found;
#pragma unroll
      for (int n = 0; n < KEYS / 4; ++n) {
        const int i = row + n % 2 * 8, key = key0 + n / 2 * 8 + lane % 4 * 2;
        found[n] = mask.two(b, h, i < s.length ? i : s.length - 1, key < s.keys ? key : s.keys - 2);
      }
      return found;
    } else if constexpr (by_flag) {
      const int lane = threadIdx.x % 32, row = first + threadIdx.x % 128 / 32 * 16 + lane / 4;
      Vec<Vec<uint32_t, 4>, KEYS / 32> found;
      if (sees_all(key0)) return found;
#pragma unroll
      for (int n = 0; n < KEYS / 32; ++n) {
        const int i = row + n % 2 * 8, key = key0 + n / 2 * 64 + lane % 4 * 16;
        found[n] = mask.run(b, h, i < s.length ? i : s.length - 1, key < s.keys ? key : s.keys - 16);
      }
      return found;
    } else {
      return Loaded<>{};
    }
  }
  // The steps in which one of a warp's 16 queries sees a key, as bits; where hidden keys have a weight, all. Steps in which each of them sees
  // all keys are noted in `whole`.
  GH_FN unsigned long long steps_seen(int steps) {
    const int lane = threadIdx.x % 32, row = first + threadIdx.x % 128 / 32 * 16;
    unsigned bits[4] = {};  // of steps with a key that is seen, then of those with one that is not
    const int last = steps * KEYS < s.keys ? steps * KEYS : s.keys;
    for (int key0 = lane * 16; key0 < last && key0 < 64 * KEYS; key0 += 1024) {
      uint32_t any[2] = {}, every[2] = {~0u, ~0u};
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        const int key = key0 + n * 512 < last ? key0 + n * 512 : key0;
#pragma unroll
        for (int r = 0; r < 16; ++r) {
          const auto found = mask.run(b, h, row + r < s.length ? row + r : s.length - 1, key);
          any[n] |= found[0] | found[1] | found[2] | found[3];
          every[n] &= found[0] & found[1] & found[2] & found[3];
        }
      }
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        const int step = (key0 + n * 512 < last ? key0 + n * 512 : key0) / KEYS;
        const unsigned bit = step < 64 ? 1u << step % 32 : 0u;
        if (any[n]) bits[step / 32 % 2] |= bit;
        if (every[n] != 0x01010101u) bits[2 + step / 32 % 2] |= bit;
      }
    }
#pragma unroll
    for (int step = 1; step < 32; step *= 2)
#pragma unroll
      for (int i = 0; i < 4; ++i) bits[i] |= shuffle_xor(bits[i], step);
    const unsigned long long seen = (unsigned long long)bits[1] << 32 | bits[0], hidden = (unsigned long long)bits[3] << 32 | bits[2];
    whole = seen & ~hidden;
    return mask.low == -__builtin_inff() ? seen : ~0ull;
  }
  // Whether no flag hides anything from this warp in the step from `key0` on.
  GH_FN bool sees_all(int key0) const { return by_flag && key0 / KEYS < 64 && (whole >> key0 / KEYS & 1) && inside(key0); }
  // The flags of both rows as bits, those of this thread's first key in each 32 lowest: four lanes have loaded 16 keys of each 64.
  template <class Ahead> GH_FN auto flags(const Ahead &ahead) const {
    Vec<uint32_t, KEYS / 16> bits;
    if constexpr (by_flag) {
      const int q = threadIdx.x % 4;
#pragma unroll
      for (int n = 0; n < KEYS / 32; ++n) {
        uint32_t mine = flag_bits(ahead[n]) << 16 * (q % 2);
        mine |= shuffle_xor(mine, 1);
        const uint32_t other = shuffle_xor(mine, 2);
        bits[n / 2 * 4 + n % 2] = (q < 2 ? mine : other) >> 2 * q;
        bits[n / 2 * 4 + 2 + n % 2] = (q < 2 ? other : mine) >> 2 * q;
      }
    }
    return bits;
  }
  GH_FN bool inside(int key0) const {
    const int last = key0 + KEYS - 1;
    return last < s.keys && first + 64 <= s.length && !(s.causal && last > first);
  }
  // Without a mask the largest score stays the largest when it is scaled, so that is left to the powers.
  GH_FN bool later() const { return same<Mask, const NoMask &>::value && s.scale > 0.0f; }
  template <bool INSIDE, class Ahead> GH_FN void masked(int number, int key0, const Ahead &ahead) {
    const int lane = threadIdx.x % 32, row = first + threadIdx.x % 128 / 32 * 16 + lane / 4;
    const float low = -__builtin_inff(), scale = s.scale * LOG2E;
    const auto bits = flags(ahead);
#pragma unroll
    for (int j = 0; j < KEYS / 8; ++j) {
      Vec<float, 2> more;
      if constexpr (by_key) more = load_vec<2>(added + number % STAGES * KEYS + j * 8 + lane % 4 * 2);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int key = key0 + j * 8 + lane % 4 * 2 + e % 2, i = row + e / 2 * 8;
        const bool kept = INSIDE || (key < s.keys && i < s.length && !(s.causal && key > i));
        const float x = w.x[4 * j + e];
        if constexpr (by_key) w.x[4 * j + e] = kept ? x * scale + more[e % 2] : low;
        else if constexpr (by_flag) w.x[4 * j + e] = kept ? (bits[j / 4 * 2 + e / 2] >> (j % 4 * 8 + e % 2) & 1 ? x * scale : in_units(mask.low, LOG2E)) : low;
        else if constexpr (!same<Ahead, Loaded<>>::value) w.x[4 * j + e] = kept ? mask.use(ahead[j * 2 + e / 2][e % 2], x * scale, LOG2E) : low;
        else w.x[4 * j + e] = !kept ? low : later() ? x : mask(b, h, i, key, x * scale, LOG2E);
      }
    }
  }
  // Scores become weights; what sums so far are to be multiplied with.
  template <class Ahead> GH_FN Vec<float, 2> weigh(int number, int key0, const Ahead &ahead) {
    if (sees_all(key0)) {
#pragma unroll
      for (int i = 0; i < KEYS / 2; ++i) w.x[i] *= s.scale * LOG2E;
    } else if (inside(key0)) masked<true>(number, key0, ahead);
    else masked<false>(number, key0, ahead);
    return w.taken(later() ? s.scale * LOG2E : 1.0f, S::SLACK);
  }
  GH_FN void pack() {
#pragma unroll
    for (int j = 0; j < KEYS / 16; ++j)
#pragma unroll
      for (int u = 0; u < 4; ++u) p[j][u] = packed<T>(w.x[8 * j + 2 * u], w.x[8 * j + 2 * u + 1]);
  }
  GH_FN void share() {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float total = w.total[r];
      total += shuffle_xor(total, 1);
      total += shuffle_xor(total, 2);
      const float part = w.anchor[r] == -__builtin_inff() && !s.plain ? 0.0f : 1.0f / total;
#pragma unroll
      for (int i = 2 * r; i < D / 2; i += 4) sums[i] *= part, sums[i + 1] *= part;
    }
  }
};

template <class S, int V, class T, class Mask, class Out>
GH_FN void attention_tma(const Context &ctx, const AttentionShape &s, int batch, const TensorMap &q, const TensorMap &k, const TensorMap &v, Mask &&mask,
                         Out &&out) {
#if defined(GH_EMULATE) || __CUDA_ARCH_FEAT_SM90_ALL
  constexpr int D = S::D, KEYS = S::KEYS, STAGES = S::STAGES, GROUPS = S::GROUPS;
  constexpr bool by_key = is_by_key<Mask>::value, by_flag = is_by_flag<Mask>::value;
  typedef StepsSeen<by_flag, GROUPS * 4> Seen_;
  GH_SHARED_ROOM(room);
  T *queries = (T *)room, *staged = queries + 2 * S::QUERIES * D;
  float *added = (float *)(staged + STAGES * S::STAGE);  // KEYS numbers for each stage
  Barrier *ready = (Barrier *)(added + STAGES * KEYS), *spent = ready + 2, *full = spent + 2, *empty = full + STAGES, *known = empty + STAGES;
  unsigned long long *words = (unsigned long long *)(known + 2);  // two for each warp that computes
  const int group = same_in_warp(threadIdx.x / 128), lane = threadIdx.x % 32;
  const int count = (s.length + S::QUERIES - 1) / S::QUERIES * s.heads * batch;
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2; ++i) barrier_begins(ready + i, 1), barrier_begins(spent + i, GROUPS * 4), barrier_begins(known + i, GROUPS * 4);
    for (int i = 0; i < STAGES; ++i) barrier_begins(full + i, by_key ? 33 : 1), barrier_begins(empty + i, GROUPS * 4);
  }
  if (threadIdx.x == GROUPS * 128) prefetch_map(q), prefetch_map(k), prefetch_map(v);
  __syncthreads();
  wait_for_earlier(ctx);
  int number = 0, turn = 0;  // of steps and of runs of queries since the beginning
  if (group == GROUPS) {
    if constexpr (S::MOVES) give_registers<S::FEW>();
    if (threadIdx.x == GROUPS * 128)
      for (int work = blockIdx.x; work < count; work += gridDim.x, ++turn) {
        const AttentionWork<S> at(s, work);
        const int kh = at.h / (s.heads / s.key_heads);
        wait_round(spent + turn % 2, turn / 2 % 2 ^ 1);
        expect_bytes(ready + turn % 2, S::QUERIES * D * 2);
        for (int i = 0; i < GROUPS * (D / 64); ++i)
          fetch_head(queries + turn % 2 * S::QUERIES * D + i * 64 * 64, q, i % (D / 64) * 64, at.i0 + i / (D / 64) * 64, at.h, at.b,
                     ready + turn % 2);
        Seen_ seen(nullptr);
        for (int step = 0; step < at.steps; step = seen.from(step + 1, at.steps), ++number) {
          wait_round(empty + number % STAGES, number / STAGES % 2 ^ 1);
          Barrier *there = full + number % STAGES;
          expect_bytes(there, S::STAGE * 2);
          T *to = staged + number % STAGES * S::STAGE;
          for (int c = 0; c < D; c += 64) fetch_head(to + c * KEYS, k, c, step * KEYS, kh, at.b, there);
          for (int c = 0; c < D; c += 64) fetch_head(to + (D + c) * KEYS, v, c, step * KEYS, kh, at.b, there);
          if (by_flag && step == 0) wait_round(known + turn % 2, turn / 2 % 2), seen = Seen_(words + turn % 2 * GROUPS * 4);
        }
      }
    if constexpr (by_key)
      if (threadIdx.x / 32 == GROUPS * 4 + 1)
        for (int work = blockIdx.x; work < count; work += gridDim.x) {
          const AttentionWork<S> at(s, work);
          for (int step = 0; step < at.steps; ++step, ++number) {
            wait_round(empty + number % STAGES, number / STAGES % 2 ^ 1);
            for (int j = lane; j < KEYS; j += 32) {
              const int key = step * KEYS + j;
              added[number % STAGES * KEYS + j] = key < s.keys ? in_units(mask.added(at.b, at.h, key), LOG2E) : 0.0f;
            }
            arrive(full + number % STAGES);
          }
        }
  } else {
    if constexpr (S::MOVES) take_registers<S::MANY>();
    for (int work = blockIdx.x; work < count; work += gridDim.x, ++turn) {
      const AttentionWork<S> at(s, work);
      const float low = -__builtin_inff();
      AttentionGroup<S, T, Mask> mine = {s, mask, queries + (turn % 2 * GROUPS + group) * 64 * D, staged, added, full,
                                         at.b, at.h, at.i0 + group * 64, {{}, {low, low}, {}}, {}, {}, 0};
      if constexpr (by_flag) {
        const unsigned long long own = mine.steps_seen(at.steps);
        if (lane == 0) words[turn % 2 * GROUPS * 4 + threadIdx.x / 32] = own, arrive(known + turn % 2);
        wait_round(known + turn % 2, turn / 2 % 2);
      }
      Seen_ seen(words + turn % 2 * GROUPS * 4);
      seen.bits = (unsigned long long)(unsigned)same_in_warp((int)(seen.bits >> 32)) << 32 | (unsigned)same_in_warp((int)seen.bits);
      wait_round(ready + turn % 2, turn / 2 % 2);
      if (at.steps) {
        mine.score(number);
        const auto more = mine.template ahead<S::MANY >= 160>(0);
        products_left<0>();
        settled(mine.w.x);
        mine.weigh(number, 0, more);
        mine.pack();
      }
      for (int step = seen.from(1, at.steps); step < at.steps; step = seen.from(step + 1, at.steps)) {
        ++number;
        mine.score(number);
        mine.mix(number - 1);
        const auto more = mine.template ahead<S::MANY >= 160>(step * KEYS);
        products_left<1>();
        settled(mine.w.x);
        const Vec<float, 2> scaled = mine.weigh(number, step * KEYS, more);
        products_left<0>();
        settled(mine.sums);
        if (lane == 0) arrive(empty + (number - 1) % STAGES);
        if (scaled[0] != 1.0f || scaled[1] != 1.0f) {
#pragma unroll
          for (int i = 0; i < D / 2; ++i) mine.sums[i] *= scaled[i % 4 / 2];
        }
        mine.pack();
      }
      if (at.steps) {
        mine.mix(number);
        products_left<0>();
        settled(mine.sums);
        if (lane == 0) arrive(empty + number % STAGES);
        ++number;
      }
      mine.share();
      hand_over_rows<D, V>(mine.sums, (float *)(mine.own + threadIdx.x % 128 / 32 * 16 * 64), [&](int row, int d, const auto &values) {
        const int i = mine.first + threadIdx.x % 128 / 32 * 16 + row;
        if (i < s.length) out(at.b, at.h, i, d, values);
      });
      shared_is_written();
      if (lane == 0) arrive(spent + turn % 2);
    }
  }
#endif
}

}  // namespace gh
