// quant.h: quantizing and dequantizing elements, and what products of 8-bit integers need besides gemm.h and conv.h.
//
// Contract
// - `quantize<T>(x, scale, zero, low, high)`: clip(round(x / scale) + zero, low, high), halves to even, NaN as 0 steps. For
//   vectors of 8-bit results it gives the whole numbers as floats: exact, since 2^22 steps and a zero point fit into 24 bits, and
//   what is beyond is clipped. `dequantize(x, scale, zero)`: (x - zero) * scale.
// - A product of (a - za) with w is sum(a w) - za * sum(w): `i8_pack` appends the sums of the columns to packed B
//   (`i8_packed_bytes`, `i8_column_sums`); epilogues subtract. The micro-kernel takes unsigned a: signed a are moved up by 128
//   when they are read (`SignedRowsA`, `i8_pad_image`), and their zero point with them.
// - `i8_pad_image`: x [N, H, W, C] with padding that stands for the real number 0, which is the zero point and not 0.
// - Photographs have 3 channels, which no unit of 4 bytes holds whole: units then run over the bytes of a kernel row (`i8_by_rows`), so that
//   tiles read the image in place. Gathering 7 x 7 taps of 3 channels took as long as multiplying them.
#pragma once
#include "conv.h"
#include "depthwise_bytes.h"
#include "element.h"
#include "grouped_bytes.h"

