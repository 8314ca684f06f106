// places.cuh: ops that write to places which data names.
//
// Contract
// - A result asks who comes to it, instead of a writer going there: no two threads write one element, and what meets at a place is taken
//   in order, so results are the same from run to run. Where writers are few, each place is compared with each of them; where they are many, they are
//   put in order by place first (`order.cuh`), and the first that comes to a place takes all that follow (`ordered`).
// - An index outside is reported and nobody comes for it; negative ones count from the end.
// - Sums are held in Acc. `set` keeps the last that comes; max and min take NaN for both, as NumPy.
#pragma once
#include "order.cuh"
#include "reduce.cuh"

namespace gh {

#ifdef GH_EMULATE
inline unsigned ballot(bool x) {
  unsigned bits = (unsigned)x << gh_emu::lane();
  for (int mask = 16; mask; mask >>= 1) bits |= gh_emu::shuffle_xor(bits, mask);
  return bits;
}
inline int lowest_bit(unsigned x) { return __builtin_ctz(x); }
#else
GH_FN unsigned ballot(bool x) { return __ballot_sync(0xffffffffu, x); }
GH_FN int lowest_bit(unsigned x) { return __ffs(x) - 1; }
#endif

enum class Meeting { set, add, mul, max, min };
template <Meeting HOW, class A> GH_FN A met(A now, A next) {
  if constexpr (HOW == Meeting::set) return next;
  else if constexpr (HOW == Meeting::add) return now + next;
  else if constexpr (HOW == Meeting::mul) return now * next;
  else if constexpr (HOW == Meeting::max) return gh::max(now, next);
  else return gh::min(now, next);
}

// A tuple of DEPTH indices as a place in row-major `sizes`; -1 for one outside, which `tell` reports.
template <int DEPTH> struct Tuples {
  int64_t sizes[DEPTH ? DEPTH : 1];
  template <class I> GH_FN int64_t at(const Context &ctx, const I *indices, int64_t i, bool tell) const {
    int64_t place = 0;
    bool inside = true;
#pragma unroll
    for (int d = 0; d < DEPTH; ++d) {
      int64_t x = indices[i * DEPTH + d];
      if (x < 0) x += sizes[d];
      inside = inside && x >= 0 && x < sizes[d];
      place = place * sizes[d] + x;
    }
    if (!inside && tell) ctx.report(1);
    return inside ? place : -1;
  }
};

// Rows that come to places: x [outer, places, inner] (null: zeros), indices [count], rows [outer, count, inner]. A warp takes one place and
// 32 * PER columns; the eight of a block look at 2048 indices at a time together, for those that name any of their places. gridDim: blocks of
// eight warps for all places (at least one), columns.
template <Meeting HOW, int PER, class Acc, int DEPTH, class T, class I>
GH_FN void meet_rows(const Context &ctx, const T *x, const I *indices, const T *rows, Tuples<DEPTH> tuples, int64_t outer, int64_t places,
                     int64_t count, int64_t inner, T *out) {
  constexpr int WARPS = 8, EACH = 8, THREADS = WARPS * 32, CHUNK = THREADS * EACH;
  __shared__ unsigned named[CHUNK / 32];  // a bit for each index that names one of the places
  __shared__ uint8_t whose[CHUNK];        // and which, counted from the first
  const int lane = threadIdx.x % 32, own = threadIdx.x / 32;
  const int64_t begin = (int64_t)blockIdx.x * WARPS, warp = begin + own, column = (int64_t)blockIdx.y * 32 * PER + lane;
  const bool tell = blockIdx.x == 0 && blockIdx.y == 0, here = warp < outer * places;
  const int64_t base = places ? begin % places : 0, first = here ? warp / places * count : 0;
  const int mine = places < WARPS && places ? own % (int)places : own;
  Acc held[PER];
#pragma unroll
  for (int p = 0; p < PER; ++p) {
    const int64_t c = column + p * 32;
    held[p] = x && here && c < inner ? Acc(to_scalar(x[warp * inner + c])) : Acc(0);
  }
  for (int64_t i0 = 0; i0 < count; i0 += CHUNK) {
    __syncthreads();  // all have read the last ones
#pragma unroll
    for (int u = 0; u < EACH; ++u) {
      const int at = u * THREADS + threadIdx.x;
      const int64_t place = i0 + at < count ? tuples.at(ctx, indices, i0 + at, tell) : -1;
      const int64_t from = place < base ? place - base + places : place - base;
      const bool comes = place >= 0 && from < WARPS;
      const unsigned bits = ballot(comes);
      if (comes) whose[at] = (uint8_t)from;
      if (lane == 0) named[at / 32] = bits;
    }
    __syncthreads();
    for (int word = 0; here && word < CHUNK / 32; ++word)
      for (unsigned bits = named[word]; bits; bits &= bits - 1) {
        const int at = word * 32 + lowest_bit(bits);
        if (whose[at] != mine) continue;
        const T *row = rows + (first + i0 + at) * inner;
#pragma unroll
        for (int p = 0; p < PER; ++p)
          if (column + p * 32 < inner) held[p] = met<HOW>(held[p], Acc(to_scalar(row[column + p * 32])));
      }
  }
#pragma unroll
  for (int p = 0; p < PER; ++p)
    if (here && column + p * 32 < inner) out[warp * inner + column + p * 32] = from_scalar<T>(Wide<T>(held[p]));
}

// The same where there are more places than indices, in two kernels: what nobody comes to is filled, and a warp for each index takes the place
// that it names, if it is the first to name it. gridDim of the second: warps of eight for all indices of all outer ones, columns.
template <class T> GH_FN void fill_places(const T *x, int64_t count, T *out) {
  constexpr int V = 16 / sizeof(T);
  const int64_t e = ((int64_t)blockIdx.x * 256 + threadIdx.x) * V;
  if (e + V <= count) {
    store_vec(out + e, x ? load_vec<V>(x + e) : Vec<T, V>{});
  } else {
    for (int64_t i = e; i < count; ++i) out[i] = x ? x[i] : T{};
  }
}
template <Meeting HOW, int PER, class Acc, int DEPTH, class T, class I>
GH_FN void meet_named_rows(const Context &ctx, const T *x, const I *indices, const T *rows, Tuples<DEPTH> tuples, int64_t outer,
                           int64_t places, int64_t count, int64_t inner, T *out) {
  const int64_t warp = (int64_t)blockIdx.x * 8 + threadIdx.x / 32, column = (int64_t)blockIdx.y * 32 * PER + threadIdx.x % 32;
  if (warp >= outer * count) return;
  const int lane = threadIdx.x % 32;
  const int64_t own = warp % count, first = warp - own;
  const int64_t place = tuples.at(ctx, indices, own, first == 0 && blockIdx.y == 0), at = (warp / count * places + place) * inner;
  if (place < 0) return;
  Acc held[PER];
#pragma unroll
  for (int p = 0; p < PER; ++p) held[p] = x && column + p * 32 < inner ? Acc(to_scalar(x[at + column + p * 32])) : Acc(0);
  for (int64_t i0 = 0; i0 < count; i0 += 128) {
    unsigned found[4];
#pragma unroll
    for (int u = 0; u < 4; ++u) {
      const int64_t i = i0 + u * 32 + lane;
      found[u] = ballot(i < count && tuples.at(ctx, indices, i, false) == place);
    }
#pragma unroll
    for (int u = 0; u < 4; ++u)
      for (; found[u]; found[u] &= found[u] - 1) {
        const int64_t i = i0 + u * 32 + lowest_bit(found[u]);
        if (i < own) return;  // which takes all of them
        const T *row = rows + (first + i) * inner;
#pragma unroll
        for (int p = 0; p < PER; ++p)
          if (column + p * 32 < inner) held[p] = met<HOW>(held[p], Acc(to_scalar(row[column + p * 32])));
      }
  }
#pragma unroll
  for (int p = 0; p < PER; ++p)
    if (column + p * 32 < inner) out[at + column + p * 32] = from_scalar<T>(Wide<T>(held[p]));
}

// The same by writers in order of their places. x is copied to out before (`fill_places`). gridDim: warps of eight for all indices of all outer
// ones, columns.
template <int DEPTH, class I> struct NamedPlaces {
  const Context &ctx;
  const I *indices;
  Tuples<DEPTH> tuples;
  GH_FN Item<uint32_t> operator()(int64_t, int64_t i) const { return {(uint32_t)tuples.at(ctx, indices, i, true), (uint32_t)i}; }
};
constexpr uint32_t NOWHERE = ~0u;  // the key of an index outside
GH_FN bool comes_first(const Items<uint32_t> &items, int64_t line, int64_t i) {
  const uint32_t place = items(line, i).key;
  return place != NOWHERE && (i == 0 || items(line, i - 1).key != place);
}
// Of many that come to one place, those between two multiples of PIECE are met on their own first, and what became of each piece is met in order.
constexpr int PIECE = 64;
GH_FN int64_t piece_end(int64_t i, int64_t n) { return (i / PIECE + 1) * PIECE < n ? (i / PIECE + 1) * PIECE : n; }
GH_FN bool goes_on(const Items<uint32_t> &items, int64_t line, int64_t i, uint32_t place) { return i < items.n && items(line, i).key == place; }
// Those from i on, to the end of the piece, that come to a place; `get` loads PER numbers of one of them. AHEAD are loaded before the first is used.
template <Meeting HOW, int AHEAD, int PER, class Acc, class Get>
GH_FN void meet_piece(const Items<uint32_t> &items, int64_t line, int64_t i, uint32_t place, Get get, Acc (&held)[PER]) {
  const int64_t end = piece_end(i, items.n);
  int64_t from[AHEAD];
  do {
#pragma unroll
    for (int u = 0; u < AHEAD; ++u) {
      const Item<uint32_t> item = i + u < end ? items(line, i + u) : Item<uint32_t>::past_end();
      from[u] = item.key == place ? (int64_t)item.at : -1;
    }
    i += AHEAD;
#pragma unroll
    for (int p = 0; p < PER; ++p) {
      Acc next[AHEAD];
#pragma unroll
      for (int u = 0; u < AHEAD; ++u) next[u] = from[u] >= 0 ? get(from[u], p) : Acc(0);
#pragma unroll
      for (int u = 0; u < AHEAD; ++u)
        if (from[u] >= 0) held[p] = met<HOW>(held[p], next[u]);
    }
  } while (i < end && from[AHEAD - 1] >= 0);
}
// A piece that goes on with the place of the one before it: what becomes of it.
template <Meeting HOW, int AHEAD, int PER, class Acc, class Get>
GH_FN bool meet_later_piece(const Items<uint32_t> &items, int64_t line, int64_t piece, Get get, Acc (&held)[PER]) {
  const int64_t i = piece * PIECE;
  if (i == 0 || i >= items.n) return false;
  const Item<uint32_t> item = items(line, i);
  if (item.key == NOWHERE || items(line, i - 1).key != item.key) return false;
#pragma unroll
  for (int p = 0; p < PER; ++p) held[p] = get(item.at, p);
  if (i + 1 < piece_end(i, items.n)) meet_piece<HOW, AHEAD>(items, line, i + 1, item.key, get, held);
  return true;
}
// All that come to the place of `begin`, which comes first: its own piece, and what became of those that go on.
template <Meeting HOW, int AHEAD, int PER, class Acc, class Get, class Became>
GH_FN void meet_all(const Items<uint32_t> &items, int64_t line, int64_t begin, Get get, Became became, Acc (&held)[PER]) {
  const uint32_t place = items(line, begin).key;
  meet_piece<HOW, AHEAD>(items, line, begin, place, get, held);
  for (int64_t i = piece_end(begin, items.n); goes_on(items, line, i, place); i += PIECE)
#pragma unroll
    for (int p = 0; p < PER; ++p) held[p] = met<HOW>(held[p], became(i / PIECE, p));
}

// Rows: a warp for each piece, or for each writer, of all outer ones; pieces [outer, ceil(count / PIECE), inner].
template <int PER, class Acc, class T> struct RowsThatCome {
  const T *rows;
  int64_t inner, column;  // the first of PER, 32 apart
  GH_FN Acc operator()(int64_t from, int p) const {
    const int64_t c = column + p * 32;
    return c < inner ? Acc(to_scalar(rows[from * inner + c])) : Acc(0);
  }
};
template <Meeting HOW, int PER, class Acc, class T>
GH_FN void meet_row_pieces(Items<uint32_t> items, const T *rows, int64_t outer, int64_t inner, Acc *pieces) {
  const int64_t warp = (int64_t)blockIdx.x * 8 + threadIdx.x / 32, column = (int64_t)blockIdx.y * 32 * PER + threadIdx.x % 32;
  const int64_t each = (items.n + PIECE - 1) / PIECE, line = warp / each;
  if (line >= outer) return;
  const RowsThatCome<PER, Acc, T> get = {rows + line * items.n * inner, inner, column};
  Acc held[PER];
  if (!meet_later_piece<HOW, PER == 1 ? 8 : 4>(items, 0, warp % each, get, held)) return;
#pragma unroll
  for (int p = 0; p < PER; ++p)
    if (column + p * 32 < inner) pieces[warp * inner + column + p * 32] = held[p];
}
template <Meeting HOW, int PER, class Acc, class T>
GH_FN void meet_ordered_rows(Items<uint32_t> items, const T *x, const T *rows, const Acc *pieces, int64_t outer, int64_t places, int64_t inner, T *out) {
  const int64_t warp = (int64_t)blockIdx.x * 8 + threadIdx.x / 32, column = (int64_t)blockIdx.y * 32 * PER + threadIdx.x % 32;
  const int64_t begin = warp % items.n, line = warp / items.n, each = (items.n + PIECE - 1) / PIECE;
  if (line >= outer || !comes_first(items, 0, begin)) return;
  const int64_t at = (line * places + items(0, begin).key) * inner;
  const RowsThatCome<PER, Acc, T> get = {rows + line * items.n * inner, inner, column};
  const RowsThatCome<PER, Acc, Acc> became = {pieces + line * each * inner, inner, column};
  Acc held[PER];
#pragma unroll
  for (int p = 0; p < PER; ++p) held[p] = x && column + p * 32 < inner ? Acc(to_scalar(x[at + column + p * 32])) : Acc(0);
  meet_all<HOW, PER == 1 ? 8 : 4>(items, 0, begin, get, became, held);
#pragma unroll
  for (int p = 0; p < PER; ++p)
    if (column + p * 32 < inner) out[at + column + p * 32] = from_scalar<T>(Wide<T>(held[p]));
}

// Elements that come to places along one axis: x of `sizes`, indices and updates of `given`, each at most as large but along the axis.
template <int RANK> struct Along {
  int64_t sizes[RANK], given[RANK];
};
// Where the elements of a line across that axis begin, and how far apart they are, in indices and updates, and in x.
struct LineAlong { int64_t at, apart, to, step; };
template <int AXIS, int RANK> GH_FN LineAlong line_along(const Along<RANK> &s, int64_t line) {
  LineAlong found = {0, 0, 0, 0};
  int64_t apart = 1, step = 1;
#pragma unroll
  for (int d = RANK - 1; d >= 0; --d) {
    if (d == AXIS) {
      found.apart = apart, found.step = step;
    } else {
      found.at += line % s.given[d] * apart, found.to += line % s.given[d] * step;
      line /= s.given[d];
    }
    apart *= s.given[d], step *= s.sizes[d];
  }
  return found;
}
template <int AXIS, int RANK, class I> struct PlacesAlong {
  const Context &ctx;
  const I *indices;
  Along<RANK> s;
  GH_FN Item<uint32_t> operator()(int64_t line, int64_t i) const {
    const LineAlong l = line_along<AXIS>(s, line);
    int64_t to = indices[l.at + i * l.apart];
    if (to < 0) to += s.sizes[AXIS];
    const bool inside = to >= 0 && to < s.sizes[AXIS];
    if (!inside) ctx.report(1);
    return {inside ? (uint32_t)to : NOWHERE, (uint32_t)i};
  }
};
// By writers in order: e of all pieces, pieces [lines, ceil(n / PIECE)], or of all writers; x is copied to out before.
template <Meeting HOW, int AXIS, class Acc, int RANK, class T>
GH_FN void meet_pieces_along(int64_t e, Items<uint32_t> items, const T *updates, Along<RANK> s, Acc *pieces) {
  const int64_t each = (items.n + PIECE - 1) / PIECE, line = e / each;
  const LineAlong l = line_along<AXIS>(s, line);
  Acc held[1];
  const auto get = [&](int64_t from, int) { return Acc(to_scalar(updates[l.at + from * l.apart])); };
  if (meet_later_piece<HOW, 8>(items, line, e % each, get, held)) pieces[e] = held[0];
}
template <Meeting HOW, int AXIS, class Acc, int RANK, class T>
GH_FN void meet_ordered_along(int64_t e, Items<uint32_t> items, const T *x, const T *updates, const Acc *pieces, Along<RANK> s, T *out) {
  const int64_t line = e / items.n, begin = e % items.n, each = (items.n + PIECE - 1) / PIECE;
  if (!comes_first(items, line, begin)) return;
  const LineAlong l = line_along<AXIS>(s, line);
  const int64_t at = l.to + items(line, begin).key * l.step;
  Acc held[1] = {Acc(to_scalar(x[at]))};
  const auto get = [&](int64_t from, int) { return Acc(to_scalar(updates[l.at + from * l.apart])); };
  meet_all<HOW, 8>(items, line, begin, get, [&](int64_t piece, int) { return pieces[line * each + piece]; }, held);
  out[at] = from_scalar<T>(Wide<T>(held[0]));
}
template <Meeting HOW, int AXIS, class Acc, int RANK, class T, class I>
GH_FN void meet_along(const Context &ctx, int64_t e, const T *x, const I *indices, const T *updates, Along<RANK> s, T *out) {
  int64_t rest = e, at = 0, step = 1, apart = 1, place = 0;
  bool inside = true;
#pragma unroll
  for (int d = RANK - 1; d >= 0; --d) {
    const int64_t c = rest % s.sizes[d];
    rest /= s.sizes[d];
    if (d == AXIS) place = c, apart = step;
    else at += c * step, inside = inside && c < s.given[d];
    step *= s.given[d];
  }
  Acc held = Acc(to_scalar(x[e]));
  constexpr int AHEAD = 8;  // indices that are on their way together
  for (int64_t i0 = 0; inside && i0 < s.given[AXIS]; i0 += AHEAD) {
    int64_t to[AHEAD];
#pragma unroll
    for (int u = 0; u < AHEAD; ++u) to[u] = i0 + u < s.given[AXIS] ? (int64_t)indices[at + (i0 + u) * apart] : 0;
#pragma unroll
    for (int u = 0; u < AHEAD; ++u) {
      if (i0 + u >= s.given[AXIS]) break;
      if (to[u] < 0) to[u] += s.sizes[AXIS];
      if (place == 0 && (to[u] < 0 || to[u] >= s.sizes[AXIS])) ctx.report(1);
      if (to[u] == place) held = met<HOW>(held, Acc(to_scalar(updates[at + (i0 + u) * apart])));
    }
  }
  out[e] = from_scalar<T>(Wide<T>(held));
}

// The sum or mean of the rows of a bag, for one column: places [offsets[bag], offsets[bag + 1]) of the indices.
template <class Acc, class T, class I, class O>
GH_FN void bag_column(const Context &ctx, int64_t bag, int64_t column, const T *table, const I *indices, const O *offsets, const T *scale,
                      int64_t rows, int64_t width, int64_t count, int64_t known, int64_t skipped, bool mean, T *out) {
  int64_t i = offsets[bag], end = bag + 1 < known ? (int64_t)offsets[bag + 1] : count, used = 0;
  if (i < 0) i = 0;
  if (end > count) end = count;
  Acc sum = 0;
  for (; i < end; ++i) {
    if (skipped >= 0 && indices[i] == skipped) continue;
    const Acc v = Acc(to_scalar(table[ctx.index(indices[i], rows) * width + column]));
    sum += scale ? v * Acc(to_scalar(scale[i])) : v;
    ++used;
  }
  if (mean) sum /= Acc(used ? used : 1);
  out[bag * width + column] = from_scalar<T>(Wide<T>(sum));
}

}  // namespace gh
