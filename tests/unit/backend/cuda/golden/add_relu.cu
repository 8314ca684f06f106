// Add, Relu
#include "glasshouse/loops.cuh"

extern "C" __global__ void __launch_bounds__(256)
add_relu_0(gh::Context ctx, char* work, const float* x0, const float* x1, float* y0) {
  const gh::Ending ending_(ctx);
  gh::let_next_begin();
  gh::wait_for_earlier(ctx);
  const int e_ = (blockIdx.x * 256 + threadIdx.x);
  if (e_ >= 320) return;
  const int i1_q_ = e_ / 8;
  const int i1_ = e_ - i1_q_ * 8;
  const int i0_ = i1_q_;
  const float t1_ = x0[i0_ * 8 + i1_];
  const float t2_ = x1[i1_];
  const float t3_ = gh::add(t1_, t2_);
  const float t4_ = gh::relu(t3_);
  y0[i0_ * 8 + i1_] = t4_;
}
