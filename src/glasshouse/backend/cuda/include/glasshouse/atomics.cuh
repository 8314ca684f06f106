// atomics.cuh: scatters by atomics on whole numbers, which every order of writers leaves the same.
//
// Contract
// - Writers stand in lines of n: `Which` (`RowsToPlaces`, `ElementsAlong`) says where a line begins and which place writer i of it names, -1 for one outside,
//   which is reported. A thread takes RUN writers of a line one behind the other, and those of them that come to one place together.
// - `set`: the largest number of a writer that names a place owns it (`claim`), and writes (`put_owned`). owners: words, 0 before.
// - `max`, `min`: elements as whole numbers in the same order (`level_of`), NaN above all. levels are those of x before (`levels_of`).
// - `add`: sums of fixed point in 64 bits. Of float16 a unit is 2^-24: sums are exact. Of other floats it is 2^-(61 - LOG) of the power of two at or below the
//   largest that comes to a place (`note_tops`), with LOG >= log2(n), so that no sum runs over: at most n / 2 units from the exact one. Where something
//   comes that is not finite, the word holds which (`Odd`) instead. Whole numbers are added as they are, modulo 2^32 or 2^64. sums, tops: 0 before.
#pragma once
#include "places.cuh"

namespace gh {

template <int DEPTH, class I> struct RowsToPlaces {
  const I *indices;
  Tuples<DEPTH> tuples;
  int64_t n, inner, places;
  GH_FN LineAlong line(int64_t number) const {
    const int64_t outer = number / inner, column = number % inner;
    return {outer * n * inner + column, inner, outer * places * inner + column, inner};
  }
  GH_FN int64_t place(const Context &ctx, const LineAlong &, int64_t i) const { return tuples.at(ctx, indices, i, true); }
};
template <int AXIS, int RANK, class I> struct ElementsAlong {
  const I *indices;
  Along<RANK> s;
  int64_t n, inner;
  GH_FN LineAlong line(int64_t number) const { return line_along<AXIS>(s, number); }
  GH_FN int64_t place(const Context &ctx, const LineAlong &l, int64_t i) const {
    int64_t to = indices[l.at + i * l.apart];
    if (to < 0) to += s.sizes[AXIS];
    const bool inside = to >= 0 && to < s.sizes[AXIS];
    if (!inside) ctx.report(1);
    return inside ? to : -1;
  }
};

// Thread e of [lines before, runs of writers, inner]: `come(to, from, i)` for those of its writers that name a place, elements of x and of the updates.
template <int RUN, class Which, class Come> GH_FN void each_writer(const Context &ctx, int64_t e, const Which &which, Come come) {
  const int64_t runs = (which.n + RUN - 1) / RUN, rest = e / which.inner;
  const LineAlong l = which.line(rest / runs * which.inner + e % which.inner);
  const int64_t first = rest % runs * RUN;
  int64_t place[RUN];
#pragma unroll
  for (int u = 0; u < RUN; ++u) place[u] = first + u < which.n ? which.place(ctx, l, first + u) : -1;
#pragma unroll
  for (int u = 0; u < RUN; ++u)
    if (place[u] >= 0) come(l.to + place[u] * l.step, l.at + (first + u) * l.apart, first + u);
}
GH_FN void clear_words(uint32_t *words, int64_t count) {
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (int64_t)gridDim.x * blockDim.x) words[i] = 0;
}

// ---------------------------------------------------------------------------------------------------------------------------------- set
template <int RUN, class Which> GH_FN void claim(const Context &ctx, int64_t e, const Which &which, uint32_t *owners) {
  each_writer<RUN>(ctx, e, which, [&](int64_t to, int64_t, int64_t i) { atomicMax(owners + to, (uint32_t)i + 1); });
}
// `owner(to)` is where that of an element of x stands.
template <int RUN, class Which, class T, class Owner>
GH_FN void put_owned(const Context &ctx, int64_t e, const Which &which, const T *updates, Owner owner, T *out) {
  each_writer<RUN>(ctx, e, which, [&](int64_t to, int64_t from, int64_t i) {
    if (*owner(to) == (uint32_t)i + 1) out[to] = updates[from];
  });
}

// ----------------------------------------------------------------------------------------------------------------------------- max, min
template <class T> using Level = Key<Wide<T>>;
template <Meeting HOW, class T> GH_FN Level<T> level_of(T x) {
  typedef Level<T> K;
  constexpr K TOP = K(1) << (8 * sizeof(K) - 1);
  const auto v = to_scalar(x);
  K level;
  if constexpr (is_int<T>::value) {
    level = T(-1) < T(0) ? K(v) ^ TOP : K(v);
  } else {
    if (v != v) return ~K(0);
    level = K(bits_in(v)) & TOP ? ~K(bits_in(v)) : K(bits_in(v)) | TOP;
  }
  return HOW == Meeting::min ? ~level : level;
}
template <Meeting HOW, class T> GH_FN T at_level(Level<T> level) {
  typedef Level<T> K;
  constexpr K TOP = K(1) << (8 * sizeof(K) - 1);
  if constexpr (is_int<T>::value) {
    const K own = HOW == Meeting::min ? ~level : level;
    return T(T(-1) < T(0) ? own ^ TOP : own);
  } else {
    if (level == ~K(0)) return from_scalar<T>(Wide<T>(__builtin_nanf("")));
    const K own = HOW == Meeting::min ? ~level : level, bits = own & TOP ? own ^ TOP : ~own;
    if constexpr (sizeof(K) == 8) return from_scalar<T>(real_of(bits));
    else return from_scalar<T>(float_of((int)bits));
  }
}
template <Meeting HOW, class T> GH_FN void levels_of(int64_t e, const T *x, Level<T> *levels) { levels[e] = level_of<HOW>(x ? x[e] : T{}); }
template <Meeting HOW, int RUN, class Which, class T>
GH_FN void raise_levels(const Context &ctx, int64_t e, const Which &which, const T *updates, Level<T> *levels) {
  each_writer<RUN>(ctx, e, which, [&](int64_t to, int64_t from, int64_t) { atomicMax(levels + to, level_of<HOW>(updates[from])); });
}

