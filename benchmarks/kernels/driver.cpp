// driver.cpp: the kernel headers behind a C interface, for run.py.
#include "glasshouse/attention.h"
#include "glasshouse/vmath.h"
#include "glasshouse/winograd.h"
using namespace gh;
#define API extern "C" __attribute__((visibility("default")))
#define POOL (*(ThreadPool*)pool)

API void* pool_new(int threads) { return new ThreadPool(threads); }

template <class D, class T>
static void product(void* pool, int act, long M, long N, long K, const T* A, const void* B, const float* bias, T* C) {
  const OutHint hint{C, (long)(N * sizeof(T)), sizeof(T)};
  if (act)
    gemm<D>(
        POOL, M, N, K, RowsA<T>{A, K}, B,
        [=](long r, long c, vf x, auto t) { store(C + r * N + c, gelu(x + load(bias + c, t)), t); }, hint);
  else
    gemm<D>(
        POOL, M, N, K, RowsA<T>{A, K}, B, [=](long r, long c, vf x, auto t) { store(C + r * N + c, x + load(bias + c, t), t); },
        hint);
}
API long product_bytes(int bf, long K, long N) { return bf ? packed_b_bytes<TilesBF16>(K, N) : packed_b_bytes<DotF32>(K, N); }
API void product_pack(void* pool, int bf, const float* W, long K, long N, void* out) {  // W is [N, K]
  if (bf) pack_b_parallel<TilesBF16>(POOL, W, 1, K, K, N, out);
  else pack_b_parallel<DotF32>(POOL, W, 1, K, K, N, out);
}
API void product_run(void* pool, int bf, int act, long M, long N, long K, const void* A, const void* B, const float* bias,
                     void* C) {
  if (bf) product<TilesBF16, bf16>(pool, act, M, N, K, (const bf16*)A, B, bias, (bf16*)C);
  else product<DotF32, float>(pool, act, M, N, K, (const float*)A, B, bias, (float*)C);
}

// a: N H W C OH OW OC kh kw sh sw ph pw dh dw groups. way: 0 conv2d, 1 channels-first input, 2 and 4 Winograd.
static ConvShape shape(const long* a) {
  ConvShape s{a[0], a[1], a[2], a[3], a[4], a[5], a[6], (int)a[7], (int)a[8]};
  s.sh = (int)a[9], s.sw = (int)a[10], s.ph = (int)a[11], s.pw = (int)a[12], s.dh = (int)a[13], s.dw = (int)a[14];
  s.groups = a[15];
  return s;
}
template <class D>
static long weight_bytes(const ConvShape& s, int way) {
  return way == 2 ? winograd_weight_bytes<D, 2>(s) : way == 4 ? winograd_weight_bytes<D, 4>(s) : conv_weight_bytes<D>(s);
}
template <class D>
static long work_bytes(const ConvShape& s, int way) {
  return way == 2   ? winograd_work_bytes<D, 2>(s)
         : way == 4 ? winograd_work_bytes<D, 4>(s)
         : way == 1 ? conv_nchw_work_bytes<D>(s)
                    : conv_work_bytes<D>(s);
}
template <class D>
static void conv_pack_as(void* pool, const ConvShape& s, int way, const float* w, void* out) {
  const long k = (long)s.kh * s.kw, so = s.cg() * k;
  if (way == 2) winograd_pack_weights<D, 2>(POOL, w, so, k, s.kw, 1, s, out);
  else if (way == 4) winograd_pack_weights<D, 4>(POOL, w, so, k, s.kw, 1, s, out);
  else conv_pack_weights<D>(POOL, w, so, k, s.kw, 1, s, out);
}
template <class D>
static void conv_as(void* pool, const ConvShape& s, int way, const float* x, const void* w, void* work, const float* bias,
                    float* y) {
  const long OC = s.OC;
  auto epi = [=](long r, long c, vf v, auto t) { store(y + r * OC + c, relu(v + load(bias + c, t)), t); };
  const OutHint hint{y, OC * 4, 4};
  if (way == 2) conv2d_winograd<D, 2>(POOL, s, x, w, work, epi);
  else if (way == 4) conv2d_winograd<D, 4>(POOL, s, x, w, work, epi);
  else if (way == 1) conv2d_nchw_input<D>(POOL, s, x, w, work, epi, hint);
  else conv2d<D>(POOL, s, x, w, work, epi, hint);
}
API long conv_weight_size(int bf, const long* a, int way) {
  return bf ? weight_bytes<TilesBF16>(shape(a), way) : weight_bytes<DotF32>(shape(a), way);
}
API long conv_work_size(int bf, const long* a, int way) {
  return bf ? work_bytes<TilesBF16>(shape(a), way) : work_bytes<DotF32>(shape(a), way);
}
API void conv_pack(void* pool, int bf, const long* a, int way, const float* w, void* out) {
  if (bf) conv_pack_as<TilesBF16>(pool, shape(a), way, w, out);
  else conv_pack_as<DotF32>(pool, shape(a), way, w, out);
}
API void conv_run(void* pool, int bf, const long* a, int way, const float* x, const void* w, void* work, const float* bias,
                  float* y) {
  if (bf) conv_as<TilesBF16>(pool, shape(a), way, x, w, work, bias, y);
  else conv_as<DotF32>(pool, shape(a), way, x, w, work, bias, y);
}

// q, k, v: slices of one [batch, length, 3 heads dim] array; mask [batch, length] is added when given; o: [batch, length, heads dim].
API void attention_run(void* pool, long B, long H, long L, long D, int causal, const float* qkv, const float* mask, float* o) {
  AttentionShape s{B, H, H, L, L, D, D, 1.0f / __builtin_sqrtf((float)D), causal != 0};
  const long row = 3 * H * D;
  Strided<float> q{qkv, L * row, D, row}, k{qkv + H * D, L * row, D, row}, v{qkv + 2 * H * D, L * row, D, row};
  auto out = [=](long b, long h, long i, long d, vf x, auto t) { store(o + ((b * L + i) * H + h) * D + d, x, t); };
  if (mask)
    attention<DotF32>(
        POOL, s, q, k, v, [=](long b, long, long, long j, vf x, auto t) { return x + load(mask + b * L + j, t); }, out);
  else attention<DotF32>(POOL, s, q, k, v, NoMask{}, out);
}
