// conv.cpp: convolutions by every way, depthwise, gradients by weights.
#include "conv_shape.h"
#include "driver.h"
#include "glasshouse/apart/conv_weight_grad.h"
#include "glasshouse/apart/few_filters.h"
#include "glasshouse/conv_grad.h"
#include "glasshouse/depthwise.h"
#include "glasshouse/vmath.h"
#include "glasshouse/winograd.h"
using namespace gh;

// way: 0 conv2d, 1 channels-first input, 2 and 4 Winograd, 5 depthwise. w is OIHW, y is NHWC.
API void conv(void* pool, int way, const long* a, const float* x, const float* w, const float* bias, float* y) {
  ThreadPool& p = *(ThreadPool*)pool;
  const ConvShape s = shape(a);
  const long OC = s.OC, k = (long)s.kh * s.kw, so = s.cg() * k;
  auto epi = [=](long r, long c, vf v, auto t) { store(y + r * OC + c, relu(v + load(bias + c, t)), t); };
  void *wp, *work;
  if (way == 2) {
    wp = malloc(winograd_weight_bytes<DotF32, 2>(s)), work = malloc(winograd_work_bytes<DotF32, 2>(s));
    winograd_pack_weights<DotF32, 2>(p, w, so, k, s.kw, 1, s, wp);
    conv2d_winograd<DotF32, 2>(p, s, x, wp, work, epi);
  } else if (way == 4) {
    wp = malloc(winograd_weight_bytes<DotF32, 4>(s)), work = malloc(winograd_work_bytes<DotF32, 4>(s));
    winograd_pack_weights<DotF32, 4>(p, w, so, k, s.kw, 1, s, wp);
    conv2d_winograd<DotF32, 4>(p, s, x, wp, work, epi);
  } else if (way == 5) {
    wp = malloc(k * s.C * 4), work = nullptr;
    depthwise_pack_weights(w, k, s.kw, 1, s, (float*)wp);
    depthwise2d(p, s, x, (const float*)wp, epi);
  } else {
    wp = malloc(conv_weight_bytes<DotF32>(s));
    conv_pack_weights<DotF32>(p, w, so, k, s.kw, 1, s, wp);
    if (way == 1) {
      work = malloc(conv_nchw_work_bytes<DotF32>(s));
      conv2d_nchw_input<DotF32>(p, s, x, wp, work, epi);
    } else {
      work = malloc(conv_work_bytes<DotF32>(s));
      conv2d<DotF32>(p, s, x, wp, work, epi);
    }
  }
  free(wp);
  free(work);
}
// y is NCHW.
template <int C>
static void few_filters_of(ThreadPool& p, const ConvShape& s, const float* x, const float* w, const float* bias, float* y) {
  const long pixels = s.OH * s.OW, k = (long)s.kh * s.kw;
  float* packed = (float*)malloc((size_t)(C * s.K()) * 4);
  few_filters_pack(w, s.C * k, k, s.kw, 1, s, packed);
  conv_few_filters<C>(p, s, x, packed, [=](long plane, long pixel, vf v, auto t) {
    store(y + plane * pixels + pixel, v + vf(bias[plane % C]), t);
  });
  free(packed);
}
API void few_filters(void* pool, const long* a, const float* x, const float* w, const float* bias, float* y) {
  ThreadPool& p = *(ThreadPool*)pool;
  const ConvShape s = shape(a);
  switch (s.OC) {
    case 1:
      return few_filters_of<1>(p, s, x, w, bias, y);
    case 3:
      return few_filters_of<3>(p, s, x, w, bias, y);
    case 8:
      return few_filters_of<8>(p, s, x, w, bias, y);
  }
}
API void conv_bf16(void* pool, const long* a, const float* x, const float* w, float* y) {
  ThreadPool& p = *(ThreadPool*)pool;
  const ConvShape s = shape(a);
  const long OC = s.OC, k = (long)s.kh * s.kw, so = s.cg() * k;
  void *wp = malloc(conv_weight_bytes<TilesBF16>(s)), *work = malloc(conv_work_bytes<TilesBF16>(s));
  conv_pack_weights<TilesBF16>(p, w, so, k, s.kw, 1, s, wp);
  conv2d<TilesBF16>(p, s, x, wp, work, [=](long r, long c, vf v, auto t) { store(y + r * OC + c, v, t); });
  free(wp);
  free(work);
}
API void weight_grad(void* pool, int direct, const long* a, const float* x, const float* g, float* dw) {
  const ConvShape s = shape(a);
  const long k = (long)s.kh * s.kw;
  const auto grad = direct ? conv_weight_grad_direct : conv_weight_grad<float>;
  void* work = malloc(direct ? conv_weight_grad_direct_bytes(s) : conv_weight_grad_bytes(s));
  grad(*(ThreadPool*)pool, s, x, g, work, dw, s.cg() * k, k, s.kw, 1);
  free(work);
}
