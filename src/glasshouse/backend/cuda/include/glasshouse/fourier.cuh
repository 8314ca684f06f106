// fourier.cuh: Fourier transforms of lines, each in the shared memory of one block.
//
// Contract
// - `Transform<T, N, SIGNAL, INVERSE, LINES, BESIDE, PAD, THREADS, RADICES...>::run(x, lines, inner, out, ctx, turns)`: lines of [outer, N, inner], none scaled. A block takes
//   LINES neighbouring lines at a time, `turns` times. Complex numbers are pairs; `real` gives the first N / 2 + 1 of them, `half` takes as many.
// - An even number of real elements is a transform of half as many pairs, taken apart behind it (`real`) or put together before it (`half`).
// - RADICES multiply to the length of what is transformed. A pass of radix R takes R elements that are 1 / R of a line apart and leaves
//   them in order (Stockham): the first pass reads global memory, the last one writes it, both as it lies; elements wait in shared memory between.
// - BESIDE: neighbours across lines lie together, in memory and here; otherwise those of a line do, with a gap after each 128 bytes if PAD.
// - The table of turns e^(-2 pi i m / N) is computed in double by each block, while earlier kernels still run.
#pragma once
#include "launch.cuh"

namespace gh {

enum class Signal { complex, real, half };

template <class T> using Pair = Vec<T, 2>;
template <class T> GH_FN Pair<T> pair(T re, T im) { Pair<T> p; p[0] = re, p[1] = im; return p; }
template <class T> GH_FN Pair<T> operator+(const Pair<T> &a, const Pair<T> &b) { return pair(a[0] + b[0], a[1] + b[1]); }
template <class T> GH_FN Pair<T> operator-(const Pair<T> &a, const Pair<T> &b) { return pair(a[0] - b[0], a[1] - b[1]); }
template <class T> GH_FN Pair<T> operator*(const Pair<T> &a, const Pair<T> &b) {
  return pair(a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]);
}
template <class T> GH_FN Pair<T> quarter_back(const Pair<T> &a) { return pair(a[1], -a[0]); }  // times -i
template <class T> GH_FN Pair<T> exchanged(const Pair<T> &a) { return pair(a[1], a[0]); }

// e^(-2 pi i m / N) for 0 <= m < N: of an even N only half a turn is stored.
template <class T, int N> struct Roots {
  static constexpr int STORED = N % 2 ? N : N / 2;
  const Pair<T> *table;
  GH_FN Pair<T> operator()(int m) const {
    if constexpr (N % 2) return table[m];
    const bool back = m >= STORED;
    const Pair<T> w = table[back ? m - STORED : m];
    return back ? pair(-w[0], -w[1]) : w;
  }
  GH_FN static void make(Pair<T> *table, int thread, int threads) {
    for (int m = thread; m < STORED; m += threads) {
      double s, c;
      sincospi(2.0 * m / N, &s, &c);
      table[m] = pair(T(c), T(-s));
    }
  }
};