namespace gh {
inline namespace GH_ISA_NS {

template <class T, class Z>
GH_INLINE float dequantize(T x, float scale, Z zero) {
  if constexpr (sizeof(T) < 4 && sizeof(Z) < 4) return (float)((int32_t)x - (int32_t)zero) * scale;
  else return (float)((int64_t)x - (int64_t)zero) * scale;
}
GH_INLINE vf dequantize(vf x, vf scale, vf zero) { return (x - zero) * scale; }

template <class T, class Z>
GH_INLINE T quantize(float x, float scale, Z zero, int64_t low, int64_t high) {
  float steps = __builtin_rintf(x / scale);
  steps = steps != steps ? 0.0f : steps > 0x1p40f ? 0x1p40f : steps < -0x1p40f ? -0x1p40f : steps;
  const int64_t moved = (int64_t)steps + (int64_t)zero;
  return (T)(moved < low ? low : moved > high ? high : moved);
}
#if defined(__FMA__) || defined(__AVX512F__) || defined(__aarch64__)
constexpr bool kFused = true;  // whether fma rounds once
#else
constexpr bool kFused = false;
#endif
template <class T>
GH_INLINE vf quantize(vf x, vf scale, vf zero, int64_t low, int64_t high) {
  static_assert(sizeof(T) == 1, "whole numbers of more bits are not exact in a float");
  vf steps = rint(x / scale);
  steps = select(steps != steps, vf(0.0f), steps) + zero;
  return min_fast(max_fast(steps, vf((float)low)), vf((float)high));
}

// The same with one zero point and one scale, of those whose division may be taken as products (`given_numbers.py` says which): what
// they alone decide is computed once. Made outside of loops and copied into what runs for each vector: read through a pointer, it would be read again behind every store of
// bytes, which may be stored anywhere as far as the compiler knows.
// Gives whole numbers, which stores take as they are. `FromZero`: of unsigned bytes, the zero point 0, and all of them count.
template <class T, bool Clipped = true>
struct Bytes {
  vi v;  // unless Clipped, as unsigned numbers they may be above 255, which stands for 255
  GH_INLINE operator vf() const {
#if defined(GH_AVX512)
    if constexpr (!Clipped) return to_float(vi((ni)_mm512_min_epu32((__m512i)v.v, _mm512_set1_epi32(255))));
#endif
    return to_float(v);
  }
};
template <class T, bool Clipped, class R>
GH_INLINE void store(T *p, Bytes<T, Clipped> x, R t) {
#if defined(GH_AVX512)
  const __m128i low = Clipped ? _mm512_cvtepi32_epi8((__m512i)x.v.v) : _mm512_cvtusepi32_epi8((__m512i)x.v.v);
  if constexpr (__is_same(R, Full)) _mm_storeu_si128((__m128i *)p, low);
  else _mm_mask_storeu_epi8(p, t.m.m, low);
#else
  store_int(p, x.v, t);
#endif
}

#if defined(GH_AVX512)
constexpr bool kBytesSaturate = true;
#else
constexpr bool kBytesSaturate = false;
#endif

template <class T, bool FromZero = false>
struct ToBytes {
  static_assert(sizeof(T) == 1, "whole numbers of more bits are not exact in a float");
  float scale, least, most, inverse;
  int32_t zero, none, low, high;
  ToBytes(float s, float z, int64_t l, int64_t h)
      : scale(s), least(((float)l - z) * s), most(((float)h - z) * s), inverse(1.0f / s), zero((int32_t)z), low((int32_t)l), high((int32_t)h) {
    none = low > zero ? low : high < zero ? high : zero;  // what NaN becomes
  }
  // x / scale, rounded as the division is.
  GH_INLINE vf steps(vf x) const {
    const vf near = x * vf(inverse);
    return fma(fnma(near, vf(scale), x), vf(inverse), near);
  }
  GH_INLINE auto operator()(vf x) const {
    if constexpr (!kFused) {
      return Bytes<T>{to_int(quantize<T>(x, vf(scale), vf((float)zero), low, high))};
    } else if constexpr (FromZero && kBytesSaturate) {
      // NaN becomes 0; infinity, and all that 32 bits do not hold, becomes 2^31 as an unsigned number.
      return Bytes<T, false>{round_to_int(steps(max_fast(x, vf(0.0f))))};
    } else {
      // Clipped before: k * s / s rounds to k, so the ends are met. NaN stays, as the second operand is given.
      return bytes_of(steps(min_fast(vf(most), max_fast(vf(least), x))));
    }
  }

  // For what is computed in steps already (`in_steps.py`: the division is folded into what a chain of sums is multiplied with).
  GH_INLINE auto of_steps(vf x) const {
    if constexpr (FromZero && kBytesSaturate) return Bytes<T, false>{round_to_int(max_fast(x, vf(0.0f)))};
    else return bytes_of(clipped(x));
  }
  // The steps alone, without the zero point: what `dequantize` multiplies with the scale.
  GH_INLINE vf rounded(vf x) const {
    if constexpr (FromZero) return rint(min_fast(max_fast(x, vf(0.0f)), vf(255.0f)));
    const vf inside = clipped(x);
    return rint(select(inside != inside, vf((float)(none - zero)), inside));
  }

 private:
  GH_INLINE vf clipped(vf x) const { return min_fast(vf((float)(high - zero)), max_fast(vf((float)(low - zero)), x)); }
  GH_INLINE Bytes<T> bytes_of(vf inside) const { return {select(inside != inside, vi(none), round_to_int(inside) + vi(zero))}; }
};

// A function of bytes In that gives bytes Out, both as whole floats: computed for all 256, then looked up.
template <class In, class Out>
struct ByteTable {
#if defined(__AVX512VBMI__)
  alignas(64) Out at[256];
#else
  alignas(64) float at[256];
#endif
  template <class F>
  explicit ByteTable(F &&f) {
    for (int i = 0; i < 256; i += W) {
      alignas(64) In given[W];
      for (int j = 0; j < W; j++) given[j] = (In)(uint8_t)(i + j);
      store(at + i, f(load(given)));
    }
  }
  GH_INLINE vf operator()(vf x) const {
    const vi i = to_int(x) & vi(255);
#if defined(__AVX512VBMI__)
    // Bytes of a lane above the first look up place 0, and are taken out afterwards.
    const __m512i n = (__m512i)i.v, *t = (const __m512i *)at;
    const __m512i low = _mm512_permutex2var_epi8(t[0], n, t[1]), high = _mm512_permutex2var_epi8(t[2], n, t[3]);
    const __m512i both = _mm512_slli_epi32(_mm512_mask_blend_epi32(_mm512_test_epi32_mask(n, _mm512_set1_epi32(128)), low, high), 24);
    return to_float(vi((ni)(__is_same(Out, int8_t) ? _mm512_srai_epi32(both, 24) : _mm512_srli_epi32(both, 24))));
#else
    return gather(at, i);
#endif
  }
};

constexpr size_t i8_sums_offset(long K, long N) { return packed_b_bytes<DotI8>(K, N); }
constexpr size_t i8_packed_bytes(long K, long N) { return i8_sums_offset(K, N) + (size_t)N * 4; }
GH_INLINE const int32_t *i8_column_sums(const void *packed, long K, long N) {
  return (const int32_t *)((const char *)packed + i8_sums_offset(K, N));
}

// B's element (k, n) lies at w[k * rs + n * cs].
inline void i8_pack(ThreadPool &pool, const int8_t *w, long rs, long cs, long K, long N, void *out) {
  pack_b_parallel<DotI8>(pool, w, rs, cs, K, N, out);
  int32_t *sums = (int32_t *)((char *)out + i8_sums_offset(K, N));
  for (long n = 0; n < N; n++) {
    int32_t sum = 0;
    for (long k = 0; k < K; k++) sum += w[k * rs + n * cs];
    sums[n] = sum;
  }
}

// Taps of a kernel row lie together: where their channels are no whole units, the row is rounded up to such, with weights of 0, and
// the image is one of single bytes. Of a photograph's 7 taps of 3 channels, 21 bytes, that makes 24. `_by_rows` in int8.py is the same.
constexpr bool i8_by_rows(const ConvShape &s) {
  const long row = s.kw * s.C, whole = (row + 3) / 4 * 4;
  return s.groups == 1 && s.dw == 1 && !s.pointwise() && s.C % 4 != 0 && 3 * whole <= 4 * row;
}
// Groups of few channels are taken together up to a vector of results, with weights of 0 between them: a register tile multiplies that many columns
// anyhow, and its operands are read in place. 32 groups of 4 channels, 56x56: 4.6 -> 0.48 ms
// on one core; of 16 channels, 14x14: 0.33 -> 0.12.
constexpr ConvShape i8_merged_shape(ConvShape s) {
  if (s.groups == 1 || s.C == s.groups || lanes_hold_groups(s)) return s;
  for (long m = W / s.og(); m > 1; m--)
    if (s.groups % m == 0) {
      s.groups /= m;
      break;
    }
  return s;
}
// The convolution over a padded image; rows of single bytes have whole units, and reach as far as the last tap's.
constexpr ConvShape i8_padded_shape(ConvShape s) {
  const bool rows = i8_by_rows(s);
  const long h = s.padded_h();
  if (rows) s.kw = (int)((s.kw * s.C + 3) / 4 * 4), s.sw *= (int)s.C, s.C = 1;
  s.W_in = rows ? (s.padded_w() + 3) / 4 * 4 : s.padded_w();
  s.H = h, s.ph = s.pw = 0;
  return i8_merged_shape(s);
}
// Convolution weights [O, I, kh, kw], packed as conv.h wants them; one sum for each output channel.
inline size_t i8_conv_weights(const ConvShape &s) {
  return lanes_hold_groups(s) ? grouped_bytes_size(s) : conv_weight_bytes<DotI8>(i8_padded_shape(s));
}
inline size_t i8_conv_bytes(const ConvShape &s) { return i8_conv_weights(s) + (size_t)s.OC * 4; }
inline const int32_t *i8_conv_sums(const void *packed, const ConvShape &s) {
  return (const int32_t *)((const char *)packed + i8_conv_weights(s));
}
inline void i8_conv_pack(ThreadPool &pool, const int8_t *w, long so, long si, long sh, long sw, const ConvShape &s, void *out) {
  const ConvShape r = i8_padded_shape(s);
  if (lanes_hold_groups(s)) {
    grouped_bytes_pack(w, so, si, sh, sw, s, out);
  } else if (r.groups != s.groups) {
    const long merged = s.groups / r.groups, taps = s.kh * s.kw;
    int8_t *more = (int8_t *)calloc((size_t)(r.OC * r.K()), 1);  // [o][kh, kw, c]
    if (!more) abort();
    for (long o = 0; o < s.OC; o++)
      for (long t = 0; t < taps; t++)
        for (long c = 0; c < s.cg(); c++)
          more[(o * taps + t) * r.cg() + o / s.og() % merged * s.cg() + c] = w[o * so + c * si + t / s.kw * sh + t % s.kw * sw];
    conv_pack_weights<DotI8>(pool, more, r.K(), 1, s.kw * r.cg(), r.cg(), r, out);
    free(more);
  } else if (!i8_by_rows(s)) {
    conv_pack_weights<DotI8>(pool, w, so, si, sh, sw, s, out);
  } else {
    int8_t *more = (int8_t *)calloc((size_t)(r.OC * r.K()), 1);
    if (!more) abort();
    for (long o = 0; o < s.OC; o++)
      for (long i = 0; i < s.kh; i++)
        for (long j = 0; j < s.kw * s.C; j++) more[(o * s.kh + i) * r.kw + j] = w[o * so + j % s.C * si + i * sh + j / s.C * sw];
    conv_pack_weights<DotI8>(pool, more, r.K(), 1, r.kw, 1, r, out);
    free(more);
  }
  int32_t *sums = (int32_t *)i8_conv_sums(out, s);
  for (long o = 0; o < s.OC; o++) {
    int32_t sum = 0;
    for (long i = 0; i < s.K(); i++) sum += w[o * so + i];  // a filter's elements lie together
    sums[o] = sum;
  }
}

// A convolution over an image that is padded already, or needs no padding. Tiles that read it in place may need it widened.
template <class Epi>
inline void i8_conv(ThreadPool &pool, const ConvShape &s, const uint8_t *x, const void *packed, Epi &&epi) {
  typedef typename AElem<TilesI8>::type E;
  if constexpr (sizeof(E) > 1) {
    if (conv_way<TilesI8>(s) == ConvWay::kDirect) {
      const long rows = s.N * s.H, row = s.W_in * s.C;
      E *wide = (E *)scratch<7>((size_t)(rows * row) * sizeof(E));
      parallel_for(pool, rows, row_grain(row), [&](long begin, long end) { convert_row(x + begin * row, wide + begin * row, (end - begin) * row); });
      conv2d<TilesI8>(pool, s, (const E *)wide, packed, nullptr, epi);
      return;
    }
  }
  conv2d<TilesI8>(pool, s, x, packed, nullptr, epi);
}

// A convolution in groups over an image that is padded already, or needs no padding; weights of `i8_conv_pack`. `by_lanes`: whether lanes hold the
// groups of the convolution as it was packed, which groups taken together do not tell.
template <class Epi>
inline void i8_conv_groups(ThreadPool &pool, bool by_lanes, const ConvShape &s, const uint8_t *x, const void *packed, Epi &&epi) {
  if (by_lanes) grouped_bytes(pool, s, x, packed, epi);
  else i8_conv(pool, s, x, packed, epi);
}

GH_INLINE void i8_move_up(const int8_t *s, uint8_t *d, long n) {
  for (long i = 0; i < n; i++) d[i] = (uint8_t)(s[i] ^ 0x80);
}
GH_INLINE void i8_move_up(const uint8_t *s, uint8_t *d, long n) { memcpy(d, s, (size_t)n); }
inline void i8_move_up(const int8_t *s, int16_t *d, long n) {
  widen_bytes(s, d, n);
  for (long i = 0; i < n; i++) d[i] = (int16_t)(d[i] + 128);
}

struct SignedRowsA {
  static constexpr bool kDirect = false, kChunks = true;
  const int8_t *p;
  long ld;
  template <class D>
  bool in_place(long) const { return false; }
  template <class E>
  void pack(long row, long rows, long k, long n, E *out, long stride) const {
    for (long r = 0; r < rows; r++) i8_move_up(p + (row + r) * ld + k, out + r * stride, n);
  }
};
GH_INLINE RowsA<uint8_t> i8_rows(const uint8_t *p, long ld) { return {p, ld}; }
GH_INLINE SignedRowsA i8_rows(const int8_t *p, long ld) { return {p, ld}; }

// `count` pixels of a row.
template <class T>
GH_INLINE void i8_image_row(const ConvShape &s, const T *x, bool planes, long count, uint8_t *out) {
  if (!planes) {
    i8_move_up(x, out, count * s.C);
    return;
  }
  const uint8_t up = __is_same(T, int8_t) ? 0x80 : 0;
  const long plane = s.H * s.W_in;
  long w = 0;
  if (s.C == 3) {
    typedef uint8_t four __attribute__((vector_size(16)));
    for (uint32_t line[64]; w + 65 < count; w += 64) {
      for (long i = 0; i < 64; i++) {
        const T *p = x + w + i;
        const uint32_t a = (uint8_t)(p[0] ^ up), b = (uint8_t)(p[plane] ^ up), c = (uint8_t)(p[2 * plane] ^ up);
        line[i] = a | b << 8 | c << 16;
      }
      for (long i = 0; i < 64; i += 4) {  // four pixels are 12 bytes; those behind are the next ones'
        four pixels;
        memcpy(&pixels, line + i, sizeof pixels);
        pixels = __builtin_shufflevector(pixels, pixels, 0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 3, 7, 11, 15);
        memcpy(out + 3 * (w + i), &pixels, sizeof pixels);
      }
    }
  }
  for (; w < count; w++)
    for (long c = 0; c < s.C; c++) out[w * s.C + c] = (uint8_t)(x[w + c * plane] ^ up);
}

// `fill` is the zero point, moved up already. What a stride leaves over at the end is not copied. x is [N, H, W, C], or, as
// `planes`, [N, C, H, W].
template <class T>
inline void i8_pad_image(ThreadPool &pool, const ConvShape &s, const T *x, int fill, uint8_t *out, bool planes = false) {
  const ConvShape padded = i8_padded_shape(s);
  const long hp = padded.H, wp = s.padded_w(), bytes = padded.W_in * padded.C;
  parallel_for(pool, s.N * hp, row_grain(bytes), [&](long begin, long end) {
    for (long r = begin; r < end; r++) {
      const long n = r / hp, h = r % hp - s.ph;
      uint8_t *o = out + r * bytes;
      const bool inside = h >= 0 && h < s.H;
      const long left = !inside ? wp : s.pw < wp ? s.pw : wp, mid = s.W_in < wp - left ? s.W_in : wp - left;
      memset(o, fill, (size_t)(left * s.C));
      if (mid > 0) i8_image_row(s, x + (planes ? n * s.C * s.H + h : (n * s.H + h) * s.C) * s.W_in, planes, mid, o + left * s.C);
      memset(o + (left + mid) * s.C, fill, (size_t)(bytes - (left + mid) * s.C));
    }
  });
}

}  // namespace GH_ISA_NS
}  // namespace gh
