// gemm_pack.h: the packed form of B (constant weights at compile time, or on the fly) and the sources A can be read from.
//
// Contract
// - Packed B: panels of NR = kColumns<D> columns; panel j holds columns [j NR, (j+1) NR) as units(K) rows of NR units, unit k of a column being
//   kPer consecutive elements along K (gemm_micro.h). Columns past N and elements past K are zero.
//   `packed_b_bytes<D>(K, N)`; `pack_b<D>(src, rs, cs, K, N, out)` reads element (k, n) at src[k * rs + n * cs] and converts it
//   (float32 or bf16/f16 to float32 or bf16; float64 and int8 stay). `pack_b_panels` does a range of panels (one thread's share).
// - Sources of A. `RowsA<T>{p, ld}`: row-major, read in place where the micro-kernel can. `ColsA<T>{p, ld}`: A given transposed,
//   element (m, k) at p[k * ld + m]. `FnA<F>{f}`: f(row, k, range) returns a vf of W elements along K: a fused prologue
//   (casts, normalisation, gathers), evaluated once for each block of rows and thread. A source of one's own has
//   `in_place<D>(K)` (with p and ld, when kDirect) and `pack(row, rows, k, n, out, stride)`: elements [k, k + n) of those rows;
//   without kChunks it is only asked for whole rows.
#pragma once
#include "gemm_micro.h"
#include "transpose.h"
#include <type_traits>

