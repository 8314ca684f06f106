// fft_line.h: Fourier transforms of lines that lie side by side, one at a time, for lengths known to the compiler.
//
// Contract
// - `FftLine<T, Kind, Back, R...>` transforms lines of product(R) complex numbers (pairs), `FftKind::real` ones of twice as many real
//   numbers to the first half of their transform, `half` back. Not scaled. Tables are made in double, once, and read by all threads.
// - Autosorting passes (Stockham). In the first one vectors hold neighbours of a line, and what it gives is put in order in registers;
//   from then on as many elements lie together as its radix says. So nothing is brought together from several lines: a line of 512
//   stays in the first cache, and one alone takes no longer than one of many.
// - The first radix is a multiple of the lanes, of which there are no more than turns of the first pass.
#pragma once
#include "../context.h"
#include "../dft.h"
#include <vector>

namespace gh {
inline namespace GH_ISA_NS {

enum class LineKind { complex, real, half };

template <class T, LineKind Kind, bool Back, int First, int... Rest> class FftLine {
 public:
  static constexpr long n = (First * ... * Rest), m0 = n / First;

 private:
  static constexpr int lanes() {
    long most = (long)(W * 4 / sizeof(T));
    while (most > m0 || First % most != 0) most /= 2;
    return (int)most;
  }
  static constexpr int L = lanes();
  static_assert(L >= 2, "the first pass goes over vectors");
  typedef T V __attribute__((vector_size(L * sizeof(T))));
  typedef typename MakeLanes<L>::type All;

 public:
  static constexpr long room = n + 64 / sizeof(T);  // of each of four arrays, not a whole number of pages apart
  static constexpr long in_line = Kind == LineKind::half ? 2 * n + 2 : 2 * n, out_line = Kind == LineKind::real ? 2 * n + 2 : 2 * n;

  FftLine() {
    first_.resize((size_t)(2 * (First - 1) * m0));
    for (long k = 1; k < First; k++)
      for (long p = 0; p < m0; p++) {
        first_[(2 * (k - 1)) * m0 + p] = (T)turn(k * p, n, false);
        first_[(2 * (k - 1) + 1) * m0 + p] = (T)-turn(k * p, n, true);
      }
    long length = m0;
    (add_table<Rest>(length), ...);
    if constexpr (Kind != LineKind::complex)
      for (long k = 0; k <= n; k++) cos_.push_back((T)turn(k, 2 * n, false)), sin_.push_back((T)turn(k, 2 * n, true));
  }

  void run(const T *x, T *out, T *work) const {
    T *a[2] = {work, work + room}, *b[2] = {work + 2 * room, work + 3 * room};
    if constexpr (Kind == LineKind::half) {
      pack(x, b[0], b[1]);
      first([&](long at, V &re, V &im) __attribute__((always_inline)) { re = get(b[0] + at), im = get(b[1] + at); }, a[Back], a[!Back]);
    } else {
      first([&](long at, V &re, V &im) __attribute__((always_inline)) { apart(get(x + 2 * at), get(x + 2 * at + L), re, im); }, a[Back], a[!Back]);
    }
    const T *table = rest_.data();
    long m = m0, s = First;
    int turn = 0;
    (later<Rest>(m, s, turn, table, a, b, out), ...);
    if constexpr (Kind == LineKind::real) unpack(turn % 2 ? b[0] : a[0], turn % 2 ? b[1] : a[1], out);
  }

 private:
  std::vector<T> first_, rest_, cos_, sin_;

  template <int R> void add_table(long &length) {
    const long m = length / R;
    for (long p = 0; p < m; p++)
      for (long k = 1; k < R; k++) rest_.push_back((T)gh::turn(k * p, length, false)), rest_.push_back((T)-gh::turn(k * p, length, true));
    length = m;
  }

  GH_INLINE static V get(const T *p) {
    V x;
    __builtin_memcpy(&x, p, sizeof x);
    return x;
  }
  GH_INLINE static void put(T *p, V x) { __builtin_memcpy(p, &x, sizeof x); }
  template <int... I> static GH_INLINE V same(T x, Lanes<I...>) { return V{((void)I, x)...}; }
  template <int... I> static GH_INLINE V even(V a, V b, Lanes<I...>) { return __builtin_shufflevector(a, b, (2 * I)...); }
  template <int... I> static GH_INLINE V odd(V a, V b, Lanes<I...>) { return __builtin_shufflevector(a, b, (2 * I + 1)...); }
  template <int H, int... I> static GH_INLINE V zip(V a, V b, Lanes<I...>) { return __builtin_shufflevector(a, b, (H * L / 2 + I / 2 + I % 2 * L)...); }
  template <int... I> static GH_INLINE V backwards(V a, Lanes<I...>) { return __builtin_shufflevector(a, a, (L - 1 - I)...); }

  GH_INLINE static void apart(V a, V b, V &re, V &im) { re = even(a, b, All{}), im = odd(a, b, All{}); }
  GH_INLINE static void pairs(T *p, V re, V im) { put(p, zip<0>(re, im, All{})), put(p + L, zip<1>(re, im, All{})); }

  // R vectors to one after the other: the first lanes of all, the second lanes of all ...
  template <int R> static GH_INLINE void in_order(V (&x)[R]) {
    GH_UNROLL for (int done = 1; done < R; done *= 2) {
      V y[R];
      GH_UNROLL for (int k = 0; k < R / 2; k++) y[2 * k] = zip<0>(x[k], x[k + R / 2], All{}), y[2 * k + 1] = zip<1>(x[k], x[k + R / 2], All{});
      GH_UNROLL for (int k = 0; k < R; k++) x[k] = y[k];
    }
  }

  template <class Load> GH_INLINE void first(Load load, T *re, T *im) const {
    for (long begin = 0; begin < m0; begin += L) {
      const long p = begin + L > m0 ? m0 - L : begin;  // the last vector may begin inside of the one before
      V r[First], i[First];
      GH_UNROLL for (int j = 0; j < First; j++) {
        if constexpr (Back) load(p + j * m0, i[j], r[j]);
        else load(p + j * m0, r[j], i[j]);
      }
      dft<First>(r, i);
      GH_UNROLL for (int k = 1; k < First; k++) times(r[k], i[k], get(&first_[(size_t)((2 * k - 2) * m0 + p)]), get(&first_[(size_t)((2 * k - 1) * m0 + p)]));
      in_order<First>(r);
      GH_UNROLL for (int k = 0; k < First; k++) put(re + First * p + k * L, r[k]);
      in_order<First>(i);
      GH_UNROLL for (int k = 0; k < First; k++) put(im + First * p + k * L, i[k]);
    }
  }

  // The last pass writes pairs, unless they are to be unpacked.
  template <int R> GH_INLINE void later(long &m, long &s, int &turn, const T *&table, T *const *a, T *const *b, T *out) const {
    m /= R;
    T *const *from = turn % 2 ? b : a, *const *to = turn % 2 ? a : b;
    if (m == 1 && Kind != LineKind::real) pass<R, true>(m, s, table, from[Back], from[!Back], out, out);
    else pass<R, false>(m, s, table, from[Back], from[!Back], to[Back], to[!Back]);
    s *= R, turn++, table += 2 * (R - 1) * m;
  }

  template <int R, bool Last> static GH_NOINLINE void pass(long m, long s, const T *table, const T *GH_RESTRICT xr, const T *GH_RESTRICT xi, T *yr, T *yi) {
    const long d = s * m;
    for (long p = 0; p < m; p++) {
      const T *w = table + 2 * (R - 1) * p;
      for (long q = 0; q < s; q += L) {
        V r[R], i[R];
        GH_UNROLL for (int j = 0; j < R; j++) r[j] = get(xr + s * p + j * d + q), i[j] = get(xi + s * p + j * d + q);
        dft<R>(r, i);
        if constexpr (Last) {
          GH_UNROLL for (int k = 0; k < R; k++) pairs(yr + 2 * (k * s + q), Back ? i[k] : r[k], Back ? r[k] : i[k]);
        } else {
          if (p) {
            GH_UNROLL for (int k = 1; k < R; k++) times(r[k], i[k], same(w[2 * k - 2], All{}), same(w[2 * k - 1], All{}));
          }
          GH_UNROLL for (int k = 0; k < R; k++) put(yr + (R * p + k) * s + q, r[k]), put(yi + (R * p + k) * s + q, i[k]);
        }
      }
    }
  }

  // The transform of real numbers from that of their pairs: Z[k] and the conjugate of Z[n - k] give both elements.
  void unpack(const T *re, const T *im, T *out) const {
    const V half = same(T(0.5), All{});
    for (long begin = 1; begin <= n / 2; begin += L) {
      const long k = begin + L > n ? n - L : begin, at = n - k - L + 1;
      const V ar = get(re + k), ai = get(im + k), br = backwards(get(re + at), All{}), bi = backwards(get(im + at), All{});
      const V c = get(&cos_[(size_t)k]), s = get(&sin_[(size_t)k]);
      const V er = half * (ar + br), ei = half * (ai - bi), dr = half * (ai + bi), di = half * (br - ar);
      const V p = add_product(dr, c, di * s), q = add_product(di, c, -(dr * s));
      pairs(out + 2 * k, er + p, ei + q);
      pairs(out + 2 * at, backwards(er - p, All{}), backwards(q - ei, All{}));
    }
    out[0] = re[0] + im[0], out[1] = T(0);
    out[2 * n] = re[0] - im[0], out[2 * n + 1] = T(0);
  }

  // Pairs whose transform are the real numbers, from X[k] and the conjugate of X[n - k]; what is imaginary at the ends is not read.
  void pack(const T *x, T *re, T *im) const {
    for (long begin = 1; begin <= n / 2; begin += L) {
      const long k = begin + L > n ? n - L : begin, at = n - k - L + 1;
      V ar, ai, br, bi;
      apart(get(x + 2 * k), get(x + 2 * k + L), ar, ai);
      apart(get(x + 2 * at), get(x + 2 * at + L), br, bi);
      br = backwards(br, All{}), bi = backwards(bi, All{});
      const V c = get(&cos_[(size_t)k]), s = get(&sin_[(size_t)k]);
      const V dr = ar - br, di = ai + bi, p = add_product(dr, s, di * c), q = add_product(dr, c, -(di * s));
      put(re + k, ar + br - p), put(im + k, ai - bi + q);
      put(re + at, backwards(ar + br + p, All{})), put(im + at, backwards(bi - ai + q, All{}));
    }
    re[0] = x[0] + x[2 * n], im[0] = x[0] - x[2 * n];
  }
};

template <class Line, class T>
inline void fft_each(Context &ctx, const Line &line, long count, const T *x, T *out) {
  ctx.parallel(count, count * Line::n >= 4096, [&](int64_t begin, int64_t end) {
    T *work = (T *)scratch<9>((size_t)(4 * Line::room) * sizeof(T));
    for (int64_t i = begin; i < end; i++) line.run(x + i * Line::in_line, out + i * Line::out_line, work);
  });
}

}  // namespace GH_ISA_NS
}  // namespace gh
