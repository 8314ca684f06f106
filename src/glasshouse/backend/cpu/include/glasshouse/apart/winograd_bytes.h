// winograd_bytes.h: 3x3 convolutions of 8-bit integers by Winograd's F(4x4, 3x3) in 16 bits: four times fewer products, exact.
//
// Contract
// - `winograd_bytes_pack(pool, w, so, si, sh, sw, s, out)`, `winograd_bytes_size(s)`: weights of int8, as conv_weights.h reads them.
// - `conv2d_winograd_bytes(pool, s, x, zero, packed, work, epi)`: x is uint8 or int8, channels last; epi(pixel, oc, whole, range) takes the
//   exact sums of w (x - zero); `work`: winograd_bytes_work(s) bytes. Padding stands for the real number 0.
// - Why it is exact. G times 24 (its last row times 6) is whole: weights become at most 144 * 128, images at most 68 * 255, both of which 16
//   bits hold. Sums of products may leave 32 bits, which does no harm: results come out as 576 y modulo 2^32, and 576 = 64 * 9, of
//   which 9 has an inverse. So y is right as long as |y| < 2^25: a filter's positive weights times 255 must stay below, and its negative ones
//   (x - zero reaches over 255 steps: what positive weights gain from a larger zero point, negative ones lose). Where those of all
//   channels do not, channels are summed in as few parts as do (`kWinoSure` channels always do), and parts are added at the end.
// - Where 4 x 4 results do not go into an image, the last ones of a row or column are two: F(2, 3) takes four of the six points, 0, 1, -1 and
//   infinity, and so the same weights, and its image is scaled so that results come out as 24 y along each axis too. 14 x 14 results
//   take 484 products a channel, where 16 tiles of F(4, 3) take 576.
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
  static constexpr int T = 6, M = 4, kFew = 4;  // points, results of a tile; points of two results
  static constexpr int16_t G[6][3] = {{6, 0, 0}, {-4, -4, -4}, {-4, 4, -4}, {1, 2, 4}, {1, -2, 4}, {0, 0, 6}};
  GH_INLINE static void input(vshort (&d)[6]) {
    const vshort a = d[4] - (d[2] << 2), b = d[3] - (d[1] << 2), c = d[4] - d[2], e = (d[3] - d[1]) << 1;
    const vshort first = c + ((d[0] - d[2]) << 2), last = d[5] - d[3] - (e << 1);
    d[0] = first, d[1] = a + b, d[2] = a - b, d[3] = c + e, d[4] = c - e, d[5] = last;
  }
  // Of two results: the points 0, 1, -1 and infinity.
  GH_INLINE static void input(vshort (&d)[4]) {
    const vshort a = d[1] + d[2], b = d[1] - d[2];
    const vshort first = (d[0] - d[2]) << 2, last = d[3] - d[1];
    d[0] = first, d[1] = -(a << 1) - a, d[2] = (b << 1) + b, d[3] = last;
  }
  GH_INLINE static void output(const vi (&m)[4], vi (&o)[2]) {
    o[0] = m[0] + m[1] + m[2];
    o[1] = m[1] - m[2] + (m[3] << 2);
  }
  GH_INLINE static void output(const vi (&m)[6], vi (&o)[4]) {
    const vi s1 = m[1] + m[2], d1 = m[1] - m[2], s2 = m[3] + m[4], d2 = m[3] - m[4];
    o[0] = m[0] + s1 + s2;
    o[1] = d1 + (d2 << 1);
    o[2] = s1 + (s2 << 2);
    o[3] = d1 + (d2 << 3) + (m[5] << 2);
  }
};

// Tiles are numbered by kind: whole ones, those of two rows, of two columns, of two of both. In planes of the points 2 and -2, tiles that have no
// values there leave no gap.
struct BytesPlan : WinoPlan<DotI16, WinoBytes::M> {
  enum Kind { kWhole, kLow, kNarrow, kSmall };
  bool low, narrow;  // whether there are tiles of two rows, of two columns
  long down, along, begin[5];  // whole tiles of a column and of a row; where each kind begins
  explicit BytesPlan(const ConvShape &c, long of_channels = 1) : WinoPlan(c, of_channels) {
    low = (c.OH - 1) % M < 2, narrow = (c.OW - 1) % M < 2;
    down = th - low, along = tw - narrow;
    const long counts[] = {down * along, low * along, down * narrow, (long)low * narrow};
    begin[0] = 0;
    for (int k = 0; k < 4; k++) begin[k + 1] = begin[k] + c.N * counts[k];
  }
  static constexpr int M = WinoBytes::M;
  static constexpr bool is_two(long point) { return point == 3 || point == 4; }
  long of_kind(int k, long t0, long t1) const {
    const long from = t0 > begin[k] ? t0 : begin[k], to = t1 < begin[k + 1] ? t1 : begin[k + 1];
    return to > from ? to - from : 0;
  }
  long rows(long x, long t0, long t1) const {
    long n = of_kind(kWhole, t0, t1);
    if (!is_two(x / T)) n += of_kind(kLow, t0, t1);
    if (!is_two(x % T)) n += of_kind(kNarrow, t0, t1);
    return is_two(x / T) || is_two(x % T) ? n : n + of_kind(kSmall, t0, t1);
  }
  struct Place { int kind; long image, y, x; };  // of its first result
  Place operator[](long t) const {
    int k = kWhole;
    while (t >= begin[k + 1]) k++;
    const bool last_row = k == kLow || k == kSmall, last_column = k == kNarrow || k == kSmall;
    const long h = last_row ? 1 : down, w = last_column ? 1 : along, i = t - begin[k];
    return {k, i / (h * w), (last_row ? th - 1 : i / w % h) * M, (last_column ? tw - 1 : i % w) * M};
  }
};

