// depthwise_bytes.h: depthwise convolution of 8-bit integers, channels last, vectors over channels, whole sums.
//
// Contract
// - `depthwise_bytes_pack(w, so, sh, sw, s, out)`: w[c so + kh sh + kw sw] -> depthwise_bytes_size(s) bytes, as the machine reads them.
// - `depthwise_bytes(pool, s, x, packed, zero, epi)`: epi(pixel, c, vi, range) with sum((x - zero) w), exact. x: uint8 or int8 as it
//   lies; taps beyond the image count nothing, because padding stands for the zero point. OC = C = groups.
// - With VNNI, four rows of a window are multiplied at once: the four bytes of a channel in a column are brought together (a quad), once for
//   all windows that the column lies in, or of four columns where the window has one row. 3x3 takes three products for each vector of
//   results, where nine bytes were widened, multiplied and added. One core, with a `quantize` behind: 144x56x56 220 -> 152 us, 5x5 of 672x14x14
//   163 -> 102, 7x7 of 96x56x56 602 -> 267. Of those 20 cycles a vector 8 are the epilogue, 7 the products, 4 the quads.
// - Windows three wide and up to four high take quads as they are made, without a way through memory: a column's is held until its last window. One
//   Zen 5 core, with a `quantize` behind: 32x112x112 54 -> 33 us, 144x56x56 70 -> 43, by steps of two 96x112x112 62 -> 48.
// - Without, bytes are widened one tap at a time, and the zero point comes out at the end, as zero * sum(w): one addition a tap for several columns.
#pragma once
#include "conv.h"

