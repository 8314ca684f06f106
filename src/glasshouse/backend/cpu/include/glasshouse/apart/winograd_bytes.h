// winograd_bytes.h: 3x3 convolutions of 8-bit integers by Winograd's F(4x4, 3x3) in 16 bits: four times fewer products, exact.
//
// Contract
// - `winograd_bytes_pack(pool, w, so, si, sh, sw, s, out)`, `winograd_bytes_size(s)`: weights of int8, as conv_weights.h reads them.
// - `conv2d_winograd_bytes(pool, s, x, zero, packed, work, epi)`: x is uint8 or int8, channels last; epi(pixel, oc, whole, range) takes the
//   exact sums of w (x - zero); `work`: winograd_bytes_work(s) bytes. Padding stands for the real number 0.
// - Why it is exact. G times 24 (its last row times 6) is whole: weights become at most 144 * 128, images at most 68 * 255, both of which 16
//   bits hold. Sums of products may leave 32 bits, which does no harm: results come out as 576 y modulo 2^32, and 576 = 64 * 9, of
//   which 9 has an inverse. So y is right as long as |y| < 2^25: a filter's absolute weights times 255 must stay below. Where those of all
//   channels do not, channels are summed in as few parts as do (`kWinoSure` channels always do), and parts are added at the end.
#pragma once
#include "../winograd.h"

