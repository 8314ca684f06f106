// pool_grad.h: gradients of pooling, channels first: each plane is one thread's, so sums have one order.
//
// Contract: `PoolShape` as in pool.h describes the forward pooling. `max_pool_grad` adds g where the window's maximum is, the
// first of equals, the last of NaNs; `avg_pool_grad` spreads g over the window's inputs, divided as `avg` divides.
#pragma once
#include "context.h"
#include "pool.h"

namespace gh {
inline namespace GH_ISA_NS {

template <class F>
inline void each_window(Context &ctx, const PoolShape &s, F &&f) {
  ctx.parallel(s.N * s.C, s.N * s.C * s.OH * s.OW >= 4096, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane)
      for (long oh = 0; oh < s.OH; ++oh)
        for (long ow = 0; ow < s.OW; ++ow)
          f(plane, oh, ow, valid_taps(oh, s.kh, s.sh, s.ph, s.dh, s.H), valid_taps(ow, s.kw, s.sw, s.pw, s.dw, s.W_in));
  });
}

inline void max_pool_grad(Context &ctx, const PoolShape &s, const float *g, const float *x, float *out) {
  memset(out, 0, (size_t)(s.N * s.C * s.H * s.W_in) * sizeof(float));
  each_window(ctx, s, [&](int64_t plane, long oh, long ow, Taps h, Taps w) {
    const float *image = x + plane * s.H * s.W_in;
    long best = -1;
    float top = 0;
    for (int i = h.begin; i < h.end; ++i)
      for (int j = w.begin; j < w.end; ++j) {
        const long at = (oh * s.sh - s.ph + i * s.dh) * s.W_in + ow * s.sw - s.pw + j * s.dw;
        const float v = image[at];
        if (best < 0 || v > top || v != v) best = at, top = v;
      }
    if (best >= 0) out[plane * s.H * s.W_in + best] += g[(plane * s.OH + oh) * s.OW + ow];
  });
}

inline void avg_pool_grad(Context &ctx, const PoolShape &s, const float *g, float *out) {
  memset(out, 0, (size_t)(s.N * s.C * s.H * s.W_in) * sizeof(float));
  each_window(ctx, s, [&](int64_t plane, long oh, long ow, Taps h, Taps w) {
    const float share = g[(plane * s.OH + oh) * s.OW + ow] * pool_scale<SumOp>(s, h, w, oh, ow);
    for (int i = h.begin; i < h.end; ++i)
      for (int j = w.begin; j < w.end; ++j)
        out[plane * s.H * s.W_in + (oh * s.sh - s.ph + i * s.dh) * s.W_in + ow * s.sw - s.pw + j * s.dw] += share;
  });
}

}  // namespace GH_ISA_NS
}  // namespace gh