// Behind the weights: in how many parts channels are summed.
inline size_t winograd_bytes_weights(const ConvShape &s) { return winograd_weight_bytes<DotI16, WinoBytes::M>(s); }
inline size_t winograd_bytes_size(const ConvShape &s) { return winograd_bytes_weights(s) + sizeof(int64_t); }
inline size_t winograd_bytes_work(const ConvShape &s) {
  const BytesPlan p(s, (s.C + kWinoSure - 1) / kWinoSure);
  return (size_t)p.tiles * p.X * (p.ldv + p.ldm) * 4 + 4096;
}

// As few parts as keep the positive and the negative weights of each below 2^25 / 255 for every filter.
inline long winograd_bytes_parts(const int8_t *w, long so, long si, long sh, long sw, const ConvShape &s) {
  const long most = (s.C + kWinoSure - 1) / kWinoSure, pairs = units<DotI16>(s.C);
  for (long parts = 1; parts < most; parts++) {
    bool fits = true;
    for (long o = 0; o < s.OC && fits; o++)
      for (long q = 0; q < parts && fits; q++) {
        const Range r = split(pairs, q, parts);
        long above = 0, below = 0;
        for (long c = 2 * r.begin; c < 2 * r.end && c < s.C; c++)
          for (int i = 0; i < 9; i++) {
            const long v = w[o * so + c * si + i / 3 * sh + i % 3 * sw];
            (v > 0 ? above : below) += v;
          }
        fits = above * 255 < 1L << 25 && -below * 255 < 1L << 25;
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

// The plane of the point i down and the point j along, of tiles that take that many points; planes of two down hold tiles `shift` elements earlier.
template <int Down, int Along>
GH_INLINE long winograd_bytes_at(int i, int j, long plane, long shift) {
  constexpr int few[] = {0, 1, 2, 5}, N = WinoBytes::T;
  const int y = Down == N ? i : few[i], x = Along == N ? j : few[j];
  return (y * N + x) * plane - (BytesPlan::is_two(y) ? shift : 0);
}

// One tile, whose pixel (i, j) lies at at[i][j], or is the same for all channels where step[i][j] is 0.
template <int Down, int Along, class T>
GH_NOINLINE void winograd_bytes_tile(const T *const (&at)[6][6], const long (&step)[6][6], long C, T zero, int16_t *out, long plane, long shift) {
  T last[Down][Along][kShorts];
  // An image of ones becomes 36 at (1, 1) and 0 elsewhere: that is all there is to take the zero point from.
  const vshort taken = vshort{} + (int16_t)(36 * zero);
  for (long c = 0; c < C; c += kShorts) {
    const bool whole = c + kShorts <= C;
    if (!whole)
      for (int i = 0; i < Down; i++)
        for (int j = 0; j < Along; j++) memcpy(last[i][j], at[i][j] + step[i][j] * c, (size_t)(C - c) * sizeof(T));
    vshort d[Down][Along];
    GH_UNROLL for (int j = 0; j < Along; j++) {
      vshort column[Down];
      GH_UNROLL for (int i = 0; i < Down; i++) column[i] = load_shorts(whole ? at[i][j] + step[i][j] * c : last[i][j]);
      WinoBytes::input(column);
      GH_UNROLL for (int i = 0; i < Down; i++) d[i][j] = column[i];
    }
    GH_UNROLL for (int i = 0; i < Down; i++) {
      WinoBytes::input(d[i]);
      if (i == 1) d[1][1] -= taken;
      GH_UNROLL for (int j = 0; j < Along; j++) memcpy(out + winograd_bytes_at<Down, Along>(i, j, plane, shift) + c, &d[i][j], sizeof(vshort));
    }
  }
}

// Tiles [t0, t1) -> V[x][tile - base][c]; `count` tiles between the planes of V. Channels past the last meet weights of 0.
template <class T>
GH_NOINLINE void winograd_bytes_input(const BytesPlan &p, const T *x, T zero, long t0, long t1, long base, long count, unit32 *V) {
  constexpr int N = WinoBytes::T, few = WinoBytes::kFew;
  constexpr decltype(&winograd_bytes_tile<N, N, T>) of_kind[] = {
      winograd_bytes_tile<N, N, T>, winograd_bytes_tile<few, N, T>, winograd_bytes_tile<N, few, T>, winograd_bytes_tile<few, few, T>};
  const ConvShape &s = p.s;
  const long lows = p.of_kind(p.kLow, base, base + count);
  T outside[kShorts];
  for (T &b : outside) b = zero;
  for (long t = t0; t < t1; t++) {
    const auto [kind, n, y, x0] = p[t];
    const T *image = x + n * s.H * s.W_in * s.C, *at[N][N];
    long step[N][N];
    for (int i = 0; i < N; i++)
      for (int j = 0; j < N; j++) {
        const long h = y - s.ph + i, w = x0 - s.pw + j;
        const bool ok = h >= 0 && h < s.H && w >= 0 && w < s.W_in;
        at[i][j] = ok ? image + (h * s.W_in + w) * s.C : outside;
        step[i][j] = ok;
      }
    const long pixel = p.ldv * 2, shift = kind == p.kNarrow ? lows * pixel : 0;
    of_kind[kind](at, step, s.C, zero, (int16_t *)V + (t - base) * pixel, count * pixel, shift);
  }
}

// A vector of channels of one tile: sums of all points to results. `part` sums lie between parts of the channels.
template <int Down, int Along>
GH_INLINE void winograd_bytes_results(const int32_t *in, long plane, long shift, long parts, long part, vi (&whole)[4][4]) {
  constexpr int H = Down - 2, R = Along - 2;
  for (long q = 0; q < parts; q++, in += part) {
    vi half[H][Along];
    GH_UNROLL for (int j = 0; j < Along; j++) {
      vi column[Down], o[H];
      GH_UNROLL for (int i = 0; i < Down; i++) column[i] = load(in + winograd_bytes_at<Down, Along>(i, j, plane, shift));
      WinoBytes::output(column, o);
      GH_UNROLL for (int i = 0; i < H; i++) half[i][j] = o[i];
    }
    GH_UNROLL for (int i = 0; i < H; i++) {
      vi o[R];
      WinoBytes::output(half[i], o);
      GH_UNROLL for (int j = 0; j < R; j++) {
        const vi y = (o[j] * vi(kNinth)) >> 6;
        whole[i][j] = q ? whole[i][j] + y : y;
      }
    }
  }
}

template <int Down, int Along>
GH_NOINLINE void winograd_bytes_edge(const int32_t *in, long plane, long shift, long parts, long part, vi (&whole)[4][4]) {
  winograd_bytes_results<Down, Along>(in, plane, shift, parts, part, whole);
}

template <class Epi>
GH_NOINLINE void winograd_bytes_output(const BytesPlan &p, long t0, long t1, long base, long count, const int32_t *sums, Epi &epi) {
  constexpr int N = WinoBytes::T, M = WinoBytes::M, few = WinoBytes::kFew;
  // Whole tiles are inlined, so that the epilogue's numbers stay in registers: 2 % of 64x56x56.
  constexpr decltype(&winograd_bytes_edge<few, N>) of_kind[] = {nullptr, winograd_bytes_edge<few, N>, winograd_bytes_edge<N, few>, winograd_bytes_edge<few, few>};
  const ConvShape &s = p.s;
  const long plane = count * p.ldm, lows = p.of_kind(p.kLow, base, base + count);
  for (long t = t0; t < t1; t++) {
    const auto [kind, n, y, x] = p[t];
    const int ny = s.OH - y < M ? (int)(s.OH - y) : M, nx = s.OW - x < M ? (int)(s.OW - x) : M;
    const int32_t *in = sums + (t - base) * p.ldm;
    const long pixel = (n * s.OH + y) * s.OW + x, shift = kind == p.kNarrow ? lows * p.ldm : 0;
    const auto edge = of_kind[kind];
    for_each_vector(s.OC, [&](long c, auto r) __attribute__((always_inline)) {
      vi whole[M][M];
      const auto take = columns_of(epi, c, r);
      if (edge) edge(in + c, plane, shift, p.parts, p.np * NR, whole);
      else winograd_bytes_results<N, N>(in + c, plane, 0, p.parts, p.np * NR, whole);
      for (int i = 0; i < ny; i++)
        for (int j = 0; j < nx; j++) take(pixel + i * s.OW + j, whole[i][j]);
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