template <class T> GH_FN void butterfly2(Pair<T> &a, Pair<T> &b) { const Pair<T> d = a - b; a = a + b, b = d; }
template <class T> GH_FN void butterfly4(Pair<T> &a, Pair<T> &b, Pair<T> &c, Pair<T> &d) {
  butterfly2(a, c), butterfly2(b, d);
  const Pair<T> turned = quarter_back(d), odd = c;
  butterfly2(a, b);
  const Pair<T> half = b;
  b = odd + turned, c = half, d = odd - turned;
}
// The transform of R elements. An odd R goes by sums and differences of elements that mirror each other.
template <int R, class T, class W> GH_FN void butterfly(Pair<T> (&v)[R], const W &turns, int turn) {
  if constexpr (R == 2) {
    butterfly2(v[0], v[1]);
  } else if constexpr (R == 4) {
    butterfly4(v[0], v[1], v[2], v[3]);
  } else if constexpr (R == 8) {
    butterfly4(v[0], v[2], v[4], v[6]);
    butterfly4(v[1], v[3], v[5], v[7]);
    const T root = T(0.70710678118654752440);
    const Pair<T> o1 = pair(root * (v[3][0] + v[3][1]), root * (v[3][1] - v[3][0]));
    const Pair<T> o2 = quarter_back(v[5]), o3 = pair(root * (v[7][1] - v[7][0]), -root * (v[7][0] + v[7][1]));
    const Pair<T> e0 = v[0], e1 = v[2], e2 = v[4], e3 = v[6], o0 = v[1];
    v[0] = e0 + o0, v[4] = e0 - o0, v[1] = e1 + o1, v[5] = e1 - o1;
    v[2] = e2 + o2, v[6] = e2 - o2, v[3] = e3 + o3, v[7] = e3 - o3;
  } else if constexpr (R > 1) {
    static_assert(R % 2 == 1, "2, 4, 8 or an odd number");
    const Pair<T> first = v[0];
#pragma unroll
    for (int j = 1; j <= R / 2; ++j) {
      const Pair<T> a = v[j] + v[R - j];
      v[R - j] = v[j] - v[R - j], v[j] = a, v[0] = v[0] + a;
    }
    Pair<T> out[R];
#pragma unroll
    for (int k = 1; k <= R / 2; ++k) {
      Pair<T> same = first, other = pair(T(0), T(0));
#pragma unroll
      for (int j = 1; j <= R / 2; ++j) {
        const Pair<T> w = turns(j * k % R * turn);
        same = pair(same[0] + w[0] * v[j][0], same[1] + w[0] * v[j][1]);
        other = pair(other[0] - w[1] * v[R - j][1], other[1] + w[1] * v[R - j][0]);
      }
      out[k] = same + other, out[R - k] = same - other;
    }
#pragma unroll
    for (int k = 1; k < R; ++k) v[k] = out[k];
  }
}

