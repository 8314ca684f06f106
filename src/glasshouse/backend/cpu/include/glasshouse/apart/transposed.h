// transposed.h: transposed convolutions, which are gradients of convolutions by their input, as ordinary products; channels last.
//
// Contract
// - `conv_phases<D, way>(pool, s, g, packed, work, epi)`: s describes the convolution whose gradient this is, [N, H, W_in, C] ->
//   [N, OH, OW, OC]; g is [N, OH, OW, OC]; epi(pixel, c, acc, range) with pixel = (n H + h) W_in + w. Pixels fall into sh * sw phases by
//   (h + ph) % sh and (w + pw) % sw. A phase sees taps of its own, and is a convolution of g in steps of 1: no multiplication by
//   inserted zeros. g is padded once for all of them. `work`: phases_work_bytes<D>(s); way: `phases_way<D>(s)`.
//   Weights [OC, C / groups, kh, kw] by strides are packed by `phases_pack_weights<D>`, `phases_weight_bytes<D>(s)`.
// - `conv_spread<D>(pool, s, g, packed, epi)`: where no two taps meet in one pixel (windows as large as their steps, or a single
//   window), the result is one product with a column for each tap and channel. Up to three axes.
#pragma once
#include "../conv.h"

namespace gh {
inline namespace GH_ISA_NS {

// One phase along an axis: places first, first + stride, ... of the result. The a-th reads g at begin + a + t * step with tap
// last - t * spacing, for t < count; what lies outside of g is zero.
struct PhaseAxis {
  int last = 0, spacing = 1, count = 0, step = 1;
  long first = 0, places = 0, begin = 0;
  PhaseAxis(int residue, int k, int stride, int pad, int dilation, long size) {
    int common = stride, rest = dilation;
    while (rest) {
      const int r = common % rest;
      common = rest, rest = r;
    }
    spacing = stride / common, step = dilation / common;
    int lowest = 0;
    while (lowest < spacing && (long)lowest * dilation % stride != residue) lowest++;
    if (lowest < spacing && lowest < k) count = (k - 1 - lowest) / spacing + 1;
    const long a0 = residue >= pad ? 0 : (pad - residue + stride - 1) / stride;  // the first place inside
    first = stride * a0 + residue - pad;
    places = first < size ? (size - 1 - first) / stride + 1 : 0;
    last = lowest + (count - 1) * spacing;
    begin = count ? a0 - (long)last * dilation / stride : 0;
  }
};

// What the phases of an axis read of g, whose places are [0, size): from below 0 to beyond size.
struct PhaseReach {
  long begin = 0, end = 0;
  PhaseReach(int k, int stride, int pad, int dilation, long result, long size) : end(size) {
    for (int r = 0; r < stride; r++) {
      const PhaseAxis p(r, k, stride, pad, dilation, result);
      if (!p.count || !p.places) continue;
      const long beyond = p.begin + p.places + (long)(p.count - 1) * p.step;
      if (p.begin < begin) begin = p.begin;
      if (beyond > end) end = beyond;
    }
  }
};

// In place from 8 columns on: tiles of 4 rows were 1.2 times slower than gathering whole ones.
template <class D>
constexpr ConvWay phases_way(const ConvShape &s) {
  const bool whole = s.OC % D::kPer == 0 && s.OC * (D::kBytes / D::kPer) % 4096 != 0;
  return s.groups == 1 && s.dw == 1 && s.kh <= 64 && whole && s.W_in / s.sw >= 8 ? ConvWay::kDirect : ConvWay::kIm2col;
}

template <class D>
inline size_t phases_work_bytes(const ConvShape &s) {
  const PhaseReach h(s.kh, s.sh, s.ph, s.dh, s.H, s.OH), w(s.kw, s.sw, s.pw, s.dw, s.W_in, s.OW);
  return (size_t)s.N * (h.end - h.begin) * (w.end - w.begin) * s.OC * (D::kBytes / D::kPer) + 64;
}

// f(rows, columns) for each phase, in the order in which their weights lie.
template <class F>
inline void each_phase(const ConvShape &s, F &&f) {
  for (int ry = 0; ry < s.sh; ry++)
    for (int rx = 0; rx < s.sw; rx++) f(PhaseAxis(ry, s.kh, s.sh, s.ph, s.dh, s.H), PhaseAxis(rx, s.kw, s.sw, s.pw, s.dw, s.W_in));
}
template <class D>
inline size_t phase_bytes(const ConvShape &s, const PhaseAxis &h, const PhaseAxis &w) {
  return s.groups * packed_b_bytes<D>((long)h.count * w.count * s.og(), s.cg());
}
template <class D>
inline size_t phases_weight_bytes(const ConvShape &s) {
  size_t bytes = 64;
  each_phase(s, [&](const PhaseAxis &h, const PhaseAxis &w) { bytes += phase_bytes<D>(s, h, w); });
  return bytes;
}

template <class D, class T>
inline void phases_pack_weights(ThreadPool &pool, const T *w, long so, long si, long sh, long sw, const ConvShape &s, void *out) {
  const long og = s.og(), cg = s.cg(), each = s.K();
  T *turned = (T *)malloc((size_t)each * s.OC * sizeof(T) + 64);  // [OC][kh, kw, C / groups]
  if (!turned) abort();
  conv_reorder_weights(pool, w, so, si, sh, sw, s, turned);
  char *to = (char *)out;
  each_phase(s, [&](const PhaseAxis &h, const PhaseAxis &v) {
    const long taps = (long)h.count * v.count, K = taps * og, np = panels<D>(cg);
    auto tap = [&](long i) { return (h.last - i / v.count * h.spacing) * s.kw + v.last - i % v.count * v.spacing; };
    for (long group = 0; group < s.groups; group++, to += packed_b_bytes<D>(K, cg)) {
      const T *from = turned + group * og * each;
      parallel_for(pool, np, row_grain(K * NR), [&](long begin, long end) {
        for (long j = begin; j < end; j++) {
          const long n = cg - j * NR < NR ? cg - j * NR : NR;
          char *panel = to + (size_t)j * panel_bytes<D>(K);
          if (og % D::kPer == 0) {
            for (long i = 0; i < taps; i++)
              pack_b_rows<D>(from + tap(i) * cg + j * NR, each, og, n, panel + (size_t)i * panel_bytes<D>(og));
            continue;
          }
          memset(panel, 0, (size_t)panel_bytes<D>(K));
          for (long k = 0; k < K; k++)
            for (long c = 0; c < n; c++)
              convert_row(from + k % og * each + tap(k / og) * cg + j * NR + c,
                          (typename D::Elem *)panel + (k / D::kPer * NR + c) * D::kPer + k % D::kPer, 1);
        }
      });
    }
  });
  free(turned);
}

template <class D, ConvWay Way, class T, class Epi>
inline void conv_phases(ThreadPool &pool, const ConvShape &s, const T *g, const void *packed, void *work, Epi &&epi) {
  typedef typename AElem<D>::type E;
  if (s.N <= 0) return;
  const PhaseReach rows(s.kh, s.sh, s.ph, s.dh, s.H, s.OH), columns(s.kw, s.sw, s.pw, s.dw, s.W_in, s.OW);
  const long hp = rows.end - rows.begin, wp = columns.end - columns.begin;
  const E *x = (const E *)work;
  if (sizeof(T) == sizeof(E) && hp == s.OH && wp == s.OW) {
    x = (const E *)g;
  } else {
    ConvShape whole{s.N, s.OH, s.OW, s.OC, hp, wp, s.OC, 1, 1};
    whole.ph = (int)-rows.begin, whole.pw = (int)-columns.begin;
    pad_image(pool, whole, g, false, hp, wp, (E *)work);
  }
  const char *weights = (const char *)packed;
  each_phase(s, [&](const PhaseAxis &h, const PhaseAxis &v) {
    const char *own = weights;
    weights += phase_bytes<D>(s, h, v);
    const uint32_t across = (uint32_t)v.places, down = (uint32_t)h.places;
    if (!across || !down) return;
    auto place = [&](long r) __attribute__((always_inline)) {
      const uint32_t row = (uint32_t)r / across, b = (uint32_t)r - row * across, n = row / down, a = row - n * down;
      return ((long)n * s.H + h.first + (long)a * s.sh) * s.W_in + v.first + (long)b * s.sw;
    };
    if (!h.count || !v.count) {  // steps wider than the window: nothing comes here
      for (long r = 0; r < s.N * h.places * v.places; r++)
        for_each_vector(s.C, [&](long c, auto t) { epi(place(r), c, D::zero(), t); });
      return;
    }
    const ConvShape p{s.N, hp, wp, s.OC, h.places, v.places, s.C, h.count, v.count, 1, 1, 0, 0, h.step, v.step, s.groups};
    const E *from = x + ((h.begin - rows.begin) * wp + v.begin - columns.begin) * s.OC;
    auto e = [&](long r, long c, auto acc, auto t) __attribute__((always_inline)) { epi(place(r), c, acc, t); };
    if constexpr (Way == ConvWay::kDirect) conv_direct<D>(pool, p, from, hp, wp, own, e);
    else conv2d_as<D, ConvWay::kIm2col>(pool, p, from, own, nullptr, e);
  });
}

// ------------------------------------------------------------------------------------------------ no two taps in one pixel
struct SpreadShape {
  long N, from[3], kernel[3], OC, C;  // g is [N, from, OC]; the result [N, from * kernel, C]
  constexpr long taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  constexpr long lanes() const { return (C + W - 1) / W * W; }  // columns of a tap: whole vectors
};
template <class D>
inline size_t spread_weight_bytes(const SpreadShape &s) { return packed_b_bytes<D>(s.OC, s.taps() * s.lanes()); }

// Weights [OC, C, taps].
template <class D, class T>
inline void spread_pack_weights(ThreadPool &pool, const T *w, const SpreadShape &s, void *out) {
  const long taps = s.taps(), ld = s.lanes(), each = taps * ld;
  T *turned = (T *)calloc((size_t)(each * s.OC) + 64, sizeof(T));  // [OC][tap][C and what fills its vectors]
  if (!turned) abort();
  parallel_for(pool, s.OC, row_grain(each), [&](long begin, long end) {
    for (long o = begin; o < end; o++) transpose2d(s.C, taps, w + o * s.C * taps, taps, turned + o * each, ld);
  });
  pack_b_parallel<D>(pool, turned, each, 1, s.OC, each, out);
  free(turned);
}

// Where results go: row r of the product and the vector v of its columns, to channels from `channel(v)` on of a pixel. Looked up: with two
// divisions for each vector of results, 64x64 pixels of bytes from 64 to 32 channels took 388 us on one core, now 286.
struct SpreadPlaces {
  long vectors, C;
  const long *first, *away;  // a window's first pixel, for each row; how far from there each vector of columns goes
  explicit SpreadPlaces(const SpreadShape &s) : vectors(s.lanes() / W), C(s.C) {
    const long *k = s.kernel, line = s.from[2] * k[2], plane = s.from[1] * k[1] * line, rows = s.N * s.from[0] * s.from[1];
    long *made = (long *)scratch<3>((size_t)(s.taps() * vectors + rows * s.from[2]) * sizeof(long));
    away = made;
    for (long v = 0; v < s.taps() * vectors; v++) {
      const long tap = v / vectors, row = tap / k[2];
      *made++ = row / k[1] * plane + row % k[1] * line + tap % k[2];
    }
    first = made;
    for (long row = 0; row < rows; row++) {
      const long begin = row / s.from[1] * k[0] * plane + row % s.from[1] * k[1] * line;
      for (long i = 0; i < s.from[2]; i++) *made++ = begin + i * k[2];
    }
  }
  GH_INLINE long pixel(long r, long v) const { return first[r] + away[v]; }
  GH_INLINE long channel(long v) const { return vectors == 1 ? 0 : (uint32_t)v % (uint32_t)vectors * W; }
};

template <class D, class T, class Epi>
inline void conv_spread(ThreadPool &pool, const SpreadShape &s, const T *g, const void *packed, Epi &&epi) {
  const SpreadPlaces places(s);
  auto e = [=, &epi](long r, long col, auto acc, auto) __attribute__((always_inline)) {
    const long pixel = places.pixel(r, col / W), c = places.channel(col / W);
    if (places.C - c >= W) epi(pixel, c, acc, Full{});
    else epi(pixel, c, acc, Tail((int)(places.C - c)));
  };
  gemm<D>(pool, s.N * s.from[0] * s.from[1] * s.from[2], s.taps() * s.lanes(), s.OC, RowsA<T>{g, s.OC}, packed, e);
}

}  // namespace GH_ISA_NS
}  // namespace gh
