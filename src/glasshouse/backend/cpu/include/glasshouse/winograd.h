// winograd.h: 3x3 convolutions of stride 1 by Winograd's minimal filtering F(2x2, 3x3) and F(4x4, 3x3), channels last.
//
// Contract
// - `winograd_pack_weights<D, M>(pool, w, so, si, sh, sw, s, out)`, M = 2 or 4, as conv_pack_weights;
//   `winograd_weight_bytes<D, M>(s)`: (M+2)^2 / 9 times the plain weights.
// - `conv2d_winograd<D, M>(pool, s, x, packed, work, epi)`: like conv.h's conv2d, for kh = kw = 3, strides and dilations 1,
//   groups = 1, any padding; `work`: winograd_work_bytes<D, M>(s).
// - M = 2 does 2.25 times fewer multiplications, M = 4 four times. Largest error relative to the largest result, measured on
//   ResNet shapes with C = 64..512 (tests state the bounds): direct 3e-7, F(2,3) 6e-7, F(4,3) 4e-6 in float32.
//   With D = DotBF16 the transformed values are rounded to bf16: F(2,3) 1e-2, F(4,3) 4e-2.
// - Two ways to share the work, by shape alone. Many tiles: each thread takes blocks of tiles whose transforms stay in L2.
//   Few tiles with many channels: threads share the transforms and then the (M+2)^2 products, so weights are read once.
#pragma once
#include "conv.h"

