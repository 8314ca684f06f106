// Softmax
#define GH_HALF_RESULTS 1
#include "glasshouse/loops.cuh"

extern "C" __global__ void __launch_bounds__(128)
softmax_0(gh::Context ctx, char* work, const gh::f16* x0, gh::f16* y0) {
  const gh::Ending ending_(ctx);
  gh::let_next_begin();
  const int row_ = blockIdx.x * 4 + threadIdx.x / 32;
  const int lane_ = threadIdx.x % 32;
  gh::wait_for_earlier(ctx);
  if (row_ >= 4096) return;
  const int i0_ = row_;
  gh::Vec<gh::f16, 2> held0_[1];
#pragma unroll
  for (int h_ = 0; h_ < 1; ++h_) {
    const int r3_1_ = (h_ * 32 + lane_) * 2;
    held0_[h_] = gh::load_vec<2>(x0 + i0_ * 64 + r3_1_);
  }
  float acc3_ = -__builtin_inff();
#pragma unroll
  for (int h_ = 0; h_ < 1; ++h_) {
    const int r3_1_ = (h_ * 32 + lane_) * 2;
    const auto t4_v = held0_[h_];
    const int r3_1_first_ = r3_1_;
#pragma unroll
    for (int u_ = 0; u_ < 2; ++u_) {
      const int r3_1_ = r3_1_first_ + u_;
      const auto t4_ = gh::to_scalar(t4_v[u_]);
      const float t5_ = t4_;
      acc3_ = gh::max(acc3_, t5_);
    }
  }
  acc3_ = gh::across_warp<gh::Max>(acc3_);
  float acc8_ = 0.0f;
#pragma unroll
  for (int h_ = 0; h_ < 1; ++h_) {
    const int r8_1_ = (h_ * 32 + lane_) * 2;
    const auto t9_v = held0_[h_];
    const int r8_1_first_ = r8_1_;
#pragma unroll
    for (int u_ = 0; u_ < 2; ++u_) {
      const int r8_1_ = r8_1_first_ + u_;
      const auto t9_ = gh::to_scalar(t9_v[u_]);
      const float t10_ = t9_;
      const float t11_ = gh::sub(t10_, acc3_);
      const float t12_ = gh::exp(t11_);
      acc8_ = acc8_ + t12_;
    }
  }
  acc8_ = gh::across_warp<gh::Sum>(acc8_);
#pragma unroll
  for (int h_ = 0; h_ < 1; ++h_) {
    const int i1_ = (h_ * 32 + lane_) * 2;
    const auto t1_v = held0_[h_];
    gh::Vec<gh::f16, 2> out0v;
    const int i1_first_ = i1_;
#pragma unroll
    for (int u_ = 0; u_ < 2; ++u_) {
      const int i1_ = i1_first_ + u_;
      const auto t1_ = gh::to_scalar(t1_v[u_]);
      const float t2_ = t1_;
      const float t6_ = gh::sub(t2_, acc3_);
      const float t7_ = gh::exp(t6_);
      const float t13_ = (t7_ / acc8_);
      const float t14_ = gh::round_f16(t13_);
      out0v[u_] = gh::from_scalar<gh::f16>(t13_);
    }
    gh::store_vec(y0 + i0_ * 64 + i1_, out0v);
  }
}