namespace gh {
inline namespace GH_ISA_NS {

typedef int16_t vshort __attribute__((vector_size(W * 4)));
constexpr int kShorts = 2 * W;
constexpr long kWinoSure = 112;  // channels: 9 * 112 * 128 * 255 < 2^25
constexpr int32_t kNinth = 0x38E38E39;  // times 9 is 1 modulo 2^32

template <class T>
GH_INLINE vshort load_shorts(const T *p) {
#if defined(GH_AVX512)
  const __m256i b = _mm256_loadu_si256((const __m256i *)p);
  return (vshort)(__is_same(T, int8_t) ? _mm512_cvtepi8_epi16(b) : _mm512_cvtepu8_epi16(b));
#elif defined(GH_AVX2)
  const __m128i b = _mm_loadu_si128((const __m128i *)p);
  return (vshort)(__is_same(T, int8_t) ? _mm256_cvtepi8_epi16(b) : _mm256_cvtepu8_epi16(b));
#else
  typedef T bytes __attribute__((vector_size(W * 2), aligned(1), may_alias));
  return __builtin_convertvector(*(const bytes *)p, vshort);
#endif
}

struct WinoBytes {
  static constexpr int T = 6, M = 4;
  static constexpr int16_t G[6][3] = {{6, 0, 0}, {-4, -4, -4}, {-4, 4, -4}, {1, 2, 4}, {1, -2, 4}, {0, 0, 6}};
  GH_INLINE static void input(vshort (&d)[6]) {
    const vshort a = d[4] - (d[2] << 2), b = d[3] - (d[1] << 2), c = d[4] - d[2], e = (d[3] - d[1]) << 1;
    const vshort first = c + ((d[0] - d[2]) << 2), last = d[5] - d[3] - (e << 1);
    d[0] = first, d[1] = a + b, d[2] = a - b, d[3] = c + e, d[4] = c - e, d[5] = last;
  }
  GH_INLINE static void output(const vi (&m)[6], vi (&o)[4]) {
    const vi s1 = m[1] + m[2], d1 = m[1] - m[2], s2 = m[3] + m[4], d2 = m[3] - m[4];
    o[0] = m[0] + s1 + s2;
    o[1] = d1 + (d2 << 1);
    o[2] = s1 + (s2 << 2);
    o[3] = d1 + (d2 << 3) + (m[5] << 2);
  }
};

typedef WinoPlan<DotI16, WinoBytes::M> BytesPlan;

// Behind the weights: in how many parts channels are summed.
inline size_t winograd_bytes_weights(const ConvShape &s) { return winograd_weight_bytes<DotI16, WinoBytes::M>(s); }
inline size_t winograd_bytes_size(const ConvShape &s) { return winograd_bytes_weights(s) + sizeof(int64_t); }
inline size_t winograd_bytes_work(const ConvShape &s) {
  const BytesPlan p(s, (s.C + kWinoSure - 1) / kWinoSure);
  return (size_t)p.tiles * p.X * (p.ldv + p.ldm) * 4 + 4096;
}

// As few parts as keep the absolute weights of each below 2^25 / 255 for every filter.
inline long winograd_bytes_parts(const int8_t *w, long so, long si, long sh, long sw, const ConvShape &s) {
  const long most = (s.C + kWinoSure - 1) / kWinoSure, pairs = units<DotI16>(s.C);
  for (long parts = 1; parts < most; parts++) {
    bool fits = true;
    for (long o = 0; o < s.OC && fits; o++)
      for (long q = 0; q < parts && fits; q++) {
        const Range r = split(pairs, q, parts);
        long sum = 0;
        for (long c = 2 * r.begin; c < 2 * r.end && c < s.C; c++)
          for (int i = 0; i < 9; i++) sum += __builtin_abs((int)w[o * so + c * si + i / 3 * sh + i % 3 * sw]);
        fits = sum * 255 < 1L << 25;
      }
    if (fits) return parts;
  }
  return most;
}

inline void winograd_bytes_pack(ThreadPool &pool, const int8_t *w, long so, long si, long sh, long sw, const ConvShape &s, void *out) {
  const BytesPlan p(s);
  parallel_for(pool, p.X, 1, [&](long begin, long end) {
    int16_t *u = (int16_t *)malloc((size_t)(s.C * s.OC) * 2);  // [OC][C]
    if (!u) abort();
    for (long x = begin; x < end; x++) {
      const int16_t *down = WinoBytes::G[x / p.T], *along = WinoBytes::G[x % p.T];
      for (long o = 0; o < s.OC; o++)
        for (long c = 0; c < s.C; c++) {
          const int8_t *g = w + o * so + c * si;
          int sum = 0;
          for (int i = 0; i < 9; i++) sum += down[i / 3] * along[i % 3] * g[i / 3 * sh + i % 3 * sw];
          u[o * s.C + c] = (int16_t)sum;
        }
      pack_b<DotI16>(u, 1, s.C, s.C, s.OC, (char *)out + x * packed_b_bytes<DotI16>(s.C, s.OC));
    }
    free(u);
  });
  const int64_t parts = winograd_bytes_parts(w, so, si, sh, sw, s);
  memcpy((char *)out + winograd_bytes_weights(s), &parts, sizeof parts);
}

// Tiles [t0, t1) -> V[x][tile - base][c]; `count` tiles between the planes of V. Channels past the last meet weights of 0.
template <class T>
GH_NOINLINE void winograd_bytes_input(const BytesPlan &p, const T *x, T zero, long t0, long t1, long base, long count, unit32 *V) {
  constexpr int N = WinoBytes::T;
  const ConvShape &s = p.s;
  const long plane = count * p.ldv * 2;
  T outside[kShorts], last[N][N][kShorts];
  for (T &b : outside) b = zero;
  // An image of ones becomes 36 at (1, 1) and 0 elsewhere: that is all there is to take the zero point from.
  const vshort taken = vshort{} + (int16_t)(36 * zero);
  for (long t = t0; t < t1; t++) {
    const long n = t / (p.th * p.tw), y0 = t / p.tw % p.th * WinoBytes::M - s.ph, x0 = t % p.tw * WinoBytes::M - s.pw;
    const T *image = x + n * s.H * s.W_in * s.C, *at[N][N];
    long step[N][N];
    for (int i = 0; i < N; i++)
      for (int j = 0; j < N; j++) {
        const bool ok = y0 + i >= 0 && y0 + i < s.H && x0 + j >= 0 && x0 + j < s.W_in;
        at[i][j] = ok ? image + ((y0 + i) * s.W_in + x0 + j) * s.C : outside;
        step[i][j] = ok;
      }
    int16_t *out = (int16_t *)V + (t - base) * p.ldv * 2;
    for (long c = 0; c < s.C; c += kShorts) {
      const bool whole = c + kShorts <= s.C;
      if (!whole)
        for (int i = 0; i < N; i++)
          for (int j = 0; j < N; j++) memcpy(last[i][j], at[i][j] + step[i][j] * c, (size_t)(s.C - c) * sizeof(T));
      vshort d[N][N];
      GH_UNROLL for (int j = 0; j < N; j++) {
        vshort column[N];
        GH_UNROLL for (int i = 0; i < N; i++) column[i] = load_shorts(whole ? at[i][j] + step[i][j] * c : last[i][j]);
        WinoBytes::input(column);
        GH_UNROLL for (int i = 0; i < N; i++) d[i][j] = column[i];
      }
      GH_UNROLL for (int i = 0; i < N; i++) {
        WinoBytes::input(d[i]);
        if (i == 1) d[1][1] -= taken;
        GH_UNROLL for (int j = 0; j < N; j++) memcpy(out + (i * N + j) * plane + c, &d[i][j], sizeof(vshort));
      }
    }
  }
}

template <class Epi>
GH_NOINLINE void winograd_bytes_output(const BytesPlan &p, long t0, long t1, long base, long count, const int32_t *sums, Epi &epi) {
  constexpr int N = WinoBytes::T, M = WinoBytes::M;
  const ConvShape &s = p.s;
  const long plane = count * p.ldm, part = p.np * NR;
  for (long t = t0; t < t1; t++) {
    const long n = t / (p.th * p.tw), y0 = t / p.tw % p.th * M, x0 = t % p.tw * M;
    const int ny = s.OH - y0 < M ? (int)(s.OH - y0) : M, nx = s.OW - x0 < M ? (int)(s.OW - x0) : M;
    const int32_t *in = sums + (t - base) * p.ldm;
    const long pixel = (n * s.OH + y0) * s.OW + x0;
    for_each_vector(s.OC, [&](long c, auto r) __attribute__((always_inline)) {
      vi whole[M][M];
      for (long q = 0; q < p.parts; q++) {
        vi half[M][N];
        GH_UNROLL for (int j = 0; j < N; j++) {
          vi column[N], o[M];
          GH_UNROLL for (int i = 0; i < N; i++) column[i] = load(in + (i * N + j) * plane + q * part + c);
          WinoBytes::output(column, o);
          GH_UNROLL for (int i = 0; i < M; i++) half[i][j] = o[i];
        }
        GH_UNROLL for (int i = 0; i < M; i++) {
          vi o[M];
          WinoBytes::output(half[i], o);
          GH_UNROLL for (int j = 0; j < M; j++) {
            const vi y = (o[j] * vi(kNinth)) >> 6;
            whole[i][j] = q ? whole[i][j] + y : y;
          }
        }
      }
      for (int i = 0; i < ny; i++)
        for (int j = 0; j < nx; j++) epi(pixel + i * s.OW + j, c, whole[i][j], r);
    });
  }
}

template <class T, class Epi>
inline void conv2d_winograd_bytes(ThreadPool &pool, const ConvShape &s, const T *x, int32_t zero, const void *packed, void *work, Epi &&epi) {
  int64_t parts;
  memcpy(&parts, (const char *)packed + winograd_bytes_weights(s), sizeof parts);
  const BytesPlan p(s, parts);
  winograd_run(
      pool, p, packed, work,
      [&](long t0, long t1, long base, long count, unit32 *V) { winograd_bytes_input(p, x, (T)zero, t0, t1, base, count, V); },
      [&](long t0, long t1, long base, long count, const int32_t *sums) { winograd_bytes_output(p, t0, t1, base, count, sums, epi); });
}

}  // namespace GH_ISA_NS
}  // namespace gh
