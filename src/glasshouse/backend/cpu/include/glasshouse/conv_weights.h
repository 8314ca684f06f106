// conv_weights.h: what a convolution is, and its weights in the form that products want: at compile time, or in every run.
//
// Contract
// - `ConvShape`: x is [N, H, W_in, C], the result [N, OH, OW, OC]; 1-D convolutions have H = OH = kh = 1. Padding is zeros at the
//   beginning (ph, pw); what lies beyond the end is zero too, so unequal paddings need only OH and OW.
// - Weights are read as w[o so + i si + kh sh + kw sw]: torch's OIHW has so = I KH KW, si = KH KW, sh = KW, sw = 1. The gradient by
//   the input is a convolution whose weights are the same memory with so and si exchanged and the taps from last to first.
// - `conv_pack_weights<D>(pool, w, so, si, sh, sw, s, out)`: packed panels of K = (kh, kw, c) order, one after the other for each
//   group; `conv_weight_bytes<D>(s)`. 512 x 512 x 3 x 3 weights take 1 ms where the taps of a channel lie together.
#pragma once
#include "gemm_pack.h"
#include "reduce.h"

namespace gh {
inline namespace GH_ISA_NS {

struct ConvShape {
  long N, H, W_in, C, OH, OW, OC;
  int kh, kw, sh = 1, sw = 1, ph = 0, pw = 0, dh = 1, dw = 1;
  long groups = 1;
  constexpr long cg() const { return C / groups; }
  constexpr long og() const { return OC / groups; }
  constexpr long K() const { return (long)kh * kw * cg(); }
  constexpr bool pointwise() const { return kh == 1 && kw == 1 && sh == 1 && sw == 1 && ph == 0 && pw == 0 && OH == H && OW == W_in; }
  // The padded image that direct tiles read: as far as the last output's last tap.
  constexpr long padded_h() const { return (OH - 1) * sh + (kh - 1) * dh + 1; }
  constexpr long padded_w() const { return (OW - 1) * sw + (kw - 1) * dw + 1; }
  // Columns of the result whose taps all lie inside the image.
  constexpr Range whole_columns() const {
    const long last = W_in - 1 - (long)(kw - 1) * dw + pw, begin = (pw + sw - 1) / sw;
    long end = last < 0 ? 0 : last / sw + 1;
    if (end > OW) end = OW;
    return {begin < end ? begin : end, end};
  }
  constexpr bool needs_pad() const { return ph > 0 || pw > 0 || padded_h() > H || padded_w() > W_in; }
};

template <class D>
inline size_t conv_weight_bytes(const ConvShape &s) { return s.groups * packed_b_bytes<D>(s.K(), s.og()); }

// Weights as [o][kh, kw, c], the form every packing starts from. torch's OIHW goes through register tiles.
template <class T>
inline void conv_reorder_weights(ThreadPool &pool, const T *w, long so, long si, long sh, long sw, const ConvShape &s, T *out) {
  const long K = s.K(), cg = s.cg(), taps = (long)s.kh * s.kw;
  parallel_for(pool, s.OC, row_grain(K), [&](long begin, long end) {
    for (long o = begin; o < end; o++) {
      if (sw == 1 && sh == s.kw && si == taps) {
        transpose2d(cg, taps, w + o * so, taps, out + o * K, cg);
        continue;
      }
      for (int i = 0; i < s.kh; i++)
        for (int j = 0; j < s.kw; j++)
          for (long c = 0; c < cg; c++) out[o * K + ((long)i * s.kw + j) * cg + c] = w[o * so + i * sh + j * sw + c * si];
    }
  });
}

// Float32 weights of one group whose kh * kw taps lie together, in this order or from last to first: read in one sweep.
struct TapRuns {
  long so, si, taps;
  bool known, flipped;
  TapRuns(long o, long i, long sh, long sw, const ConvShape &s) : so(o), si(i), taps((long)s.kh * s.kw), flipped(sw < 0) {
    const long step = flipped ? -1 : 1;
    known = s.groups == 1 && sw == step && sh == s.kw * step && so > 0 && si > 0 && (so == taps || si == taps);
  }
  // f(i, j, w, step) for each input channel i and panel j: tap k of outputs j NR + n is w[k step + n], 0 beyond the last output.
  template <class F>
  void each(ThreadPool &pool, const float *w, const ConvShape &s, F &&f) const {
    const float *first = flipped ? w - (taps - 1) : w;
    const long np = panels<DotF32>(s.OC), most = si == taps && taps < 192 ? 192 / taps : 1;
    const long blocks = (s.C + most - 1) / most;
    parallel_for(pool, np * blocks, row_grain(most * taps * NR), [&](long begin, long end) {
      float *turned = (float *)scratch<2>((size_t)(most * taps * NR) * 4);
      for (long item = begin; item < end; item++) {
        // Along what lies together in memory: the inputs of a panel, or the outputs of an input.
        const long j = si == taps ? item / blocks : item % np, i0 = (si == taps ? item % blocks : item / np) * most;
        const long inputs = s.C - i0 < most ? s.C - i0 : most, n = s.OC - j * NR < NR ? s.OC - j * NR : NR;
        if (n < NR) memset(turned, 0, (size_t)(inputs * taps * NR) * 4);
        transpose2d(n, inputs * taps, first + j * NR * so + i0 * si, so, turned, NR);
        for (long i = 0; i < inputs; i++) {
          const float *t = turned + i * taps * NR;
          f(i0 + i, j, flipped ? t + (taps - 1) * NR : t, flipped ? -NR : NR);
        }
      }
    });
  }
};

template <class D, class T>
inline void conv_pack_weights(ThreadPool &pool, const T *w, long so, long si, long sh, long sw, const ConvShape &s, void *out) {
  const long K = s.K(), n = s.og();
  if constexpr (sizeof(T) == 4 && D::kPer == 1) {
    const TapRuns runs(so, si, sh, sw, s);
    if (runs.known) {
      runs.each(pool, w, s, [&](long i, long j, const float *t, long step) {
        float *panel = (float *)out + (j * K + i) * NR;
        for (long k = 0; k < runs.taps; k++)
          GH_UNROLL for (int v = 0; v < kPanelVectors; v++) store(panel + k * s.C * NR + v * W, load(t + k * step + v * W));
      });
      return;
    }
  }
  const T *t = w;
  T *own = nullptr;
  if (!(si == 1 && sw == s.cg() && sh == s.kw * s.cg() && so == K) && !(s.kh * s.kw == 1 && si == 1 && so == K)) {
    own = (T *)malloc((size_t)K * s.OC * sizeof(T));
    if (!own) abort();
    conv_reorder_weights(pool, w, so, si, sh, sw, s, own);
    t = own;
  }
  for (long g = 0; g < s.groups; g++)
    pack_b_parallel<D>(pool, t + g * n * K, 1, K, K, n, (char *)out + g * packed_b_bytes<D>(K, n));
  free(own);
}

}  // namespace GH_ISA_NS
}  // namespace gh