namespace gh {
inline namespace GH_ISA_NS {

template <int M>
struct Wino;
template <>
struct Wino<2> {
  static constexpr int T = 4;
  static constexpr double G[4][3] = {{1, 0, 0}, {.5, .5, .5}, {.5, -.5, .5}, {0, 0, 1}};
  GH_INLINE static void input(vf (&d)[4]) {
    vf o0 = d[0] - d[2], o1 = d[1] + d[2], o2 = d[2] - d[1], o3 = d[1] - d[3];
    d[0] = o0, d[1] = o1, d[2] = o2, d[3] = o3;
  }
  GH_INLINE static void output(const vf (&m)[4], vf (&o)[2]) {
    o[0] = m[0] + m[1] + m[2];
    o[1] = m[1] - m[2] - m[3];
  }
};
template <>
struct Wino<4> {
  static constexpr int T = 6;
  static constexpr double G[6][3] = {{1. / 4, 0, 0},           {-1. / 6, -1. / 6, -1. / 6}, {-1. / 6, 1. / 6, -1. / 6},
                                     {1. / 24, 1. / 12, 1. / 6}, {1. / 24, -1. / 12, 1. / 6}, {0, 0, 1}};
  GH_INLINE static void input(vf (&d)[6]) {
    vf a = fma(vf(-4.0f), d[2], d[4]), b = fma(vf(-4.0f), d[1], d[3]);
    vf c = d[4] - d[2], e = d[3] - d[1];
    vf o0 = fma(vf(4.0f), d[0], fma(vf(-5.0f), d[2], d[4]));
    vf o5 = fma(vf(4.0f), d[1], fma(vf(-5.0f), d[3], d[5]));
    d[0] = o0, d[1] = a + b, d[2] = a - b;
    d[3] = fma(vf(2.0f), e, c), d[4] = fma(vf(-2.0f), e, c), d[5] = o5;
  }
  GH_INLINE static void output(const vf (&m)[6], vf (&o)[4]) {
    vf s1 = m[1] + m[2], d1 = m[1] - m[2], s2 = m[3] + m[4], d2 = m[3] - m[4];
    o[0] = m[0] + s1 + s2;
    o[1] = fma(vf(2.0f), d2, d1);
    o[2] = fma(vf(4.0f), s2, s1);
    o[3] = fma(vf(8.0f), d2, d1 + m[5]);
  }
};

template <class D, int M>
struct WinoPlan {
  typedef D Dot;
  static constexpr int T = Wino<M>::T, X = T * T;
  const ConvShape &s;
  long parts;                            // of the channels, each with sums of its own beside those of the others
  long th, tw, tiles, np, ku, ldv, ldm;  // ldv in units, ldm in sums
  explicit WinoPlan(const ConvShape &c, long of_channels = 1) : s(c), parts(of_channels) {
    th = (c.OH + M - 1) / M, tw = (c.OW + M - 1) / M;
    tiles = c.N * th * tw;
    np = panels<D>(c.OC), ku = units<D>(c.C);
    ldv = packed_a_stride(ku);
    ldm = packed_a_stride(parts * np * NR);
  }
  // Blocks of tiles by threads while the transformed image is the smaller part of what is read, else shared phases.
  bool by_tiles(int threads) const { return tiles >= 24L * threads; }
  long block() const {
    long b = kL2Bytes / 8 * 5 / (X * (ldv + ldm) * 4);
    return b < kMaxRows ? kMaxRows : b / kMaxRows * kMaxRows;
  }
  size_t panel_bytes() const { return (size_t)ku * NR * 4; }
  // How many of the tiles [t0, t1) have values in plane x.
  long rows(long, long t0, long t1) const { return t1 - t0; }
};

template <class D, int M>
inline size_t winograd_weight_bytes(const ConvShape &s) { return WinoPlan<D, M>::X * packed_b_bytes<D>(s.C, s.OC); }
template <class D, int M>
inline size_t winograd_work_bytes(const ConvShape &s) {
  WinoPlan<D, M> p(s);
  return (size_t)p.tiles * p.X * (p.ldv + p.ldm) * 4 + 4096;
}

// G g G': a vector of 3 x 3 weights, whose taps lie `step` apart, to (M+2)^2 that lie `plane` apart.
template <int M>
GH_INLINE void winograd_weights(const float *taps, long step, float *out, long plane) {
  constexpr int T = Wino<M>::T;
  auto along = [](vf a, vf b, vf c, int i) __attribute__((always_inline)) {
    const double *g = Wino<M>::G[i];
    const vf last = c * vf((float)g[2]);  // the first and the last row have a single weight
    return i == 0 ? a * vf((float)g[0]) : i == T - 1 ? last : fma(a, vf((float)g[0]), fma(b, vf((float)g[1]), last));
  };
  vf half[T][3];
  GH_UNROLL for (int b = 0; b < 3; b++) {
    const vf x = load(taps + b * step), y = load(taps + (3 + b) * step), z = load(taps + (6 + b) * step);
    GH_UNROLL for (int i = 0; i < T; i++) half[i][b] = along(x, y, z, i);
  }
  GH_UNROLL for (int i = 0; i < T; i++)
    GH_UNROLL for (int j = 0; j < T; j++) store(out + (i * T + j) * plane, along(half[i][0], half[i][1], half[i][2], j));
}

template <class D, int M, class T>
GH_NOINLINE void winograd_pack_weights(ThreadPool &pool, const T *w, long so, long si, long sh, long sw, const ConvShape &s, void *out) {
  const WinoPlan<D, M> p(s);
  if constexpr (sizeof(T) == 4 && D::kPer == 1) {
    const TapRuns runs(so, si, sh, sw, s);
    if (runs.known) {
      runs.each(pool, w, s, [&](long i, long j, const float *t, long step) {
        float *row = (float *)((char *)out + (size_t)j * p.panel_bytes()) + i * NR;
        for (int v = 0; v < kPanelVectors; v++) winograd_weights<M>(t + v * W, step, row + v * W, p.np * p.ku * NR);
      });
      return;
    }
  }
  parallel_for(pool, p.X, 1, [&](long begin, long end) {
    float *u = (float *)malloc((size_t)s.C * s.OC * 4);  // [OC][C]
    if (!u) abort();
    for (long x = begin; x < end; x++) {
      double f[3][3];
      for (int a = 0; a < 3; a++)
        for (int b = 0; b < 3; b++) f[a][b] = Wino<M>::G[x / p.T][a] * Wino<M>::G[x % p.T][b];
      for (long o = 0; o < s.OC; o++)
        for (long c = 0; c < s.C; c++) {
          const T *g = w + o * so + c * si;
          double sum = 0;
          for (int a = 0; a < 3; a++)
            for (int b = 0; b < 3; b++) sum += f[a][b] * (double)to_scalar(g[a * sh + b * sw]);
          u[o * s.C + c] = (float)sum;
        }
      pack_b<D>(u, 1, s.C, s.C, s.OC, (char *)out + x * packed_b_bytes<D>(s.C, s.OC));
    }
    free(u);
  });
}

// Tiles [t0, t1) -> V[x][tile - base][c]; `count` tiles between the planes of V.
template <class D, int M, class T>
GH_NOINLINE void winograd_input(const WinoPlan<D, M> &p, const T *x, long t0, long t1, long base, long count, unit32 *V) {
  typedef typename D::Elem E;
  constexpr int TT = Wino<M>::T;
  const ConvShape &s = p.s;
  const long plane = count * p.ldv * D::kPer;
  for (long t = t0; t < t1; t++) {
    const long n = t / (p.th * p.tw), y0 = t / p.tw % p.th * M - s.ph, x0 = t % p.tw * M - s.pw;
    const T *img = x + n * s.H * s.W_in * s.C;
    const bool inside = y0 >= 0 && x0 >= 0 && y0 + TT <= s.H && x0 + TT <= s.W_in;
    E *out = (E *)V + (t - base) * p.ldv * D::kPer;
    auto body = [&](long c, auto r, auto in) __attribute__((always_inline)) {
      vf d[TT][TT];
      GH_UNROLL for (int j = 0; j < TT; j++) {
        vf col[TT];
        GH_UNROLL for (int i = 0; i < TT; i++) col[i] = in(i, j, c, r);
        Wino<M>::input(col);
        GH_UNROLL for (int i = 0; i < TT; i++) d[i][j] = col[i];
      }
      GH_UNROLL for (int i = 0; i < TT; i++) {
        Wino<M>::input(d[i]);
        GH_UNROLL for (int j = 0; j < TT; j++) store(out + (i * TT + j) * plane + c, d[i][j], r);
      }
    };
    if (inside) {
      const T *b = img + (y0 * s.W_in + x0) * s.C;
      for_each_vector(s.C, [&](long c, auto r) __attribute__((always_inline)) {
        body(c, r, [&](int i, int j, long cc, auto rr) __attribute__((always_inline)) { return load(b + (i * s.W_in + j) * s.C + cc, rr); });
      });
    } else {
      // Taps outside the image read a zero pixel instead: the pointers are set up once for all channels.
      const T *ptr[TT][TT];
      long step[TT][TT];
      static const T zeros[W] = {};
      for (int i = 0; i < TT; i++)
        for (int j = 0; j < TT; j++) {
          const long yy = y0 + i, xx = x0 + j;
          const bool ok = yy >= 0 && yy < s.H && xx >= 0 && xx < s.W_in;
          ptr[i][j] = ok ? img + (yy * s.W_in + xx) * s.C : zeros;
          step[i][j] = ok;
        }
      for_each_vector(s.C, [&](long c, auto r) __attribute__((always_inline)) {
        body(c, r, [&](int i, int j, long cc, auto rr) __attribute__((always_inline)) { return load(ptr[i][j] + step[i][j] * cc, rr); });
      });
    }
    for (int i = 0; i < p.X; i++)
      for (long c = s.C; c < p.ku * D::kPer; c++) out[i * plane + c] = E{};
  }
}

// One product of the (M+2)^2: `rows` tiles, panel j of plane x.
template <class D, int M>
GH_INLINE void winograd_product(const WinoPlan<D, M> &p, long x, long j, const RowTiles &tiles, long count, const unit32 *V,
                                const void *U, typename D::Out *Mb) {
  const char *panel = (const char *)U + (size_t)(x * p.np + j) * p.panel_bytes();
  const bool narrow = p.s.OC - j * NR <= W;
  const long zero = 0;
  // The next panel, which lies behind this one, comes along with it, a slice with each tile: of a layer of 64x56x56, whose weights others have
  // driven out, 6 %. Where a round would have to fetch more than it can, the hardware does it better.
  const long slice = tiles.count * kLinesAhead<D> < 3 ? 0 : ((long)p.panel_bytes() / (tiles.count * p.parts) + 63) / 64 * 64;
  const char *ahead = panel + p.panel_bytes();
  for (long i = 0; i < tiles.count; i++) {
    auto t = tiles[i];
    MicroFn<D> fn = narrow ? micro_fn<D, 1>(t.height) : micro_fn<D, 2>(t.height);
    for (long q = 0; q < p.parts; q++, ahead += slice) {
      const Range k = split(p.ku, q, p.parts);
      const long len = k.end - k.begin, step = slice ? slice * kRoundUnits<D> / (len + 1) + 1 : 0;
      typename D::Out *out = Mb + (x * count + t.row) * p.ldm + (q * p.np + j) * NR;
      const OutLines lines{(char *)out, p.ldm * (long)sizeof *out, 64};
      fn(V + (x * count + t.row) * p.ldv + k.begin, p.ldv, panel + k.begin * NR * D::kBytes, NR,
         KSegments{1, len, &zero, ahead, step, lines}, out, p.ldm, false);
    }
  }
}

template <class D, int M, class Epi>
GH_NOINLINE void winograd_output(const WinoPlan<D, M> &p, long t0, long t1, long base, long count, const float *Mb, Epi &epi) {
  constexpr int TT = Wino<M>::T;
  const ConvShape &s = p.s;
  for (long t = t0; t < t1; t++) {
    const long n = t / (p.th * p.tw), y0 = t / p.tw % p.th * M, x0 = t % p.tw * M;
    const int ny = s.OH - y0 < M ? (int)(s.OH - y0) : M, nx = s.OW - x0 < M ? (int)(s.OW - x0) : M;
    const float *in = Mb + (t - base) * p.ldm;
    const long plane = count * p.ldm, pixel = (n * s.OH + y0) * s.OW + x0;
    for_each_vector(s.OC, [&](long c, auto r) __attribute__((always_inline)) {
      vf h[M][TT];
      GH_UNROLL for (int j = 0; j < TT; j++) {
        vf col[TT], o[M];
        GH_UNROLL for (int i = 0; i < TT; i++) col[i] = load(in + (i * TT + j) * plane + c, r);
        Wino<M>::output(col, o);
        GH_UNROLL for (int i = 0; i < M; i++) h[i][j] = o[i];
      }
      for (int i = 0; i < ny; i++) {
        vf o[M];
        Wino<M>::output(h[i], o);
        for (int j = 0; j < nx; j++) epi(pixel + i * s.OW + j, c, o[j], r);
      }
    });
  }
}

// Shares the work among threads: input(t0, t1, base, count, V) transforms tiles, output(t0, t1, base, count, sums) takes them back. `Plan` is a
// WinoPlan, or one that says more about its tiles.
template <class Plan, class In, class Take>
inline void winograd_run(ThreadPool &pool, const Plan &p, const void *U, void *work, In &&input, Take &&output) {
  typedef typename Plan::Dot::Out Out;
  if (p.tiles <= 0 || p.s.OC <= 0) return;
  unit32 *V = (unit32 *)(((uintptr_t)work + 63) / 64 * 64);
  Out *Mb = (Out *)(V + p.tiles * p.X * p.ldv);
  if (p.by_tiles(pool.size())) {
    parallel_for(pool, p.tiles, 1, [&](long begin, long end) {
      const long nb = (end - begin + p.block() - 1) / p.block();
      for (long b = 0; b < nb; b++) {
        Range r = split((end - begin + 1) / 2, b, nb);
        const long t0 = begin + 2 * r.begin, t1 = begin + 2 * r.end < end ? begin + 2 * r.end : end, count = t1 - t0;
        if (count <= 0) continue;
        // A thread's blocks reuse the start of its own part of the work buffer, so that they stay in L2.
        unit32 *v = V + begin * p.X * p.ldv;
        Out *m = Mb + begin * p.X * p.ldm;
        input(t0, t1, t0, count, v);
        for (long i = 0; i < p.X; i++) {
          const RowTiles tiles(p.rows(i, t0, t1));
          for (long j = 0; j < p.np; j++) winograd_product(p, i, j, tiles, count, v, U, m);
        }
        output(t0, t1, t0, count, m);
      }
    });
    return;
  }
  parallel_for(pool, p.tiles, row_grain(p.X * p.s.C * 2), [&](long b, long e) { input(b, e, 0, p.tiles, V); });
  // Threads get equal numbers of rows, of planes that may differ in them; a panel goes to whom its first row falls.
  long all = 0;
  for (long x = 0; x < p.X; x++) all += p.rows(x, 0, p.tiles) * p.np;
  parallel_for(pool, all, p.tiles, [&](long b, long e) {
    long at = 0;
    for (long i = 0; i < p.X; i++) {
      const RowTiles tiles(p.rows(i, 0, p.tiles));
      for (long j = 0; j < p.np; j++, at += tiles.rows)
        if (at >= b && at < e) winograd_product(p, i, j, tiles, p.tiles, V, U, Mb);
    }
  });
  parallel_for(pool, p.tiles, row_grain(p.X * p.s.OC * 2), [&](long b, long e) { output(b, e, 0, p.tiles, Mb); });
}

template <class D, int M, class T, class Epi>
inline void conv2d_winograd(ThreadPool &pool, const ConvShape &s, const T *x, const void *U, void *work, Epi &&epi) {
  const WinoPlan<D, M> p(s);
  winograd_run(
      pool, p, U, work, [&](long t0, long t1, long base, long count, unit32 *V) { winograd_input(p, x, t0, t1, base, count, V); },
      [&](long t0, long t1, long base, long count, const float *sums) { winograd_output(p, t0, t1, base, count, sums, epi); });
}

#if defined(GH_EXTERN_KERNELS)
GH_WINOGRAD_KERNELS(extern)
#endif

}  // namespace GH_ISA_NS
}  // namespace gh