namespace gh {
inline namespace GH_ISA_NS {

template <class D>
constexpr long units(long k) { return (k + D::kPer - 1) / D::kPer; }
template <class D>
constexpr long panels(long n) { return (n + kColumns<D> - 1) / kColumns<D>; }
template <class D>
constexpr long panel_bytes(long K) { return units<D>(K) * kColumns<D> * D::kBytes; }
template <class D>
constexpr size_t packed_b_bytes(long K, long N) { return (size_t)panels<D>(N) * panel_bytes<D>(K); }

// Bytes as 16-bit integers.
template <class T>
inline void widen_bytes(const T *s, int16_t *d, long n) {
  typedef T bytes __attribute__((vector_size(2 * W), aligned(1), may_alias));
  typedef int16_t shorts __attribute__((vector_size(4 * W), aligned(1), may_alias));
  long i = 0;
  for (; i + 2 * W <= n; i += 2 * W) *(shorts *)(d + i) = __builtin_convertvector(*(const bytes *)(s + i), shorts);
  for (; i < n; i++) d[i] = s[i];
}

template <class To, class From>
GH_INLINE void convert_row(const From *s, To *d, long n) {
  if constexpr (sizeof(To) == sizeof(From) && sizeof(To) != 4) memcpy(d, s, (size_t)n * sizeof(To));
  else if constexpr (sizeof(To) == 2 && sizeof(From) == 1) widen_bytes(s, d, n);
  else for_each_vector(n, [&](long i, auto t) { store(d + i, load(s + i, t), t); });
}

// kPer rows of NR contiguous columns, interleaved into units.
template <class D, class T>
inline void pack_b_rows(const T *src, long rs, long K, long n, char *out) {
  typedef typename D::Elem Elem;
  constexpr int NR = kColumns<D>;
  const long ku = units<D>(K);
  for (long k = 0; k < ku; k++, out += NR * D::kBytes) {
    if constexpr (D::kPer == 1) {
      for (int v = 0; v < D::kVectors; v++) {
        long left = n - v * W;
        Elem *o = (Elem *)out + v * W;
        if (left >= W) store(o, load(src + k * rs + v * W));
        else store(o, left > 0 ? load(src + k * rs + v * W, Tail((int)left)) : D::zero());
      }
    } else if constexpr (D::kPer == 2 && std::is_same<T, bf16>::value) {  // widened, a bf16 is the upper half of a unit
      const T *first = src + 2 * k * rs, *second = first + rs;
      const bool both = 2 * k + 1 < K;
      for (int v = 0; v < D::kVectors; v++) {
        const long left = n - v * W;
        auto unit = [&](auto t) __attribute__((always_inline)) {
          const vi low = shift_right_logical(as_int(load(first + v * W, t)), 16);
          return both ? low | as_int(load(second + v * W, t)) : low;
        };
        store((int32_t *)out + v * W, left >= W ? unit(Full{}) : left > 0 ? unit(Tail((int)left)) : vi(0));
      }
    } else {
      alignas(64) Elem row[D::kPer][NR];
      memset(row, 0, sizeof row);
      for (int i = 0; i < D::kPer; i++)
        if (k * D::kPer + i < K) convert_row(src + (k * D::kPer + i) * rs, row[i], n);
      Elem *o = (Elem *)out;
      for (int c = 0; c < NR; c++)
        for (int i = 0; i < D::kPer; i++) o[c * D::kPer + i] = row[i][c];
    }
  }
}

// Columns whose elements lie together along K (weights stored [N, K]): turned W x W units at a time.
template <class D, class T>
inline void pack_b_cols(const T *src, long cs, long K, long n, char *out) {
  typedef typename D::Elem Elem;
  const long ku = units<D>(K);
  for (int v = 0; v < kPanelVectors; v++)
    for (long k = 0; k < ku; k += W) {
      vi x[W];
      long left = K - k * D::kPer;
      if (left > (long)W * D::kPer) left = (long)W * D::kPer;
      GH_UNROLL for (int c = 0; c < W; c++) {
        x[c] = vi(0);
        if (v * W + c < n) {
          const T *s = src + (v * W + c) * cs + k * D::kPer;
          if (sizeof(T) == sizeof(Elem) && left == (long)W * D::kPer) {
            x[c] = load((const int32_t *)s);
          } else {
            alignas(64) Elem t[W * D::kPer] = {};
            convert_row(s, t, left);
            x[c] = load((const int32_t *)t);
          }
        }
      }
      transpose_tile(x);
      for (int i = 0; i < W && k + i < ku; i++) store((int32_t *)(out + (k + i) * NR * 4) + v * W, x[i]);
    }
}

template <class D, class T>
GH_NOINLINE void pack_b_panels(const T *src, long rs, long cs, long K, long N, void *out, long begin, long end) {
  if constexpr (kTiled<D>) {  // tiles read the panels of registers
    pack_b_panels<typename D::Registers>(src, rs, cs, K, N, out, begin, end);
  } else {
    typedef typename D::Elem Elem;
    constexpr int NR = kColumns<D>;
    for (long j = begin; j < end; j++) {
      char *o = (char *)out + (size_t)j * panel_bytes<D>(K);
      long n = N - j * NR < NR ? N - j * NR : NR;
      const T *s = src + j * NR * cs;
      if (cs == 1) {
        pack_b_rows<D>(s, rs, K, n, o);
      } else if (rs == 1) {
        if constexpr (D::kBytes == 8) {
          if (n < NR) memset(o, 0, (size_t)panel_bytes<D>(K));
          transpose2d(n, K, s, cs, (Elem *)o, NR);
        } else {
          pack_b_cols<D>(s, cs, K, n, o);
        }
      } else {
        memset(o, 0, (size_t)panel_bytes<D>(K));
        for (long k = 0; k < K; k++)
          for (long c = 0; c < n; c++)
            convert_row(s + k * rs + c * cs, (Elem *)o + (k / D::kPer * NR + c) * D::kPer + k % D::kPer, 1);
      }
    }
  }
}
template <class D, class T>
inline void pack_b(const T *src, long rs, long cs, long K, long N, void *out) {
  pack_b_panels<D>(src, rs, cs, K, N, out, 0, panels<D>(N));
}
template <class D, class T>
inline void pack_b_parallel(ThreadPool &pool, const T *src, long rs, long cs, long K, long N, void *out) {
  long np = panels<D>(N);
  parallel_for(pool, np, K * NR >= 8192 ? 1 : 8192 / (K * NR + 1) + 1,
               [&](long b, long e) { pack_b_panels<D>(src, rs, cs, K, N, out, b, e); });
}

// Activations of an int8 product are unsigned, unless they are widened.
template <class D>
struct AElem { typedef typename std::conditional<D::kPer == 4, uint8_t, typename D::Elem>::type type; };

// Row stride of packed A in units: whole vectors, never a multiple of 4 KB (14 rows would share one set of the L1 cache).
GH_INLINE long packed_a_stride(long ku) {
  long ld = (ku + 15) / 16 * 16;
  return ld % 512 == 0 ? ld + 16 : ld;
}

template <class T>
struct RowsA {
  static constexpr bool kDirect = true;
  static constexpr bool kChunks = true;
  const T *p;
  long ld;
  template <class D>
  bool in_place(long K) const {
    // A row stride of a multiple of 4 KB puts all rows of a tile into one set of the L1 cache: 20 % slower than packed. AMX tiles
    // read each line once, and do not care.
    return sizeof(T) == sizeof(typename AElem<D>::type) && K % D::kPer == 0 && (kTiled<D> || ld * (long)sizeof(T) % 4096 != 0) &&
           ld % D::kPer == 0;
  }
  template <class E>
  void pack(long row, long rows, long k, long n, E *out, long stride) const {
    for (long r = 0; r < rows; r++) convert_row(p + (row + r) * ld + k, out + r * stride, n);
  }
};
template <class T>
struct ColsA {
  static constexpr bool kDirect = false;
  static constexpr bool kChunks = true;
  const T *p;
  long ld;
  template <class D>
  bool in_place(long) const { return false; }
  template <class E>
  void pack(long row, long rows, long k, long n, E *out, long stride) const {
    const T *s = p + k * ld + row;
    if constexpr (sizeof(T) == sizeof(E)) {
      transpose2d(n, rows, (const E *)s, ld, out, stride);
    } else {
      for (long r = 0; r < rows; r++)
        for (long i = 0; i < n; i++) convert_row(s + i * ld + r, out + r * stride + i, 1);
    }
  }
};
template <class F>
struct FnA {
  static constexpr bool kDirect = false;
  static constexpr bool kChunks = true;
  F f;
  template <class D>
  bool in_place(long) const { return false; }
  template <class E>
  void pack(long row, long rows, long k, long n, E *out, long stride) const {
    for (long r = 0; r < rows; r++)
      for_each_vector(n, [&](long i, auto t) { store(out + r * stride + i, f(row + r, k + i, t), t); });
  }
};
template <class F>
FnA(F) -> FnA<F>;
template <class T>
RowsA(const T *, long) -> RowsA<T>;
template <class T>
RowsA(T *, long) -> RowsA<T>;
template <class T>
ColsA(const T *, long) -> ColsA<T>;

}  // namespace GH_ISA_NS
}  // namespace gh
