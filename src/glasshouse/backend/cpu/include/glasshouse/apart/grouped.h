// grouped.h: convolutions in groups of few channels, channels last, vectors over output channels.
//
// Contract
// - `grouped_pack_weights(w, sg, so, si, sh, sw, s, out)`: weights of group g, output o and input i of the group, w[g sg + o so + i si +
//   kh sh + kw sw] -> float [kh kw][C / groups][OC].
// - `grouped2d(pool, s, x, packed, epi)`: epi(pixel, oc, vf, range) as in conv.h. x: float, bf16 or f16. Sums over taps, then inputs.
// - A product would pad a group's outputs to a panel of 32. Here the lanes of a vector belong to several groups: each takes its input
//   from one or two vectors of neighbouring channels by a permutation. Where these are more, groups are computed by themselves.
#pragma once
#include "../conv.h"

namespace gh {
inline namespace GH_ISA_NS {

template <class T>
inline void grouped_pack_weights(const T *w, long sg, long so, long si, long sh, long sw, const ConvShape &s, float *out) {
  const long ins = s.cg(), outs = s.og();
  for (int i = 0; i < s.kh; i++)
    for (int j = 0; j < s.kw; j++)
      for (long c = 0; c < ins; c++)
        for (long o = 0; o < s.OC; o++, out++) *out = to_scalar(w[o / outs * sg + o % outs * so + c * si + i * sh + j * sw]);
}

// Element i[lane] of x, for i < W; and of x and y one behind the other, for i < 2 W.
#if defined(GH_AVX512)
GH_INLINE vf permuted(vf x, vi i) { return (nf)_mm512_permutexvar_ps((__m512i)i.v, (__m512)x.v); }
GH_INLINE vf permuted(vf x, vf y, vi i) { return (nf)_mm512_permutex2var_ps((__m512)x.v, (__m512i)i.v, (__m512)y.v); }
#elif defined(GH_AVX2)
GH_INLINE vf permuted(vf x, vi i) { return (nf)_mm256_permutevar8x32_ps((__m256)x.v, (__m256i)i.v); }
GH_INLINE vf permuted(vf x, vf y, vi i) { return (nf)_mm256_blendv_ps((__m256)permuted(x, i).v, (__m256)permuted(y, i).v, (__m256)(i << 28).v); }
#else
GH_INLINE vf permuted(vf x, vi i) {
  nf r;
  for (int k = 0; k < W; k++) r[k] = x.v[i.v[k]];
  return r;
}
GH_INLINE vf permuted(vf x, vf y, vi i) {
  nf r;
  for (int k = 0; k < W; k++) r[k] = i.v[k] < W ? x.v[i.v[k]] : y.v[i.v[k] - W];
  return r;
}
#endif

// Input i of every lane's group: lanes of several groups, from one or two vectors of neighbouring channels ...
template <int Vectors>
struct SeveralGroups {
  long base;
  vi index;
  int n;  // of the last vector's channels, those that there are
  template <class T> GH_INLINE vf operator()(const T *pixel, long i) const {
    const T *p = pixel + base;
    const vi at(index.v + (int32_t)i);
    const vf last = n == W ? load(p + (Vectors - 1) * W) : load(p + (Vectors - 1) * W, Tail(n));
    if constexpr (Vectors == 1) return permuted(last, at);
    else return permuted(load(p), last, at);
  }
};
// ... or of one group.
struct OneGroup {
  long base;
  template <class T> GH_INLINE vf operator()(const T *pixel, long i) const { return vf(to_scalar(pixel[base + i])); }
};

// The most channels that the lanes of a vector read.
inline long grouped_reach(const ConvShape &s) {
  const long ins = s.cg(), outs = s.og();
  long reach = 0;
  for (long o = 0; o < s.OC; o += W) {
    const long last = o + W <= s.OC ? o + W - 1 : s.OC - 1, here = (last / outs - o / outs + 1) * ins;
    if (here > reach) reach = here;
  }
  return reach;
}

// f(o, lanes, range): all vectors of output channels.
template <int Vectors, class F>
GH_INLINE void each_several(const ConvShape &s, F f) {
  const long ins = s.cg(), outs = s.og(), span = Vectors * W;
  for (long o = 0; o < s.OC; o += W) {
    const long first = o / outs * ins, base = s.C < span ? 0 : first + span <= s.C ? first : s.C - span;
    ni index;
    for (int k = 0; k < W; k++) index[k] = (int32_t)((o + k < s.OC ? o + k : s.OC - 1) / outs * ins - base);
    const SeveralGroups<Vectors> lanes{base, vi(index), s.C < span ? (int)(s.C - span + W) : W};
    if (o + W <= s.OC) f(o, lanes, Full{});
    else f(o, lanes, Tail((int)(s.OC - o)));
  }
}
template <class F>
GH_INLINE void each_one(const ConvShape &s, F f) {
  const long ins = s.cg(), outs = s.og();
  for (long g = 0; g < s.groups; g++)
    for_each_vector(outs, [&](long o, auto t) __attribute__((always_inline)) { f(g * outs + o, OneGroup{g * ins}, t); });
}

// U neighbouring results of a row, of which all taps of columns lie inside.
template <int U, class T, class Lanes, class R, class Epi>
GH_INLINE void grouped_columns(const ConvShape &s, Taps th, Taps tw, const T *image, const float *w, long pixel, long o, const Lanes &lanes,
                               R t, Epi &epi) {
  const long ins = s.cg(), step = (long)s.sw * s.C;
  vf a[U];
  GH_UNROLL for (int u = 0; u < U; u++) a[u] = vf(0.0f);
  for (int i = th.begin; i < th.end; i++)
    for (int j = tw.begin; j < tw.end; j++) {
      const T *p = image + ((long)i * s.dh * s.W_in + (long)j * s.dw) * s.C;
      const float *k = w + (((long)i * s.kw + j) * ins) * s.OC + o;
      for (long c = 0; c < ins; c++, k += s.OC) {
        const vf factor = load(k, t);
        GH_UNROLL for (int u = 0; u < U; u++) a[u] = fma(lanes(p + u * step, c), factor, a[u]);
      }
    }
  GH_UNROLL for (int u = 0; u < U; u++) epi(pixel + u, o, a[u], t);
}

// The same of windows three wide that move by single steps: a permuted input serves three results.
template <int U, class T, class Lanes, class R, class Epi>
GH_INLINE void grouped_threes(const ConvShape &s, Taps th, const T *image, const float *w, long pixel, long o, const Lanes &lanes, R t,
                              Epi &epi) {
  const long ins = s.cg(), next = ins * s.OC;
  vf a[U];
  GH_UNROLL for (int u = 0; u < U; u++) a[u] = vf(0.0f);
  for (int i = th.begin; i < th.end; i++) {
    const T *p = image + (long)i * s.dh * s.W_in * s.C;
    const float *k = w + (long)i * 3 * next + o;
    for (long c = 0; c < ins; c++, k += s.OC) {
      const vf left = load(k, t), middle = load(k + next, t), right = load(k + 2 * next, t);
      GH_UNROLL for (int u = 0; u < U + 2; u++) {
        const vf x = lanes(p + u * s.C, c);
        if (u < U) a[u] = fma(x, left, a[u]);
        if (u > 0 && u <= U) a[u - 1] = fma(x, middle, a[u - 1]);
        if (u > 1) a[u - 2] = fma(x, right, a[u - 2]);
      }
    }
  }
  GH_UNROLL for (int u = 0; u < U; u++) epi(pixel + u, o, a[u], t);
}

template <class T, class Epi>
inline void grouped2d(ThreadPool &pool, const ConvShape &s, const T *x, const float *w, Epi &&epi) {
  const Range inner = s.whole_columns();
  const Taps every{0, s.kw};
  const bool threes = s.kw == 3 && s.sw == 1 && s.dw == 1;
  auto rows = [&](auto &&each) {
    parallel_for(pool, s.N * s.OH, row_grain(s.OW * s.OC * s.K() / 8), [&](long begin, long end) {
      for (long r = begin; r < end; r++) {
        const long n = r / s.OH, oh = r % s.OH, pixel = r * s.OW;
        const Taps th = valid_taps(oh, s.kh, s.sh, s.ph, s.dh, s.H);
        const T *row = x + ((n * s.H + oh * s.sh - s.ph) * s.W_in - s.pw) * s.C;
        each(s, [&](long o, const auto &lanes, auto t) __attribute__((always_inline)) {
          auto at = [&](long ow) { return row + ow * s.sw * s.C; };
          auto one = [&](long ow) {
            grouped_columns<1>(s, th, valid_taps(ow, s.kw, s.sw, s.pw, s.dw, s.W_in), at(ow), w, pixel + ow, o, lanes, t, epi);
          };
          long ow = 0;
          for (; ow < inner.begin; ow++) one(ow);
          if (threes)
            for (; ow + 8 <= inner.end; ow += 8) grouped_threes<8>(s, th, at(ow), w, pixel + ow, o, lanes, t, epi);
          for (; ow + 8 <= inner.end; ow += 8) grouped_columns<8>(s, th, every, at(ow), w, pixel + ow, o, lanes, t, epi);
          for (; ow + 2 <= inner.end; ow += 2) grouped_columns<2>(s, th, every, at(ow), w, pixel + ow, o, lanes, t, epi);
          for (; ow < s.OW; ow++) one(ow);
        });
      }
    });
  };
  const long reach = grouped_reach(s);
  if (reach <= W) rows([](const ConvShape &c, auto f) { each_several<1>(c, f); });
  else if (reach <= 2 * W) rows([](const ConvShape &c, auto f) { each_several<2>(c, f); });
  else rows([](const ConvShape &c, auto f) { each_one(c, f); });
}

}  // namespace GH_ISA_NS
}  // namespace gh