template <class T, int N, Signal SIGNAL, bool INVERSE, int LINES, bool BESIDE, bool PAD, int THREADS, int... RADICES> struct Transform {
  typedef Pair<T> P;
  static constexpr bool HALVED = SIGNAL != Signal::complex && N % 2 == 0;
  static constexpr int M = HALVED ? N / 2 : N, KEPT = N / 2 + 1;
  static constexpr int GAP = 128 / (int)sizeof(P), LINE = PAD ? M + M / GAP : M;
  static_assert((RADICES * ... * 1) == M, "radices multiply to the length");
  const P *x;  // of `real` signals single elements
  T *out;
  int64_t first, lines, inner;
  Roots<T, N> turns;
  P *room;

  GH_FN static int place(int line, int i) { return BESIDE ? i * LINES + line : line * LINE + (PAD ? i + i / GAP : i); }
  GH_FN static void locate(int b, int length, int &line, int &i) {
    if constexpr (BESIDE) line = b % LINES, i = b / LINES;
    else line = b / length, i = b % length;
  }
  // Where element i of a line lies, of lines of `length`.
  GH_FN int64_t at(int line, int i, int length) const {
    const int64_t number = first + line;
    return inner == 1 ? number * length + i : (number / inner * length + i) * inner + number % inner;
  }

  GH_FN P taken(int line, int i) const {
    if (first + line >= lines) return pair(T(0), T(0));
    if constexpr (SIGNAL == Signal::complex) return x[at(line, i, N)];
    const T *single = (const T *)x;
    if constexpr (SIGNAL == Signal::real) {
      if constexpr (!HALVED) return pair(single[at(line, i, N)], T(0));
      if (inner == 1) return x[at(line, i, M)];
      return pair(single[at(line, 2 * i, N)], single[at(line, 2 * i + 1, N)]);
    }
    if constexpr (SIGNAL == Signal::half && HALVED) {
      P a = x[at(line, i, KEPT)], b = x[at(line, M - i, KEPT)];
      if (i == 0) a[1] = b[1] = T(0);  // what is imaginary at the ends is ignored
      const P sum = pair(a[0] + b[0], a[1] - b[1]), apart = pair(a[0] - b[0], a[1] + b[1]), w = turns(i);
      return pair(sum[0] + apart[0] * w[1] - apart[1] * w[0], sum[1] + apart[0] * w[0] + apart[1] * w[1]);
    }
    P a = x[at(line, i < KEPT ? i : N - i, KEPT)];
    return pair(a[0], i == 0 ? T(0) : i < KEPT ? a[1] : -a[1]);
  }
  GH_FN void put(int line, int i, P v) const {
    if (first + line >= lines) return;
    if constexpr (SIGNAL == Signal::complex) {
      ((P *)out)[at(line, i, N)] = v;
    } else if constexpr (SIGNAL == Signal::half && HALVED) {
      if (inner == 1) ((P *)out)[at(line, i, M)] = v;
      else out[at(line, 2 * i, N)] = v[0], out[at(line, 2 * i + 1, N)] = v[1];
    } else if constexpr (SIGNAL == Signal::half) {
      out[at(line, i, N)] = v[0];
    } else if (i < KEPT) {
      ((P *)out)[at(line, i, KEPT)] = pair(v[0], i ? v[1] : T(0));
    }
  }
  // The transforms of even and odd elements, from Z[k] and the conjugate of Z[M - k], and of all of them.
  GH_FN void put_apart() const {
    for (int b = threadIdx.x; b < LINES * KEPT; b += THREADS) {
      int line, k;
      locate(b, KEPT, line, k);
      if (first + line >= lines) continue;
      const P a = room[place(line, k % M)], c = room[place(line, (M - k) % M)], w = k == M ? pair(T(-1), T(0)) : turns(k);
      const P even = pair(T(0.5) * (a[0] + c[0]), T(0.5) * (a[1] - c[1])), odd = pair(T(0.5) * (a[1] + c[1]), T(0.5) * (c[0] - a[0]));
      const P sum = even + odd * w;
      ((P *)out)[at(line, k, KEPT)] = pair(sum[0], k == 0 || k == M ? T(0) : sum[1]);
    }
  }

  // Passes before are DONE elements together.
  template <int DONE, int R, int... REST> GH_FN void passes() const {
    constexpr int EACH = M / R, ALL = LINES * EACH, PER = (ALL + THREADS - 1) / THREADS;
    constexpr bool LAST = sizeof...(REST) == 0, APART = SIGNAL == Signal::real && HALVED;
    P v[PER][R];
#pragma unroll
    for (int u = 0; u < PER; ++u) {
      const int b = threadIdx.x + u * THREADS;
      if (ALL % THREADS && b >= ALL) break;
      int line, j;
      locate(b, EACH, line, j);
#pragma unroll
      for (int k = 0; k < R; ++k) {
        if constexpr (DONE > 1) v[u][k] = room[place(line, j + k * EACH)];
        else if constexpr (INVERSE) v[u][k] = exchanged(taken(line, j + k * EACH));
        else v[u][k] = taken(line, j + k * EACH);
      }
    }
    if constexpr (!LAST || APART) __syncthreads();  // all have read what stands there
#pragma unroll
    for (int u = 0; u < PER; ++u) {
      const int b = threadIdx.x + u * THREADS;
      if (ALL % THREADS && b >= ALL) break;
      int line, j;
      locate(b, EACH, line, j);
      const int within = j % DONE, from = j / DONE * DONE * R + within;
      if constexpr (DONE > 1) {
#pragma unroll
        for (int k = 1; k < R; ++k) v[u][k] = v[u][k] * turns(within * k * (N / (DONE * R)));
      }
      butterfly<R>(v[u], turns, N / R);
#pragma unroll
      for (int k = 0; k < R; ++k) {
        if constexpr (!LAST || APART) room[place(line, from + k * DONE)] = v[u][k];
        else put(line, from + k * DONE, INVERSE ? exchanged(v[u][k]) : v[u][k]);
      }
    }
    if constexpr (!LAST || APART) __syncthreads();
    if constexpr (!LAST) passes<DONE * R, REST...>();
    else if constexpr (APART) put_apart();
  }

  GH_FN static void run(const T *x, int64_t lines, int64_t inner, T *out, const Context &ctx, int rounds) {
    GH_SHARED_ROOM(shared);
    P *table = (P *)shared;
    Roots<T, N>::make(table, threadIdx.x, THREADS);
    wait_for_earlier(ctx);
    __syncthreads();
    for (int round = 0; round < rounds; ++round) {
      const int64_t first = ((int64_t)blockIdx.x * rounds + round) * LINES;
      if (first >= lines) return;
      const Transform t{(const P *)x, out, first, lines, inner, {table}, table + Roots<T, N>::STORED};
      t.template passes<1, RADICES...>();
    }
  }
};

}  // namespace gh
