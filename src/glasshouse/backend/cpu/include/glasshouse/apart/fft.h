// fft.h: Fourier transforms of lines of any length: mixed radix (2, 3, 4, 5, small primes), Bluestein's way for large primes.
//
// Contract
// - `FftPlan<T>(n)` holds factors and tables; it is made once and read by all threads. T is float or double; tables are computed in double.
// - `plan.run(re, im, re2, im2, lanes)`: forward transforms, not scaled, of `lanes` lines at a time: element i of line l at [i * lanes + l].
//   The result is in (re, im); the second pair is used on the way. Swapping re and im transforms backwards.
// - Autosorting passes (Stockham): a pass of radix r reads r elements n / r apart and writes them next to each other; loops run over
//   what lies together, which are the lanes at first and more with every pass.
// - `fft_lines` takes lines along any axis of [outer, n, inner], complex ones as pairs.
#pragma once
#include "../context.h"
#include "../dft.h"
#include "../transpose.h"
#include <vector>

namespace gh {
inline namespace GH_ISA_NS {

constexpr long kLargestRadix = 31;

template <class T> class FftPlan {
 public:
  const long n;
  explicit FftPlan(long length) : n(length) {
    long left = n;
    int twos = 0;
    for (; left % 2 == 0; left /= 2) twos++;
    for (int passes = (twos + 3) / 4; passes > 0; passes--) {  // as few as there can be
      const int part = (twos + passes - 1) / passes;
      factors_.push_back(1L << part);
      twos -= part;
    }
    for (long r : {3L, 5L})
      for (; left % r == 0; left /= r) factors_.push_back(r);
    for (long r = 7; r <= kLargestRadix && left > 1; r += 2)
      for (; left % r == 0; left /= r) factors_.push_back(r);
    if (left == 1) {
      for (long i = 0; i < n; i++) cos_.push_back((T)turn(i, n, false)), sin_.push_back((T)turn(i, n, true));
      return;
    }
    long m = 1;
    while (m < 2 * n - 1) m *= 2;
    inner_ = new FftPlan(m);
    // e^(-i pi j^2 / n), and the transform of its conjugate around 0, divided by m.
    std::vector<T> a(m), b(m), c(m), d(m);
    for (long j = 0; j < n; j++) {
      const long square = (long)((__int128)j * j % (2 * n));
      cos_.push_back((T)turn(square, 2 * n, false)), sin_.push_back((T)turn(square, 2 * n, true));
      a[j] = a[(m - j) % m] = cos_[j] / (T)m, b[j] = b[(m - j) % m] = sin_[j] / (T)m;
    }
    inner_->run(a.data(), b.data(), c.data(), d.data(), 1);
    chirp_re_ = a, chirp_im_ = b;
  }
  FftPlan(const FftPlan &) = delete;

  // Elements of each of the four arrays, for one lane.
  long room() const { return inner_ ? inner_->n : n; }

  void run(T *re, T *im, T *re2, T *im2, long lanes) const {
    if (inner_) return bluestein(re, im, re2, im2, lanes);
    T *from[2] = {re, im}, *to[2] = {re2, im2};
    long length = n, stride = lanes;
    for (long r : factors_) {
      const long m = length / r;
      switch (r) {
        case 2: pass<2>(m, length, stride, from, to); break;
        case 3: pass<3>(m, length, stride, from, to); break;
        case 4: pass<4>(m, length, stride, from, to); break;
        case 5: pass<5>(m, length, stride, from, to); break;
        case 8: pass<8>(m, length, stride, from, to); break;
        case 16: pass<16>(m, length, stride, from, to); break;
        default: any(r, m, length, stride, from, to);
      }
      length = m, stride *= r;
      std::swap(from[0], to[0]), std::swap(from[1], to[1]);
    }
    if (from[0] != re) memcpy((void *)re, from[0], (size_t)(n * lanes) * sizeof(T)), memcpy((void *)im, from[1], (size_t)(n * lanes) * sizeof(T));
  }

 private:
  std::vector<long> factors_;
  std::vector<T> cos_, sin_, chirp_re_, chirp_im_;
  FftPlan *inner_ = nullptr;

  template <int R> void pass(long m, long length, long s, T *const *from, T *const *to) const {
    const long every = n / length;
    for (long p = 0; p < m; p++) {
      T wr[R], wi[R];
      for (int k = 0; k < R; k++) wr[k] = cos_[k * p * every], wi[k] = -sin_[k * p * every];  // below n, as k < R and p < m
      long q = 0;
      for (; q + (long)(sizeof(Whole) / sizeof(T)) <= s; q += sizeof(Whole) / sizeof(T)) step<R, Whole>(m, s, p, q, wr, wi, from, to);
      for (; q < s; q++) step<R, T>(m, s, p, q, wr, wi, from, to);
    }
  }
  typedef T Whole __attribute__((vector_size(W * 4)));
  template <int R, class V> GH_INLINE static void step(long m, long s, long p, long q, const T *wr, const T *wi, T *const *from, T *const *to) {
    V r[R], i[R];
    GH_UNROLL for (int j = 0; j < R; j++) {
      __builtin_memcpy(&r[j], from[0] + s * (p + m * j) + q, sizeof(V));
      __builtin_memcpy(&i[j], from[1] + s * (p + m * j) + q, sizeof(V));
    }
    dft<R>(r, i);
    if (p) {
      GH_UNROLL for (int k = 1; k < R; k++) times(r[k], i[k], wr[k] - V{}, wi[k] - V{});
    }
    GH_UNROLL for (int k = 0; k < R; k++) {
      __builtin_memcpy(to[0] + s * (R * p + k) + q, &r[k], sizeof(V));
      __builtin_memcpy(to[1] + s * (R * p + k) + q, &i[k], sizeof(V));
    }
  }

  // A prime radix, as sums.
  void any(long r, long m, long length, long s, T *const *from, T *const *to) const {
    const long every = n / length, d = s * m;
    for (long p = 0; p < m; p++)
      for (long k = 0; k < r; k++) {
        T *GH_RESTRICT yr = to[0] + s * (r * p + k), *GH_RESTRICT yi = to[1] + s * (r * p + k);
        for (long q = 0; q < s; q++) yr[q] = yi[q] = 0;
        for (long j = 0; j < r; j++) {
          const long at = (j * k % r * (n / r) + k * p * every) % n;
          const T wr = cos_[at], wi = -sin_[at];
          const T *GH_RESTRICT xr = from[0] + s * p + d * j, *GH_RESTRICT xi = from[1] + s * p + d * j;
#pragma GCC ivdep
          for (long q = 0; q < s; q++) yr[q] += xr[q] * wr - xi[q] * wi, yi[q] += xr[q] * wi + xi[q] * wr;
        }
      }
  }

  void bluestein(T *re, T *im, T *re2, T *im2, long lanes) const {
    const long m = inner_->n;
    for (long j = 0; j < m; j++)
      for (long l = 0; l < lanes; l++) {
        const long at = j * lanes + l;
        const T a = j < n ? re[at] : T(0), b = j < n ? im[at] : T(0);
        re[at] = j < n ? a * cos_[j] + b * sin_[j] : T(0);
        im[at] = j < n ? b * cos_[j] - a * sin_[j] : T(0);
      }
    inner_->run(re, im, re2, im2, lanes);
    for (long j = 0; j < m; j++)
      for (long l = 0; l < lanes; l++) {
        const long at = j * lanes + l;
        const T a = re[at], b = im[at];
        re[at] = a * chirp_re_[j] - b * chirp_im_[j];
        im[at] = a * chirp_im_[j] + b * chirp_re_[j];
      }
    inner_->run(im, re, im2, re2, lanes);
    for (long j = 0; j < n; j++)
      for (long l = 0; l < lanes; l++) {
        const long at = j * lanes + l;
        const T a = re[at], b = im[at];
        re[at] = a * cos_[j] + b * sin_[j];
        im[at] = b * cos_[j] - a * sin_[j];
      }
  }
};

enum class FftKind { complex, real, half };

// What a transform of n elements needs: real ones of even length go through one of half the length.
template <class T> struct FftLines {
  const long n;
  const FftKind kind;
  const bool inverse, halved;
  const FftPlan<T> plan;
  std::vector<T> cos_, sin_;
  FftLines(long n, FftKind kind, bool inverse)
      : n(n), kind(kind), inverse(inverse), halved(kind != FftKind::complex && n % 2 == 0), plan(halved ? n / 2 : n) {
    for (long i = 0; halved && i <= n / 2; i++) cos_.push_back((T)turn(i, n, false)), sin_.push_back((T)turn(i, n, true));
  }

  // x and out at their lanes' first elements; `step` elements (or pairs) from one to the next. Known lanes make loops single vectors.
  void lines(const T *const *x, T *const *out, long step, long lanes, T *re, T *im, T *re2, T *im2) const {
    if (lanes == W) lines_of<W>(x, out, step, W, re, im, re2, im2);
    else lines_of<0>(x, out, step, lanes, re, im, re2, im2);
  }

 private:
  template <int Lanes>
  void lines_of(const T *const *x, T *const *out, long step, long given, T *re, T *im, T *re2, T *im2) const {
    const long lanes = Lanes ? Lanes : given;
    const long kept = n / 2 + 1, h = n / 2;
    if (kind == FftKind::complex) {
      pairs_in(x, 2 * step, 1, n, lanes, re, im);
    } else if (kind == FftKind::real && halved) {
      pairs_in(x, 2 * step, step, h, lanes, re, im);  // even elements and odd ones
    } else if (kind == FftKind::real) {
      for (long i = 0; i < n; i++)
        for (long l = 0; l < lanes; l++) re[i * lanes + l] = x[l][i * step], im[i * lanes + l] = 0;
    } else if (halved) {
      pairs_in(x, 2 * step, 1, kept, lanes, re2, im2);
      for (long k = 0; k < h; k++) {  // X[k] and the conjugate of X[h - k]; ends are real
        const T *GH_RESTRICT a = re2 + k * lanes, *GH_RESTRICT b = re2 + (h - k) * lanes;
        const T c = cos_[k], s = sin_[k];
        const T *GH_RESTRICT ai = im2 + k * lanes, *GH_RESTRICT bi = im2 + (h - k) * lanes;
        for (long l = 0; l < lanes; l++) {
          const T dr = a[l] - b[l], up = k ? ai[l] : T(0), down = k ? -bi[l] : T(0), di = up - down;
          re[k * lanes + l] = a[l] + b[l] - (dr * s + di * c);
          im[k * lanes + l] = up + down + (dr * c - di * s);
        }
      }
    } else {
      for (long k = 0; k < n; k++)
        for (long l = 0; l < lanes; l++) {
          const long at = k < kept ? k : n - k;
          const T b = at ? x[l][2 * at * step + 1] : T(0);
          re[k * lanes + l] = x[l][2 * at * step], im[k * lanes + l] = k < kept ? b : -b;
        }
    }
    if (inverse) plan.run(im, re, im2, re2, lanes);
    else plan.run(re, im, re2, im2, lanes);
    if (kind == FftKind::complex) {
      pairs_out(out, 2 * step, 1, n, lanes, re, im);
    } else if (kind == FftKind::half && halved) {
      pairs_out(out, 2 * step, step, h, lanes, re, im);
    } else if (kind == FftKind::half) {
      for (long i = 0; i < n; i++)
        for (long l = 0; l < lanes; l++) out[l][i * step] = re[i * lanes + l];
    } else if (halved) {
      for (long k = 0; k <= h; k++) {  // even and odd elements' transforms, from Z[k] and the conjugate of Z[h - k]
        const T *ar = re + k % h * lanes, *ai = im + k % h * lanes, *br = re + (h - k) % h * lanes, *bi = im + (h - k) % h * lanes;
        const T c = cos_[k], s = sin_[k];
        T *GH_RESTRICT yr = re2 + k * lanes, *GH_RESTRICT yi = im2 + k * lanes;
        for (long l = 0; l < lanes; l++) {
          const T er = T(0.5) * (ar[l] + br[l]), ei = T(0.5) * (ai[l] - bi[l]);
          const T dr = T(0.5) * (ai[l] + bi[l]), di = T(-0.5) * (ar[l] - br[l]);
          yr[l] = er + dr * c + di * s;
          yi[l] = k == 0 || k == h ? T(0) : ei + di * c - dr * s;
        }
      }
      pairs_out(out, 2 * step, 1, kept, lanes, re2, im2);
    } else {
      for (long l = 0; l < lanes; l++)
        for (long k = 0; k < kept; k++) out[l][2 * k * step] = re[k * lanes + l], out[l][2 * k * step + 1] = k ? im[k * lanes + l] : T(0);
    }
  }

  // Pairs at x[l][i * step], x[l][i * step + other] of each lane l to rows i of lanes. Where they lie together, W lanes and W floats of
  // each are turned in registers: one by one this took as long as the transform.
  static void pairs_in(const T *const *x, long step, long other, long count, long lanes, T *re, T *im) {
    long i = 0;
    if constexpr (sizeof(T) == 4)
      if (lanes == W && step == 2 && other == 1)
        for (; i + W / 2 <= count; i += W / 2) {
          vi tile[W];
          GH_UNROLL for (int l = 0; l < W; l++) tile[l] = load((const int32_t *)(x[l] + 2 * i));
          transpose_tile(tile);
          GH_UNROLL for (int j = 0; j < W; j++) store((int32_t *)((j % 2 ? im : re) + (i + j / 2) * W), tile[j]);
        }
    if (const long apart = lane_distance(x, lanes)) {
      for (; i < count; i++) {
        const T *GH_RESTRICT a = x[0] + i * step;
        T *GH_RESTRICT yr = re + i * W, *GH_RESTRICT yi = im + i * W;
        if (apart == 2 && other == 1) {
          for (long l = 0; l < W; l++) yr[l] = a[2 * l], yi[l] = a[2 * l + 1];
        } else {
          for (long l = 0; l < W; l++) yr[l] = a[l * apart], yi[l] = a[l * apart + other];
        }
      }
      return;
    }
    for (; i < count; i++)
      for (long l = 0; l < lanes; l++) re[i * lanes + l] = x[l][i * step], im[i * lanes + l] = x[l][i * step + other];
  }
  static void pairs_out(T *const *out, long step, long other, long count, long lanes, const T *re, const T *im) {
    long i = 0;
    if constexpr (sizeof(T) == 4)
      if (lanes == W && step == 2 && other == 1)
        for (; i + W / 2 <= count; i += W / 2) {
          vi tile[W];
          GH_UNROLL for (int j = 0; j < W; j++) tile[j] = load((const int32_t *)((j % 2 ? im : re) + (i + j / 2) * W));
          transpose_tile(tile);
          GH_UNROLL for (int l = 0; l < W; l++) store((int32_t *)(out[l] + 2 * i), tile[l]);
        }
    if (const long apart = lane_distance(out, lanes)) {
      for (; i < count; i++) {
        T *GH_RESTRICT a = out[0] + i * step;
        const T *GH_RESTRICT yr = re + i * W, *GH_RESTRICT yi = im + i * W;
        if (apart == 2 && other == 1) {
          for (long l = 0; l < W; l++) a[2 * l] = yr[l], a[2 * l + 1] = yi[l];
        } else {
          for (long l = 0; l < W; l++) a[l * apart] = yr[l], a[l * apart + other] = yi[l];
        }
      }
      return;
    }
    for (; i < count; i++)
      for (long l = 0; l < lanes; l++) out[l][i * step] = re[i * lanes + l], out[l][i * step + other] = im[i * lanes + l];
  }

  // Elements from each of W lanes to the next where that is 1 or 2 for all: lines along an inner axis, whose rows are read whole.
  // 0: they lie elsewhere.
  template <class P> static long lane_distance(const P *x, long lanes) {
    if (lanes != W) return 0;
    const long apart = x[1] - x[0];
    if (apart != 1 && apart != 2) return 0;
    for (long l = 2; l < W; l++)
      if (x[l] - x[0] != l * apart) return 0;
    return apart;
  }
};

// x [outer, n, inner] to out, with pairs, and n / 2 + 1 of them, where the kind has them.
template <class T>
inline void fft_lines(Context &ctx, const FftLines<T> &f, long outer, long inner, const T *x, T *out) {
  const long n = f.n, kept = n / 2 + 1, total = outer * inner;
  const long in_line = f.kind == FftKind::complex ? 2 * n : f.kind == FftKind::real ? n : 2 * kept;
  const long out_line = f.kind == FftKind::complex ? 2 * n : f.kind == FftKind::real ? 2 * kept : n;
  const long in_pair = f.kind == FftKind::real ? 1 : 2, out_pair = f.kind == FftKind::half ? 1 : 2;
  const long many = total < W ? (total > 0 ? total : 1) : W, blocks = (total + many - 1) / many, room = (f.plan.room() + 1) * many;
  ctx.parallel(blocks, total * n >= 4096, [&](int64_t begin, int64_t end) {
    T *re = (T *)scratch<9>((size_t)(4 * room + 64) * sizeof(T));
    for (int64_t i = begin; i < end; i++) {
      const long first = i * many, lanes = total - first < many ? total - first : many;
      const T *from[W];
      T *to[W];
      for (long l = 0; l < lanes; l++) {
        const long o = (first + l) / inner, j = (first + l) % inner;
        from[l] = x + o * in_line * inner + j * in_pair, to[l] = out + o * out_line * inner + j * out_pair;
      }
      f.lines(from, to, inner, lanes, re, re + room, re + 2 * room, re + 3 * room);
    }
  });
}

}  // namespace GH_ISA_NS
}  // namespace gh
