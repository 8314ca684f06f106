// gemm.cpp: products of every kind, with sources of A and epilogues.
#include "driver.h"
#include "glasshouse/gemm.h"
using namespace gh;

template <class D, class TA, class TB>
static void product(void* pool, int form, long M, long N, long K, const TA* A, const TB* B, int b_transposed, const float* bias,
                    float* C) {
  ThreadPool& p = *(ThreadPool*)pool;
  long rs = b_transposed ? 1 : N, cs = b_transposed ? K : 1;
  void* work = malloc(packed_b_bytes<D>(K, N) + 64);
  auto epi = [=](long r, long c, auto x, auto t) {
    if constexpr (__is_same(typename D::Acc, vi)) store(C + r * N + c, to_float(x) + load(bias + c, t), t);
    else store(C + r * N + c, x + load(bias + c, t), t);
  };
  if (form == 0) {
    gemm_dynamic<D>(p, M, N, K, RowsA<TA>{A, K}, B, rs, cs, work, epi);
  } else if (form == 1) {  // A is [K, M]
    gemm_dynamic<D>(p, M, N, K, ColsA<TA>{A, M}, B, rs, cs, work, epi);
  } else {  // a prologue that doubles A
    auto src = FnA{[=](long r, long k, auto t) { return load(A + r * K + k, t) * vf(2.0f); }};
    gemm_dynamic<D>(p, M, N, K, src, B, rs, cs, work, epi);
  }
  free(work);
}
API void product_f32(void* pool, int form, long M, long N, long K, const float* A, const float* B, int bt, const float* bias,
                     float* C) {
  product<DotF32>(pool, form, M, N, K, A, B, bt, bias, C);
}
API void product_bf16(void* pool, int form, long M, long N, long K, const bf16* A, const bf16* B, int bt, const float* bias,
                      float* C) {
  product<TilesBF16>(pool, form, M, N, K, A, B, bt, bias, C);
}
API void product_mixed(void* pool, int form, long M, long N, long K, const float* A, const float* B, int bt, const float* bias,
                       float* C) {
  product<TilesBF16>(pool, form, M, N, K, A, B, bt, bias, C);
}
API void product_i8(void* pool, int form, long M, long N, long K, const uint8_t* A, const int8_t* B, int bt, const float* bias,
                    float* C) {
  product<TilesI8>(pool, form, M, N, K, A, B, bt, bias, C);
}
API void product_f16(void* pool, int form, long M, long N, long K, const f16* A, const f16* B, int bt, const float* bias,
                     float* C) {
  product<DotF32>(pool, form, M, N, K, A, B, bt, bias, C);
}
API void product_f64(void* pool, int form, long M, long N, long K, const double* A, const double* B, int bt, double* C) {
  long rs = bt ? 1 : N, cs = bt ? K : 1;
  if (form == 2) rs *= 2, cs *= 2;  // B is every second element
  void* work = malloc(packed_b_bytes<DotF64>(K, N) + 64);
  auto epi = [=](long r, long c, vd x, auto t) { store(C + r * N + c, x + load(C + r * N + c, t), t); };
  auto run = [&](auto src) { gemm_dynamic<DotF64>(*(ThreadPool*)pool, M, N, K, src, B, rs, cs, work, epi); };
  if (form == 1) run(ColsA<double>{A, M});
  else run(RowsA<double>{A, K});
  free(work);
}
API void product_batched_f64(void* pool, long batch, long M, long N, long K, const double* A, const double* B, double* C) {
  gemm_batched<DotF64>(
      *(ThreadPool*)pool, batch, M, N, K, [=](long b) { return RowsA<double>{A + b * M * K, K}; }, B,
      [=](long b) { return b * K * N; }, N, 1,
      [=](long b, long r, long c, vd x, auto t) { store(C + (b * M + r) * N + c, x, t); });
}
// Strides of B that are neither row- nor column-major: element (k, n) at B[2 (k N + n)].
API void product_strided(void* pool, long M, long N, long K, const float* A, const float* B, float* C) {
  void* work = malloc(packed_b_bytes<DotF32>(K, N) + 64);
  gemm_dynamic<DotF32>(*(ThreadPool*)pool, M, N, K, RowsA<float>{A, K}, B, 2 * N, 2, work,
                       [=](long r, long c, vf x, auto t) { store(C + r * N + c, x, t); });
  free(work);
}
API void product_batched(void* pool, long batch, long M, long N, long K, const float* A, const float* B, int shared_b, int bt,
                         float* C) {
  gemm_batched<DotF32>(
      *(ThreadPool*)pool, batch, M, N, K, [=](long b) { return RowsA<float>{A + b * M * K, K}; }, B,
      [=](long b) { return shared_b ? 0 : b * K * N; }, bt ? 1 : N, bt ? K : 1,
      [=](long b, long r, long c, vf x, auto t) { store(C + (b * M + r) * N + c, x, t); });
}
template <class Src>
static bool four_tiles(const Src& src, long K) {
  return SerialPlan<DotF32, Src>(src, K).block / kTallest<DotF32> >= 4;
}
// Whether full blocks of A, in place and packed, have four tiles, beside which the next panel is fetched.
API int panels_are_fetched_ahead(long K) {
  const float* none = nullptr;
  return four_tiles(RowsA<float>{none, K + 1}, K) && four_tiles(ColsA<float>{none, 1}, K);
}
