// pool_grad.h: gradients of pooling, channels last: each element of the image adds up what its windows hand back.
//
// Contract
// - `PoolShape` as in pool.h describes the forward pooling: g is [N, OH, OW, C], x [N, H, W_in, C]; `out(pixel, c, vf, range)` with
//   pixel = (n H + h) W_in + w takes the gradient. Windows are added in the order of their outputs, whatever the threads.
// - `max_pool_grad(pool, s, g, x, places, out)`: a window hands g to its maximum, the first of equals, the last of NaNs. `places`:
//   a byte for each element of g.
// - `avg_pool_grad(pool, s, g, out)`: a window hands its share of g to each of its inputs, divided as `avg` divides.
// - Kernels of up to kMostTaps taps along an axis; a maximum's of up to kNoTap in all.
#pragma once
#include "pool.h"

namespace gh {
inline namespace GH_ISA_NS {

constexpr int kMostTaps = 64;  // along one axis
constexpr int kNoTap = 255;

// Outputs whose window covers position `at` of one axis, in order, with the tap that does.
struct Covering {
  long output[kMostTaps];
  int tap[kMostTaps], count = 0;
  Covering(long at, int kernel, int stride, int pad, int dilation, long outputs) {
    for (int k = kernel - 1; k >= 0 && count < kMostTaps; k--) {
      const long moved = at + pad - (long)k * dilation;
      if (moved >= 0 && moved % stride == 0 && moved / stride < outputs) output[count] = moved / stride, tap[count++] = k;
    }
  }
};

// f(pixel, n, windows over h, windows over w) for each pixel of the images.
template <class F>
inline void each_covered(ThreadPool &pool, const PoolShape &s, F &&f) {
  parallel_for(pool, s.N * s.H, row_grain(s.W_in * s.C), [&](long b, long e) {
    for (long r = b; r < e; r++) {
      const Covering h(r % s.H, s.kh, s.sh, s.ph, s.dh, s.OH);
      for (long w = 0; w < s.W_in; w++) f(r * s.W_in + w, r / s.H, h, Covering(w, s.kw, s.sw, s.pw, s.dw, s.OW));
    }
  });
}

// Which tap of its window each output's maximum is, numbered row by row.
template <class T>
inline void max_places(ThreadPool &pool, const PoolShape &s, const T *x, uint8_t *places) {
  parallel_for(pool, s.N * s.OH, row_grain(s.OW * s.C * s.kh * s.kw / 4), [&](long b, long e) {
    for (long r = b; r < e; r++) {
      const long n = r / s.OH, oh = r % s.OH;
      const T *image = x + n * s.H * s.W_in * s.C;
      const Taps h = valid_taps(oh, s.kh, s.sh, s.ph, s.dh, s.H);
      for (long ow = 0; ow < s.OW; ow++) {
        const Taps w = valid_taps(ow, s.kw, s.sw, s.pw, s.dw, s.W_in);
        for_each_vector(s.C, [&](long c, auto t) __attribute__((always_inline)) {
          vf top(-__builtin_inff());
          vf best((float)(h.begin < h.end && w.begin < w.end ? h.begin * s.kw + w.begin : kNoTap));
          for (int i = h.begin; i < h.end; i++)
            for (int j = w.begin; j < w.end; j++) {
              const vf v = load(image + ((oh * s.sh - s.ph + i * s.dh) * s.W_in + ow * s.sw - s.pw + j * s.dw) * s.C + c, t);
              const vm better = (v > top) | is_nan(v);
              top = select(better, v, top), best = select(better, vf((float)(i * s.kw + j)), best);
            }
          store(places + (r * s.OW + ow) * s.C + c, best, t);
        });
      }
    }
  });
}

template <class T, class Out>
inline void max_pool_grad(ThreadPool &pool, const PoolShape &s, const float *g, const T *x, uint8_t *places, Out &&out) {
  max_places(pool, s, x, places);
  each_covered(pool, s, [&](long pixel, long n, const Covering &h, const Covering &w) __attribute__((always_inline)) {
    for_each_vector(s.C, [&](long c, auto t) __attribute__((always_inline)) {
      vf sum(0.0f);
      for (int i = 0; i < h.count; i++)
        for (int j = 0; j < w.count; j++) {
          const long at = ((n * s.OH + h.output[i]) * s.OW + w.output[j]) * s.C + c;
          sum += zero_unless(load(places + at, t) == vf((float)(h.tap[i] * s.kw + w.tap[j])), load(g + at, t));
        }
      out(pixel, c, sum, t);
    });
  });
}

// How many inputs an average divides by along one axis, for each window of a covering.
struct Averaged {
  int inputs[kMostTaps];
  Averaged(const Covering &c, bool count_pad, int kernel, int stride, int pad, int pad_end, int dilation, long size) {
    for (int i = 0; i < c.count; i++) {
      const Taps t = count_pad ? valid_taps(c.output[i], kernel, stride, 0, dilation, size + pad + pad_end)
                               : valid_taps(c.output[i], kernel, stride, pad, dilation, size);
      inputs[i] = t.end - t.begin;
    }
  }
};

template <class Out>
inline void avg_pool_grad(ThreadPool &pool, const PoolShape &s, const float *g, Out &&out) {
  each_covered(pool, s, [&](long pixel, long n, const Covering &h, const Covering &w) __attribute__((always_inline)) {
    const Averaged rows(h, s.count_pad, s.kh, s.sh, s.ph, s.ph_end, s.dh, s.H);
    const Averaged cols(w, s.count_pad, s.kw, s.sw, s.pw, s.pw_end, s.dw, s.W_in);
    for_each_vector(s.C, [&](long c, auto t) __attribute__((always_inline)) {
      vf sum(0.0f);
      for (int i = 0; i < h.count; i++)
        for (int j = 0; j < w.count; j++) {
          const vf share(1.0f / (float)(rows.inputs[i] * cols.inputs[j]));
          sum = fma(load(g + ((n * s.OH + h.output[i]) * s.OW + w.output[j]) * s.C + c, t), share, sum);
        }
      out(pixel, c, sum, t);
    });
  });
}

}  // namespace GH_ISA_NS
}  // namespace gh
