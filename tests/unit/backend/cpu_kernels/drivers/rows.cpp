// rows.cpp: attention, pooling, gathers, transposes, the pool itself.
#include "driver.h"
#include "glasshouse/attention.h"
#include "glasshouse/context.h"
#include "glasshouse/gather.h"
#include "glasshouse/pool.h"
using namespace gh;

#define POOL (*(ThreadPool*)pool)

// d: batch heads kv_heads q_len k_len dim v_dim causal align_end. q, k, v, o are [batch, length, heads, dim].
template <class D>
static void attend(void* pool, const long* d, float scale, const float* q, const float* k, const float* v, const float* mask,
                   float* o) {
  AttentionShape s{d[0], d[1], d[2], d[3], d[4], d[5], d[6], scale, d[7] != 0, d[8] != 0};
  Strided<float> sq{q, s.q_len * s.heads * s.dim, s.dim, s.heads * s.dim};
  Strided<float> sk{k, s.k_len * s.kv_heads * s.dim, s.dim, s.kv_heads * s.dim};
  Strided<float> sv{v, s.k_len * s.kv_heads * s.v_dim, s.v_dim, s.kv_heads * s.v_dim};
  const long Q = s.q_len, K = s.k_len, H = s.heads, DV = s.v_dim;
  auto out = [=](long b, long h, long i, long c, vf x, auto t) { store(o + ((b * Q + i) * H + h) * DV + c, x, t); };
  if (mask)
    attention<D>(
        POOL, s, sq, sk, sv,
        [=](long b, long, long i, long j, vf x, auto t) { return x + load(mask + (b * Q + i) * K + j, t); }, out);
  else attention<D>(POOL, s, sq, sk, sv, NoMask{}, out);
}
API void attend_f32(void* pool, const long* d, float scale, const float* q, const float* k, const float* v, const float* m,
                    float* o) {
  attend<DotF32>(pool, d, scale, q, k, v, m, o);
}
API void attend_bf16(void* pool, const long* d, float scale, const float* q, const float* k, const float* v, const float* m,
                     float* o) {
  attend<TilesBF16>(pool, d, scale, q, k, v, m, o);
}

// a: N C H W OH OW kh kw sh sw ph pw dh dw count_pad
API void pool2d(void* pool, int kind, int channels_first, const long* a, const float* x, float* y) {
  PoolShape s{a[0], a[1], a[2], a[3], a[4], a[5], (int)a[6], (int)a[7], (int)a[8], (int)a[9], (int)a[10], (int)a[11]};
  s.dh = (int)a[12], s.dw = (int)a[13], s.count_pad = a[14] != 0, s.ph_end = s.ph, s.pw_end = s.pw;
  const long C = s.C;
  auto last = [=](long r, long c, vf v, auto t) { store(y + r * C + c, v, t); };
  auto first = [=](long i, float v) { y[i] = v; };
  if (kind == 0 && channels_first) pool2d_nchw<MaxOp>(POOL, s, x, first);
  else if (kind == 0) pool2d_nhwc<MaxOp>(POOL, s, x, last);
  else if (channels_first) pool2d_nchw<SumOp>(POOL, s, x, first);
  else pool2d_nhwc<SumOp>(POOL, s, x, last);
}
API void gather(void* pool, long n, long width, long limit, const int64_t* idx, const float* table, float* y) {
  gather_rows(
      POOL, n, width, limit, [=](long i) { return (long)idx[i]; },
      [=](long i, long r, long j, auto t) { store(y + i * width + j, load(table + r * width + j, t), t); });
}
API void scatter(void* pool, long n, long width, long limit, const int64_t* idx, const float* x, float* table) {
  scatter_add_rows(
      POOL, n, width, limit, [=](long i) { return (long)idx[i]; },
      [=](long i, long j, auto t) { return load(x + i * width + j, t); }, table);
}
template <class T>
static void turn(void* pool, long batch, long rows, long cols, const void* x, void* y) {
  transpose_batched(POOL, batch, rows, cols, (const T*)x, cols, rows * cols, (T*)y, rows, rows * cols);
}
API void turn4(void* pool, long batch, long rows, long cols, const void* x, void* y) {
  turn<float>(pool, batch, rows, cols, x, y);
}
API void turn2(void* pool, long batch, long rows, long cols, const void* x, void* y) {
  turn<uint16_t>(pool, batch, rows, cols, x, y);
}
API void turn8(void* pool, long batch, long rows, long cols, const void* x, void* y) {
  turn<double>(pool, batch, rows, cols, x, y);
}

// Counts how often each part ran: `regions` parallel regions, from inside one another when `nested`.
API void count_parts(void* pool, long regions, int nested, long total, long* count) {
  ThreadPool& p = POOL;
  for (long r = 0; r < regions; r++)
    parallel_for(p, total, 1, [&](long b, long e) {
      for (long i = b; i < e; i++) {
        if (nested) parallel_for(p, 3, 1, [&](long bb, long ee) { __atomic_add_fetch(count + i, ee - bb, __ATOMIC_RELAXED); });
        else count[i]++;
      }
    });
}
// Counts how often each item of each part was taken, in `regions` regions; the first part's items are slow.
API void count_items(void* pool, long regions, int parts, int items, long* count) {
  struct Taken { long items = 0; };
  for (long r = 0; r < regions; r++)
    share_out<Taken>(POOL, parts, items, [&](int part, int item, Taken& taken) {
      for (int i = 0; part == 0 && i < 1000; i++) cpu_relax();
      taken.items++;
      __atomic_add_fetch(count + (long)part * items + item, taken.items > 0, __ATOMIC_RELAXED);
    });
}
API void set_threads(void* pool, int n) { POOL.set_threads(n); }

// Whether the body of a parallel loop is a copy, which nobody else has the address of.
struct Body {
  std::atomic<const void*>* seen;
  void operator()(int64_t, int64_t) const { *seen = this; }
};
API int has_own_captures(void* pool, long total) {
  std::atomic<const void*> seen{nullptr};
  Context ctx{(ThreadPool*)pool};
  const Body body{&seen};
  ctx.parallel(total, true, body);
  return seen != nullptr && seen != &body;
}