template <Meeting HOW, class T> GH_FN void end_levels(int64_t e, const Level<T> *levels, T *out) { out[e] = at_level<HOW, T>(levels[e]); }

// ---------------------------------------------------------------------------------------------------------------------------------- add
enum Odd : uint64_t { INF = 1, MINUS_INF = 2, NOT_A_NUMBER = 4 };
constexpr uint32_t FIRST_ODD = 0x7f800000;  // of floats without their sign: infinity, then NaN
GH_FN uint32_t without_sign(float x) { return (uint32_t)bits_in(x) & 0x7fffffff; }
GH_FN uint64_t odd_bit(float x) { return x != x ? NOT_A_NUMBER : x > 0 ? INF : MINUS_INF; }
GH_FN double power_of_two(int exponent) { return real_of((uint64_t)(1023 + exponent) << 52); }

// What comes to one element, of which nothing is known but the largest, as bits of a float without its sign.
template <class T, int LOG> struct Fixed {
  static constexpr bool noted = !same<T, f16>::value;  // tops are bits of the largest; of float16 they are those of `Odd`
  GH_FN static int units(uint32_t top) {  // of 1: the power of two
    const int exponent = (int)(top >> 23);
    return noted ? 61 - LOG + 127 - (exponent ? exponent : 1) : 24;
  }
  GH_FN static uint64_t of(float x, uint32_t top) { return (uint64_t)whole_of((double)x * power_of_two(units(top))); }
  GH_FN static double value(uint64_t sum, uint32_t top) { return (double)(int64_t)sum * power_of_two(-units(top)); }
};
// Sums of neighbours that come to one element, before they go there.
template <class Sum> struct Together {
  Sum *sums;
  int64_t to;
  Sum held;
  GH_FN void add(int64_t next, Sum x) {
    if (next != to) flush(), to = next, held = 0;
    held += x;
  }
  GH_FN void flush() { if (to >= 0) atomicAdd(sums + to, held); }
};
template <int RUN, class Which, class T> GH_FN void note_tops(const Context &ctx, int64_t e, const Which &which, const T *updates, uint32_t *tops) {
  each_writer<RUN>(ctx, e, which, [&](int64_t to, int64_t from, int64_t) { atomicMax(tops + to, without_sign(to_scalar(updates[from]))); });
}
template <int LOG, int RUN, class Which, class T>
GH_FN void add_fixed(const Context &ctx, int64_t e, const Which &which, const T *updates, uint64_t *sums, uint32_t *tops) {
  typedef Fixed<T, LOG> F;
  Together<uint64_t> together = {sums, -1, 0};
  each_writer<RUN>(ctx, e, which, [&](int64_t to, int64_t from, int64_t) {
    const float x = to_scalar(updates[from]);
    const uint32_t top = F::noted ? tops[to] : 0;
    const bool odd = without_sign(x) >= FIRST_ODD;
    if constexpr (F::noted) {
      if (odd) atomicOr(sums + to, odd_bit(x));
      if (top < FIRST_ODD) together.add(to, F::of(x, top));
    } else {
      if (odd) atomicOr(tops + to, (uint32_t)odd_bit(x));
      else together.add(to, F::of(x, 0));
    }
  });
  together.flush();
}
template <int LOG, class T> GH_FN void end_fixed(int64_t e, const T *x, const uint64_t *sums, const uint32_t *tops, T *out) {
  typedef Fixed<T, LOG> F;
  const uint32_t top = tops[e];
  const uint64_t odd = !F::noted ? top : top >= FIRST_ODD ? sums[e] : 0;
  double sum = odd ? 0.0 : F::value(sums[e], top);
  if (odd & INF) sum = __builtin_inf();
  if (odd & MINUS_INF) sum = -__builtin_inf();
  if (odd >= 3) sum = __builtin_nan("");
  const double first = x ? (double)to_scalar(x[e]) : 0.0;
  out[e] = from_scalar<T>(Wide<T>(sum == 0.0 ? first : first + sum));  // -0 stays where nobody comes
}
template <int RUN, class Sum, class Which, class T> GH_FN void add_whole(const Context &ctx, int64_t e, const Which &which, const T *updates, Sum *sums) {
  Together<Sum> together = {sums, -1, 0};
  each_writer<RUN>(ctx, e, which, [&](int64_t to, int64_t from, int64_t) { together.add(to, (Sum)updates[from]); });
  together.flush();
}
template <class Sum, class T> GH_FN void end_whole(int64_t e, const T *x, const Sum *sums, T *out) { out[e] = (T)((x ? (Sum)x[e] : 0) + sums[e]); }

}  // namespace gh
