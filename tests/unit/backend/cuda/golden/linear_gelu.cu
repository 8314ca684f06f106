// Matmul, Add, Gelu
#define GH_HALF_RESULTS 1
#include "glasshouse/kernels.cuh"

extern "C" __global__ void __launch_bounds__(160, 2)
matmul_add_gelu_0(gh::Context ctx, char* work, const gh::f16* x0, const gh::f16* x1, const gh::f16* x2, gh::f16* y0, const __grid_constant__ gh::TensorMap map0, const __grid_constant__ gh::TensorMap map1) {
  const gh::Ending ending_(ctx);
  gh::let_next_begin();
  gh::prefetch_constant(x2, 2048);
  const auto left_ = gh::MappedRows<gh::f16>{map0};
  const auto& right_ = gh::MappedColumns<gh::f16, true>{map1};
  const auto loads_ = [=](int m, int n) {
    const auto t1_v = gh::load_vec<8>(x2 + n);
    return gh::loaded(t1_v);
  };
  gh::gemm_tma<gh::Fetched<64, 64, 6, 2>, 8, true, true, 1>(ctx, (int)512, (int)1024, (int)256, left_, right_, gh::after(loads_, [=](int m, int n, const auto& sums_, const auto& loaded_) {
    const auto t1_v = gh::get<0>(loaded_);
    gh::Vec<gh::f16, 8> out0v;
    const int nfirst_ = n;
#pragma unroll
    for (int u_ = 0; u_ < 8; ++u_) {
      const int n = nfirst_ + u_;
      const auto acc = sums_[u_];
      const auto t1_ = gh::to_scalar(t1_v[u_]);
      const float t2_ = gh::add(acc, t1_);
      const float t3_ = gh::gelu(t2_);
      out0v[u_] = gh::from_scalar<gh::f16>(t3_);
    }
    gh::store_vec(y0 + m * 1024 + n, out0v);
  }));
}
