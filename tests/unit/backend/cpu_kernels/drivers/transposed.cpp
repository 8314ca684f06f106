// transposed.cpp: gradients of convolutions by their input, by every way.
#include "glasshouse/apart/transposed.h"
#include "conv_shape.h"
#include "driver.h"
#include "glasshouse/apart/few_channels.h"
using namespace gh;

// way: 0 phases by im2col, 1 phases read in place where they can be, 2 product first (dx is NCHW), 3 taps that never meet.
API void input_grad(void* pool, int way, const long* a, const float* g, const float* w, float* dx) {
  ThreadPool& p = *(ThreadPool*)pool;
  const ConvShape s = shape(a);
  const long C = s.C, k = (long)s.kh * s.kw, pixels = s.H * s.W_in;
  const auto epi = [=](long r, long c, vf v, auto t) { store(dx + r * C + c, v, t); };
  if (way == 2) {
    float* turned = (float*)malloc((size_t)s.OC * C * k * 4);
    few_turn_weights(w, s.OC, C * k, turned);
    conv_few_channels(p, s, g, turned, [=](long plane, long pixel, vf v, auto t) { store(dx + plane * pixels + pixel, v, t); });
    free(turned);
    return;
  }
  if (way == 3) {
    const SpreadShape spread{s.N, {1, s.OH, s.OW}, {1, s.kh, s.kw}, s.OC, C};
    void* packed = malloc(spread_weight_bytes<DotF32>(spread));
    spread_pack_weights<DotF32>(p, w, spread, packed);
    conv_spread<DotF32>(p, spread, g, packed, epi);
    free(packed);
    return;
  }
  void *packed = malloc(phases_weight_bytes<DotF32>(s)), *work = malloc(phases_work_bytes<DotF32>(s));
  phases_pack_weights<DotF32>(p, w, s.cg() * k, k, s.kw, 1, s, packed);
  const bool direct = way == 1 && s.groups == 1 && s.dw == 1 && s.kh <= 64;
  if (direct) conv_phases<DotF32, ConvWay::kDirect>(p, s, g, packed, work, epi);
  else conv_phases<DotF32, ConvWay::kIm2col>(p, s, g, packed, work, epi);
  free(packed);
  free(work);
}