namespace gh {
inline namespace GH_ISA_NS {

#if defined(GH_VNNI)

// For each vector of channels: the weights of every quad, then the sums of all. Windows of one row have quads of four columns.
struct DepthwiseQuads {
  bool along;
  long fours, across, step, taps, vectors;  // quads down a window and along it, which lie `step` columns apart; all of them; vectors of channels
  explicit DepthwiseQuads(const ConvShape &s)
      : along(s.kh == 1), fours((s.kh + 3) / 4), across(along ? (s.kw + 3) / 4 : s.kw), step(along ? 4 * s.dw : s.dw), taps(fours * across),
        vectors((s.C + W - 1) / W) {}
  long vector_bytes() const { return (taps + 1) * W * 4; }
  long reach() const { return (across - 1) * step + 1; }
};

inline size_t depthwise_bytes_size(const ConvShape &s) {
  const DepthwiseQuads q(s);
  return (size_t)(q.vectors * q.vector_bytes());
}

inline void depthwise_bytes_pack(const int8_t *w, long so, long sh, long sw, const ConvShape &s, void *out) {
  const DepthwiseQuads q(s);
  memset(out, 0, depthwise_bytes_size(s));
  for (long c = 0; c < s.C; c++) {
    int8_t *vector = (int8_t *)out + c / W * q.vector_bytes();
    int32_t sum = 0;
    for (int i = 0; i < s.kh; i++)
      for (int j = 0; j < s.kw; j++) {
        const int8_t v = w[c * so + i * sh + j * sw];
        const long quad = q.along ? j / 4 : i / 4 * s.kw + j, byte = q.along ? j % 4 : i % 4;
        vector[(quad * W + c % W) * 4 + byte] = v;
        sum += v;
      }
    ((int32_t *)vector)[q.taps * W + c % W] = sum;
  }
}

GH_INLINE __m128i load_bytes(const void *p, Full) { return _mm_loadu_si128((const __m128i *)p); }
GH_INLINE __m128i load_bytes(const void *p, Tail t) { return _mm_maskz_loadu_epi8(t.m.m, p); }

// Byte i of every channel's four from the i-th of `Count` vectors of channels, 16 bytes each.
template <int Count, class T, class R>
GH_INLINE __m512i quads_of(const T *a, const T *b, const T *c, const T *d, R t) {
  __m512i quads = _mm512_castsi128_si512(load_bytes(a, t));
#if defined(__AVX512VBMI__)
  if constexpr (Count > 1) quads = _mm512_castsi256_si512(_mm256_inserti128_si256(_mm512_castsi512_si256(quads), load_bytes(b, t), 1));
  if constexpr (Count > 2) quads = _mm512_inserti32x4(quads, load_bytes(c, t), 2);
  if constexpr (Count > 3) quads = _mm512_inserti32x4(quads, load_bytes(d, t), 3);
  const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const __m512i from = _mm512_add_epi32(_mm512_mullo_epi32(lane, _mm512_set1_epi32(0x01010101)), _mm512_set1_epi32(0x30201000));
  quads = _mm512_permutexvar_epi8(from, quads);
#else
  quads = _mm512_cvtepu8_epi32(_mm512_castsi512_si128(quads));
  if constexpr (Count > 1) quads = _mm512_or_si512(quads, _mm512_slli_epi32(_mm512_cvtepu8_epi32(load_bytes(b, t)), 8));
  if constexpr (Count > 2) quads = _mm512_or_si512(quads, _mm512_slli_epi32(_mm512_cvtepu8_epi32(load_bytes(c, t)), 16));
  if constexpr (Count > 3) quads = _mm512_or_si512(quads, _mm512_slli_epi32(_mm512_cvtepu8_epi32(load_bytes(d, t)), 24));
#endif
  return __is_same(T, int8_t) ? _mm512_xor_si512(quads, _mm512_set1_epi8((char)0x80)) : quads;
}

// The quads of `columns` columns from `left` on, of windows whose first row is `top`: out[column][four rows], or of four columns each. What lies behind
// a window's last row or column meets weights of 0.
template <class T, class R>
GH_NOINLINE void depthwise_quads(const ConvShape &s, const DepthwiseQuads &q, const T *image, int32_t zero, long top, long left, long columns, R t,
                                 __m512i *out) {
  const __m512i outside = _mm512_set1_epi8((char)zero);
  T edge[W];
  for (T &b : edge) b = (T)(__is_same(T, int8_t) ? zero ^ 0x80 : zero);
  const long begin = left < 0 ? (-left < columns ? -left : columns) : 0, inside = s.W_in - left;
  const long end = inside > columns ? columns : inside > begin ? inside : begin;
  if (q.along) {
    const bool is_row = top >= 0 && top < s.H;
    const long step = s.dw * s.C, whole = is_row ? end - 3 * s.dw : begin;  // up to where all four lie inside
    auto at = [&](long w) { return is_row && w >= 0 && w < s.W_in ? image + (top * s.W_in + w) * s.C : edge; };
    for (long j = 0; j < columns; j++) {
      const T *a = at(left + j);
      if (j >= begin && j < whole) out[j] = quads_of<4>(a, a + step, a + 2 * step, a + 3 * step, t);
      else out[j] = quads_of<4>(a, at(left + j + s.dw), at(left + j + 2 * s.dw), at(left + j + 3 * s.dw), t);
    }
    return;
  }
  for (long g = 0; g < q.fours; g++) {
    const T *rows[4];
    long steps[4];
    const int count = s.kh - 4 * g < 4 ? (int)(s.kh - 4 * g) : 4;
    for (int i = 0; i < 4; i++) {
      const long h = top + (4 * g + i) * s.dh;
      const bool ok = i < count && h >= 0 && h < s.H;
      rows[i] = ok ? image + (h * s.W_in + left + begin) * s.C : edge;
      steps[i] = ok ? s.C : 0;
    }
    auto fill = [&, a = rows[0], b = rows[1], c = rows[2], d = rows[3]](auto some) mutable {
      const long by_a = steps[0], by_b = steps[1], by_c = steps[2], by_d = steps[3];
      for (long j = begin; j < end; j++, a += by_a, b += by_b, c += by_c, d += by_d)
        out[j * q.fours + g] = quads_of<decltype(some)::value>(a, b, c, d, t);
    };
    for (long j = 0; j < begin; j++) out[j * q.fours + g] = outside;
    if (count == 1) fill(std::integral_constant<int, 1>{});
    else if (count == 3) fill(std::integral_constant<int, 3>{});
    else fill(std::integral_constant<int, 4>{});
    for (long j = end; j < columns; j++) out[j * q.fours + g] = outside;
  }
}

// Results [from, to) of row r, for the vector of channels at c, out of the quads of all that their windows reach over.
template <class R, class Epi>
GH_INLINE void depthwise_bytes_row(const ConvShape &s, const DepthwiseQuads &q, const __m512i *quads, const char *weights, int32_t zero, long r, long c,
                                   long from, long to, R t, Epi &epi) {
  const vi taken = vi(zero) * load((const int32_t *)(weights + q.taps * W * 4));
  const auto take = columns_of(epi, c, t);
  auto some = [&](long ow, auto several) __attribute__((always_inline)) {
    constexpr int U = decltype(several)::value;
    __m512i a[U];
    GH_UNROLL for (int u = 0; u < U; u++) a[u] = _mm512_setzero_si512();
    const char *k = weights;
    for (long g = 0; g < q.fours; g++)
      for (long j = 0; j < q.across; j++, k += W * 4) {
        const __m512i by = _mm512_loadu_si512(k), *at = quads + ((ow - from) * s.sw + j * q.step) * q.fours + g;
        GH_UNROLL for (int u = 0; u < U; u++) a[u] = _mm512_dpbusd_epi32(a[u], at[u * s.sw * q.fours], by);
      }
    GH_UNROLL for (int u = 0; u < U; u++) take(r * s.OW + ow + u, vi((ni)a[u]) - taken);
  };
  long ow = from;
  for (; ow + 4 <= to; ow += 4) some(ow, std::integral_constant<int, 4>{});
  for (; ow < to; ow++) some(ow, std::integral_constant<int, 1>{});
}

// Windows whose quads are held in registers from column to column.
constexpr bool windows_hold_quads(const ConvShape &s) { return s.kw == 3 && s.dw == 1 && s.kh > 1 && s.kh <= 4 && s.sw <= 2; }

// A row of results of windows that hold quads, which move by S, for the vector of channels at c; `Rows` rows of a window count.
template <int S, int Rows, class T, class R, class Epi>
GH_INLINE void depthwise_bytes_held(const ConvShape &s, const T *image, const char *weights, int32_t zero, long r, long c, R t, Epi &epi) {
  const __m512i first = _mm512_loadu_si512(weights), second = _mm512_loadu_si512(weights + W * 4), third = _mm512_loadu_si512(weights + 2 * W * 4);
  const __m512i none = (__m512i)(vi(0) - vi(zero) * load((const int32_t *)(weights + 3 * W * 4))).v, outside = _mm512_set1_epi8((char)zero);
  const auto take = columns_of(epi, c, t);
  const long top = r % s.OH * s.sh - s.ph;
  T edge[W];
  for (T &b : edge) b = (T)(__is_same(T, int8_t) ? zero ^ 0x80 : zero);
  const T *rows[4];
  long steps[4];
  for (int i = 0; i < 4; i++) {
    const long h = top + i * s.dh;
    const bool ok = i < s.kh && h >= 0 && h < s.H;
    rows[i] = ok ? image + h * s.W_in * s.C : edge;
    steps[i] = ok ? s.C : 0;
  }
  const T *const row0 = rows[0], *const row1 = rows[1], *const row2 = rows[2], *const row3 = rows[3];
  const long by0 = steps[0], by1 = steps[1], by2 = steps[2], by3 = steps[3];
  auto column = [&](long w) __attribute__((always_inline)) {
    if (w < 0 || w >= s.W_in) return outside;
    return quads_of<Rows>(row0 + w * by0, row1 + w * by1, row2 + w * by2, row3 + w * by3, t);
  };
  auto sums = [&](__m512i a, __m512i b, __m512i d) __attribute__((always_inline)) {
    return vi((ni)_mm512_dpbusd_epi32(_mm512_dpbusd_epi32(_mm512_dpbusd_epi32(none, a, first), b, second), d, third));
  };
  long w = -s.pw, pixel = r * s.OW;
  const long end = pixel + s.OW;
  __m512i a = column(w), b = S == 1 ? column(w + 1) : a;
  auto one = [&]() __attribute__((always_inline)) {
    if constexpr (S == 1) {
      const __m512i d = column(w + 2);
      take(pixel, sums(a, b, d));
      a = b, b = d;
    } else {
      const __m512i m = column(w + 1), d = column(w + 2);
      take(pixel, sums(a, m, d));
      a = d;
    }
    w += S, pixel++;
  };
  for (; pixel + 4 <= end;) GH_UNROLL for (int u = 0; u < 4; u++) one();
  for (; pixel < end;) one();
}

template <int S, int Rows, class T, class Epi>
inline void depthwise_bytes_holding(ThreadPool &pool, const ConvShape &s, const T *x, const void *packed, int32_t zero, Epi &epi) {
  const DepthwiseQuads q(s);
  parallel_for(pool, s.N * s.OH * q.vectors, row_grain(s.OW * W * q.taps), [&](long begin, long end) {
    for (long i = begin; i < end; i++) {
      const long r = i / q.vectors, v = i % q.vectors, c = v * W;
      const T *image = x + r / s.OH * s.H * s.W_in * s.C + c;
      const char *weights = (const char *)packed + v * q.vector_bytes();
      if (c + W <= s.C) depthwise_bytes_held<S, Rows>(s, image, weights, zero, r, c, Full{}, epi);
      else depthwise_bytes_held<S, Rows>(s, image, weights, zero, r, c, Tail((int)(s.C - c)), epi);
    }
  });
}

template <class T, class Epi>
inline void depthwise_bytes(ThreadPool &pool, const ConvShape &s, const T *x, const void *packed, int32_t zero, Epi &&epi) {
  const DepthwiseQuads q(s);
  const int32_t moved = zero + (__is_same(T, int8_t) ? 128 : 0);
  if (windows_hold_quads(s)) {
    if (s.kh == 3 && s.sw == 1) depthwise_bytes_holding<1, 3>(pool, s, x, packed, moved, epi);
    else if (s.kh == 3) depthwise_bytes_holding<2, 3>(pool, s, x, packed, moved, epi);
    else if (s.sw == 1) depthwise_bytes_holding<1, 4>(pool, s, x, packed, moved, epi);
    else depthwise_bytes_holding<2, 4>(pool, s, x, packed, moved, epi);
    return;
  }
  const long reach = q.reach(), room = 192 / q.fours;  // 12 KB of quads: a third of L1
  const long most = room > reach + 8 * s.sw ? (room - reach) / s.sw + 1 : 8, blocks = (s.OW + most - 1) / most;
  parallel_for(pool, s.N * s.OH * q.vectors, row_grain(s.OW * W * q.taps), [&](long begin, long end) {
    __m512i *quads = (__m512i *)scratch<3>((size_t)(((most - 1) * s.sw + reach) * q.fours) * sizeof(__m512i));
    for (long i = begin; i < end; i++) {
      const long r = i / q.vectors, v = i % q.vectors, c = v * W, top = r % s.OH * s.sh - s.ph;
      const T *image = x + r / s.OH * s.H * s.W_in * s.C + c;
      const char *weights = (const char *)packed + v * q.vector_bytes();
      for (long b = 0; b < blocks; b++) {
        const Range cut = split(s.OW, b, blocks);
        const long columns = (cut.end - cut.begin - 1) * s.sw + reach;
        auto row = [&](auto t) {
          depthwise_quads(s, q, image, moved, top, cut.begin * s.sw - s.pw, columns, t, quads);
          depthwise_bytes_row(s, q, quads, weights, moved, r, c, cut.begin, cut.end, t, epi);
        };
        if (c + W <= s.C) row(Full{});
        else row(Tail((int)(s.C - c)));
      }
    }
  });
}

#else

inline size_t depthwise_bytes_size(const ConvShape &s) { return (size_t)(s.kh * s.kw * s.C) * 4; }
inline void depthwise_bytes_pack(const int8_t *w, long so, long sh, long sw, const ConvShape &s, void *out) {
  for (int i = 0; i < s.kh; i++)
    for (int j = 0; j < s.kw; j++)
      for (long c = 0; c < s.C; c++) ((int32_t *)out)[((long)i * s.kw + j) * s.C + c] = w[c * so + i * sh + j * sw];
}

// U columns from `ow` on, whose taps `tw` all lie inside; p is the tap (0, 0) of the first, `step` elements before the next's.
template <int U, class T, class Epi>
GH_INLINE void depthwise_bytes_columns(const ConvShape &s, const T *p, long step, const int32_t *w, Taps th, Taps tw, int32_t zero,
                                    long pixel, Epi &&epi) {
  for_each_vector(s.C, [&](long c, auto t) __attribute__((always_inline)) {
    vi sums(0), a[U];
    GH_UNROLL for (int u = 0; u < U; u++) a[u] = vi(0);
    for (int i = th.begin; i < th.end; i++)
      for (int j = tw.begin; j < tw.end; j++) {
        const T *q = p + ((long)i * s.dh * s.W_in + (long)j * s.dw) * s.C + c;
        const vi k = load(w + ((long)i * s.kw + j) * s.C + c, t);
        sums = sums + k;
        GH_UNROLL for (int u = 0; u < U; u++) a[u] = a[u] + load_int(q + u * step, t) * k;
      }
    GH_UNROLL for (int u = 0; u < U; u++) epi(pixel + u, c, a[u] - vi(zero) * sums, t);
  });
}

template <class T, class Epi>
inline void depthwise_bytes(ThreadPool &pool, const ConvShape &s, const T *x, const void *packed, int32_t zero, Epi &&epi) {
  const int32_t *w = (const int32_t *)packed;
  constexpr int U = 4;
  const Range inner = s.whole_columns();
  const long step = (long)s.sw * s.C;
  parallel_for(pool, s.N * s.OH, row_grain(s.OW * s.C * s.kh * s.kw / 8), [&](long begin, long end) {
    for (long r = begin; r < end; r++) {
      const long n = r / s.OH, oh = r % s.OH;
      const Taps th = valid_taps(oh, s.kh, s.sh, s.ph, s.dh, s.H), all{0, s.kw};
      const T *row = x + ((n * s.H + oh * s.sh - s.ph) * s.W_in - s.pw) * s.C;
      auto one = [&](long ow) {
        const Taps tw = valid_taps(ow, s.kw, s.sw, s.pw, s.dw, s.W_in);
        depthwise_bytes_columns<1>(s, row + ow * step, step, w, th, tw, zero, r * s.OW + ow, epi);
      };
      long ow = 0;
      for (; ow < inner.begin; ow++) one(ow);
      for (; ow + U <= inner.end; ow += U)
        depthwise_bytes_columns<U>(s, row + ow * step, step, w, th, all, zero, r * s.OW + ow, epi);
      for (; ow < s.OW; ow++) one(ow);
    }
  });
}

#endif  // GH_VNNI

}  // namespace GH_ISA_NS
}  // namespace gh
