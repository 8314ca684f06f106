// gemm_bytes.h: products of bytes by bytes, both made in this call, for each item of a batch.
//
// Contract
//   gemm_bytes<D>(pool, batch, M, N, K, a_of, za, B, step, rs, cs, zb, epi)
//     D        DotI8 or TilesI8
//     a_of(b)  i8_rows of item b (quant.h); za is its zero point, moved up with it if it is signed
//     B        element (k, n) of item b at B[step(b) + k * rs + n * cs], uint8_t or int8_t around zb; fast where rs or cs is 1
//     epi      epi(b, row, col, whole, range): W whole numbers, the sums of (a - za) * (b - zb)
// - The micro-kernel multiplies unsigned by signed bytes: unsigned B are taken down by 128 as they are packed, zb with them. Then
//   sum (a - za)(b - zb) = sum ab - za sum b - zb sum a + K za zb, all of it below 2^31 for K up to 2^15.
#pragma once
#include "glasshouse/quant.h"

namespace gh {
inline namespace GH_ISA_NS {

template <class T>
constexpr int32_t kTakenDown = __is_same(T, uint8_t) ? 128 : 0;

// The sum of n bytes.
template <class T>
GH_INLINE int32_t byte_sum(const T *p, long n) {
  vf sum(0.0f);  // exact: below 2^24 for n up to 2^16
  for_each_vector(n, [&](long i, auto t) __attribute__((always_inline)) { sum = sum + load(p + i, t); });
  return (int32_t)reduce_add(sum);
}

// B [K, N] as panels of D, taken down, and the sum of each of its columns.
template <class D, class T>
inline void pack_bytes(const T *src, long rs, long cs, long K, long N, char *out, int32_t *sums) {
  constexpr int NR = kColumns<D>;
  constexpr int32_t down = kTakenDown<T>;
  const long ku = units<D>(K);
  for (long j = 0; j < panels<D>(N); j++) {
    const long n = N - j * NR < NR ? N - j * NR : NR;
    const T *s = src + j * NR * cs;
    int8_t *o = (int8_t *)out + (size_t)j * panel_bytes<D>(K);
    if (n < NR) memset(o, 0, (size_t)panel_bytes<D>(K));
    constexpr int per = D::kPer;
    if (cs == 1) {  // the rows of a unit at a time, a number of each
      for_each_vector(n, [&](long c, auto t) __attribute__((always_inline)) {
        vi sum(0);
        for (long k = 0; k < ku; k++) {
          vi unit(0);
          GH_UNROLL for (int i = 0; i < per; i++) {
            if (k * per + i >= K) continue;
            const vi value = load_int(s + (k * per + i) * rs + c, t) - vi(down);
            sum = sum + value;
            unit = unit | ((value & vi(per == 4 ? 0xff : 0xffff)) << (32 / per * i));
          }
          store((int32_t *)(o + (k * NR + c) * 4), unit, t);
        }
        store(sums + j * NR + c, sum, t);
      });
      continue;
    }
    for (long c = 0; c < n; c++) {
      const T *column = s + c * cs;
      alignas(64) T line[256];
      int32_t sum = 0;
      for (long k0 = 0; k0 < K; k0 += 256) {
        const long left = K - k0 < 256 ? K - k0 : 256;
        const T *bytes = column + k0;
        if (rs != 1) {
          for (long k = 0; k < left; k++) line[k] = column[(k0 + k) * rs];
          bytes = line;
        }
        sum += byte_sum(bytes, left);
        if constexpr (per == 2) {
          for (long k = 0; k < left; k++) ((int16_t *)o)[((k0 + k) / 2 * NR + c) * 2 + k % 2] = (int16_t)(bytes[k] - down);
          continue;
        }
        long k = 0;
        for (; k + 4 <= left; k += 4) {
          uint32_t unit;
          memcpy(&unit, bytes + k, 4);
          unit ^= down ? 0x80808080u : 0u;
          memcpy(o + ((k0 + k) * NR + c * 4), &unit, 4);
        }
        if (k < left) {
          int8_t unit[4] = {};
          for (long i = k; i < left; i++) unit[i - k] = (int8_t)((int32_t)bytes[i] - down);
          memcpy(o + ((k0 + k) * NR + c * 4), unit, 4);
        }
      }
      sums[j * NR + c] = sum - down * (int32_t)K;
    }
  }
}

GH_INLINE void i8_row_sums(const RowsA<uint8_t> &a, long M, long K, int32_t *sums) {
  for (long r = 0; r < M; r++) sums[r] = byte_sum(a.p + r * a.ld, K);
}
GH_INLINE void i8_row_sums(const SignedRowsA &a, long M, long K, int32_t *sums) {
  for (long r = 0; r < M; r++) sums[r] = byte_sum(a.p + r * a.ld, K) + 128 * (int32_t)K;
}

template <class D, class SrcOf, class T, class Step, class Epi>
inline void gemm_bytes(ThreadPool &pool, long batch, long M, long N, long K, SrcOf &&a_of, int32_t za, const T *B, Step &&step,
                       long rs, long cs, int32_t zb, Epi &&epi) {
  if (M <= 0 || N <= 0 || batch <= 0) return;
  if constexpr (kTiled<D>)
    if (M < kTilesFrom) {
      gemm_bytes<typename D::Registers>(pool, batch, M, N, K, a_of, za, B, step, rs, cs, zb, epi);
      return;
    }
  const int32_t down = zb - kTakenDown<T>;
  // Items are cut into blocks of rows where there are fewer than threads; each packs its own B, which is little beside 64 rows.
  long cuts = batch >= pool.size() ? 1 : (pool.size() + batch - 1) / batch;
  if (cuts > M / 64) cuts = M / 64 > 0 ? M / 64 : 1;
  const double work = (double)M * N * K / cuts, worth = kWorthThread<D> / D::kPer;
  const size_t columns = (size_t)panels<D>(N) * kColumns<D>, packed = packed_b_bytes<D>(K, N);
  parallel_for(pool, batch * cuts, work > worth ? 1 : (long)(worth / (work + 1)) + 1, [&](long begin, long end) {
    char *Bp = (char *)scratch<1>(packed + columns * 4 + (size_t)M * 4);
    int32_t *of_columns = (int32_t *)(Bp + packed), *of_rows = of_columns + columns;
    for (long i = begin; i < end; i++) {
      const long b = i / cuts;
      const Range r = row_range(0, M, i % cuts, cuts);
      pack_bytes<D>(B + step(b), rs, cs, K, N, Bp, of_columns);
      for (long n = 0; n < N; n++) of_columns[n] = za * (of_columns[n] - (int32_t)K * down);
      auto src = a_of(b);
      if (down) i8_row_sums(src, M, K, of_rows);
      auto e = [&](long row, long col, vi sum, auto t) __attribute__((always_inline)) {
        vi whole = sum - load(of_columns + col, t);
        if (down) whole = whole - vi(down * of_rows[row]);
        epi(b, row, col, whole, t);
      };
      gemm_serial<D>(r.begin, r.end, 0, panels<D>(N), N, K, src, Bp, e);
    }
  });
}

}  // namespace GH_ISA_NS
}  // namespace gh
