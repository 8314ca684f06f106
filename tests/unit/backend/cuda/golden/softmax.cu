// Softmax
#define GH_HALF_RESULTS 1
#include "glasshouse/kernels.cuh"

extern "C" __global__ void __launch_bounds__(128)
softmax_0(gh::Context ctx, char* work, const gh::f16* x0, gh::f16* y0) {
  const gh::Ending ending_(ctx);
  gh::let_next_begin();
  gh::wait_for_earlier(ctx);
  const int row_ = blockIdx.x * 4 + threadIdx.x / 32;
  const int lane_ = threadIdx.x % 32;
  if (row_ >= 4096) return;
  const int i0_ = row_;
  float acc3_ = -__builtin_inff();
  for (int f_1 = lane_; f_1 < 64; f_1 += 32) {
    const int r3_1_ = f_1;
    const float t4_ = gh::to_scalar(x0[i0_ * 64 + r3_1_]);
    const float t5_ = t4_;
    acc3_ = gh::max(acc3_, t5_);
  }
  acc3_ = gh::across_warp<gh::Max>(acc3_);
  float acc8_ = 0.0f;
  for (int f_2 = lane_; f_2 < 64; f_2 += 32) {
    const int r8_1_ = f_2;
    const float t9_ = gh::to_scalar(x0[i0_ * 64 + r8_1_]);
    const float t10_ = t9_;
    const float t11_ = gh::sub(t10_, acc3_);
    const float t12_ = gh::exp(t11_);
    acc8_ = acc8_ + t12_;
  }
  acc8_ = gh::across_warp<gh::Sum>(acc8_);
  for (int f_3 = lane_; f_3 < 64; f_3 += 32) {
    const int i1_ = f_3;
    const float t1_ = gh::to_scalar(x0[i0_ * 64 + i1_]);
    const float t2_ = t1_;
    const float t6_ = gh::sub(t2_, acc3_);
    const float t7_ = gh::exp(t6_);
    const float t13_ = (t7_ / acc8_);
    const float t14_ = gh::round_f16(t13_);
    y0[i0_ * 64 + i1_] = gh::from_scalar<gh::f16>(t14_);
  }
}
