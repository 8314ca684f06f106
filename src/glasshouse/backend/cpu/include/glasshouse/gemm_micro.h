// gemm_micro.h: the register tile of matrix products: MR rows x NV vectors of C, summed over the whole of K in registers.
//
// Contract
// - A "unit" is what one lane multiplies at a time, kBytes long: 32 bits along K (one float32, two bf16, or four 8-bit integers, A
//   unsigned and B signed; without AVX-512 two of them, widened), or one float64, whose vectors take two registers (kRegisters). B is a panel of NV * W columns: unit k of column j stands at b[k * ldb + j]. A's row r, unit k stands at a[r * lda + k].
// - K may come in segments: segment s starts at a + offset[s] and is `len` units long (convolution taps); B runs on.
// - The sums go to `out` (row stride ldo elements), added to what is there when `accumulate`; epilogues read them
//   from L1. Storing and loading the tile once costs 2 * MR * NV moves against MR * NV * K multiply-adds.
// - The order of summation over K depends on MR and NV alone, never on the thread.
#pragma once
#include "vec_double.h"

namespace gh {
inline namespace GH_ISA_NS {

typedef uint32_t unit32 __attribute__((may_alias, aligned(1)));
typedef float unitf __attribute__((may_alias, aligned(1)));
typedef double unitd __attribute__((may_alias, aligned(1)));

// Keeps a vector in its register. Left alone, g++ makes it a memory operand of every multiply-add that uses it: twelve loads of 64
// bytes for eight multiply-adds in a tile of four rows, which then takes 11 cycles in place of 8. Tall tiles of 32 registers have time for
// that; those of 16 load 18 vectors for 12 multiply-adds (Zen 3, 128x768x768 on one core: 84 -> 88 GFLOP/s).
GH_INLINE void in_register([[maybe_unused]] vf &x) {
#if defined(GH_AVX512) || defined(GH_AVX2)
  __asm__("" : "+v"(x.v));
#endif
}
GH_INLINE void in_register([[maybe_unused]] vi &x) {
#if defined(GH_AVX512) || defined(GH_AVX2)
  __asm__("" : "+v"(x.v));
#endif
}
GH_INLINE void in_register([[maybe_unused]] vd &x) {
#if defined(GH_AVX512) || defined(GH_AVX2)
  __asm__("" : "+v"(x.lo), "+v"(x.hi));
#endif
}

// How one unit of A (broadcast) and a vector of units of B are multiplied and added. kVectors: those of a packed panel of B.
struct DotF32 {
  typedef float Elem;
  typedef vf Acc;
  typedef float Out;
  static constexpr int kPer = 1, kBytes = 4, kVectors = 2, kRegisters = 1;
  GH_INLINE static vf zero() { return vf(0.0f); }
  GH_INLINE static vf bcast(const void *a) { return vf(*(const unitf *)a); }
  GH_INLINE static vf loadb(const void *b) { return load((const float *)b); }
  GH_INLINE static vf dot(vf a, vf b, vf c) { return fma(a, b, c); }
};

struct DotF64 {
  typedef double Elem;
  typedef vd Acc;
  typedef double Out;
  static constexpr int kPer = 1, kBytes = 8, kVectors = 1, kRegisters = 2;
  GH_INLINE static vd zero() { return vd(0.0); }
  GH_INLINE static vd bcast(const void *a) { return vd(*(const unitd *)a); }
  GH_INLINE static vd loadb(const void *b) { return load((const double *)b); }
  GH_INLINE static vd dot(vd a, vd b, vd c) { return fma(a, b, c); }
};

struct DotBF16 {
  typedef bf16 Elem;
  typedef vf Acc;
  typedef float Out;
  static constexpr int kPer = 2, kBytes = 4, kVectors = 2, kRegisters = 1;
  GH_INLINE static vf zero() { return vf(0.0f); }
  GH_INLINE static vi bcast(const void *a) { return vi((int32_t) * (const unit32 *)a); }
  GH_INLINE static vi loadb(const void *b) { return load((const int32_t *)b); }
  GH_INLINE static vf dot(vi a, vi b, vf c) {
#if defined(GH_BF16)
    return (nf)_mm512_dpbf16_ps((__m512)c.v, (__m512bh)a.v, (__m512bh)b.v);
#else
    vi hi((int32_t)0xffff0000);
    c = fma(as_float(a << 16), as_float(b << 16), c);
    return fma(as_float(a & hi), as_float(b & hi), c);
#endif
  }
};

// Pairs of 16-bit integers; sums of 32 bits that go round where they are too large, so that what is made of them is right modulo 2^32.
struct DotI16 {
  typedef int16_t Elem;
  typedef vi Acc;
  typedef int32_t Out;
  static constexpr int kPer = 2, kBytes = 4, kVectors = 2, kRegisters = 1;
  GH_INLINE static vi zero() { return vi(0); }
  GH_INLINE static vi bcast(const void *a) { return vi((int32_t) * (const unit32 *)a); }
  GH_INLINE static vi loadb(const void *b) { return load((const int32_t *)b); }
  GH_INLINE static vi dot(vi a, vi b, vi c) {
#if defined(GH_VNNI)
    return (ni)_mm512_dpwssd_epi32((__m512i)c.v, (__m512i)a.v, (__m512i)b.v);
#elif defined(GH_AVX512)
    return c + vi((ni)_mm512_madd_epi16((__m512i)a.v, (__m512i)b.v));
#elif defined(GH_AVX2)
    // g++ would add up the products of several units first, and keep them all: 46 G products a second in place of 98.
    c = c + vi((ni)_mm256_madd_epi16((__m256i)a.v, (__m256i)b.v));
    in_register(c);
    return c;
#elif defined(__SSE2__)
    return c + vi((ni)_mm_madd_epi16((__m128i)a.v, (__m128i)b.v));
#else
    return c + ((a << 16) >> 16) * ((b << 16) >> 16) + (a >> 16) * (b >> 16);
#endif
  }
};

#if defined(GH_AVX512)
// Without VNNI: even and odd bytes as 16-bit integers, two products and their sum an instruction: exact, while products of bytes summed in
// 16 bits (maddubs) would saturate.
struct DotI8 {
  typedef int8_t Elem;
  typedef vi Acc;
  typedef int32_t Out;
  static constexpr int kPer = 4, kBytes = 4, kVectors = 2, kRegisters = 1;
  GH_INLINE static vi zero() { return vi(0); }
  GH_INLINE static vi bcast(const void *a) { return vi((int32_t) * (const unit32 *)a); }
  GH_INLINE static vi loadb(const void *b) { return load((const int32_t *)b); }
  GH_INLINE static vi dot(vi a, vi b, vi c) {
#if defined(GH_VNNI)
    return (ni)_mm512_dpbusd_epi32((__m512i)c.v, (__m512i)a.v, (__m512i)b.v);
#else
    __m512i x = (__m512i)a.v, y = (__m512i)b.v;
    __m512i even = _mm512_madd_epi16(_mm512_and_si512(x, _mm512_set1_epi16(255)), _mm512_srai_epi16(_mm512_slli_epi16(y, 8), 8));
    __m512i odd = _mm512_madd_epi16(_mm512_srli_epi16(x, 8), _mm512_srai_epi16(y, 8));
    return (ni)_mm512_add_epi32((__m512i)c.v, _mm512_add_epi32(even, odd));
#endif
  }
};
#else
// Narrower vectors multiply bytes as pairs of 16 bits, to which both operands are widened as they are packed: exact, and as many products an
// instruction as of bytes, whose sums in 16 bits (maddubs, then madd) would saturate. Widened in each tile they took 2.5 times as long (Zen 3).
struct DotI8 : DotI16 {};
#endif

// The same on AMX tiles (gemm_tiles.h) where there are any. Fewer rows than kTilesFrom are computed in registers: 2 rows of
// 1024x1024 take 142 GFLOP/s on tiles and 66 in registers, one row is as fast as the weights are read.
#if defined(GH_AMX)
struct TilesBF16 : DotBF16 { typedef DotBF16 Registers; };
struct TilesI8 : DotI8 { typedef DotI8 Registers; };
#else
typedef DotBF16 TilesBF16;
typedef DotI8 TilesI8;
#endif
template <class D>
constexpr bool kTiled = false;
#if defined(GH_AMX)
template <>
constexpr bool kTiled<TilesBF16> = true;
template <>
constexpr bool kTiled<TilesI8> = true;
#endif
constexpr int kTileRows = 32;
constexpr long kTilesFrom = 2;

// bf16 that is packed on the way is widened where the chip does not multiply it: doing so in every tile costs half the speed.
#if defined(GH_BF16)
typedef TilesBF16 DotPassingBF16;
#else
typedef DotF32 DotPassingBF16;
#endif

// Lines of a tile's results, so that they are owned by the time they are written: asked for one row at a time in the course of K,
// because all at once would hold up the loads of A and B behind them. Two lines a row, `span` bytes apart.
struct OutLines {
  char *p = nullptr;
  long row_bytes = 0, span = 0;
};

// Given by reference: a copy on the stack is read in wider pieces than those it was just written in, which waits until all earlier stores, the
// last tile's results among them, have reached the cache. 12544x16x96 of bytes with a `quantize` behind: 150 -> 103 us, 3136x64x256 180 -> 143
// (Zen 5, one core).
struct KSegments {
  long count, len;               // `len` in units
  const long *offset;            // in units, from a
  const char *ahead = nullptr;   // what to fetch meanwhile: `ahead_step` bytes further with each round of the K loop, kLinesAhead lines a round at most
  long ahead_step = 0;
  OutLines out{};                // what to own before the sums are finished
  long row_bytes = 0;            // between A's rows, where that is no whole number of units; 0: lda says it
};

// MaxRows of the tile: accumulators and B's vectors fill the register file (32 or 16 registers).
#if defined(GH_AVX512)
constexpr int kMaxRows = 14;
#elif defined(GH_AVX2)
constexpr int kMaxRows = 6;
#elif defined(__aarch64__)
constexpr int kMaxRows = 12;
#else
constexpr int kMaxRows = 6;
#endif
// What blocks count on of a core's second cache. Processors without AVX-512 mostly have less than those with: Zen 2 and 3 512 KB.
#if defined(GH_AVX2)
constexpr long kL2Bytes = 512 << 10;
#else
constexpr long kL2Bytes = 1 << 20;
#endif
constexpr int kPanelVectors = 2;
constexpr int NR = kPanelVectors * W;  // columns of a packed panel of B, of units of 32 bits
template <class D>
constexpr int kColumns = D::kVectors * W;  // the same for any kind
template <class D>
constexpr int kTallest = kTiled<D> ? kTileRows : kMaxRows;
// Multiply-adds from which a second thread brings more than it costs: about 1 us.
template <class D>
constexpr double kWorthThread = 40000.0 * D::kPer * (kTiled<D> ? 8 : 1);

// Steps of K in one round of the loop. Fewer than 8 accumulators cannot cover the latency of a multiply-add: then K is split
// over as many sets as make 8.
constexpr int micro_sets(int mr, int nv) { return mr * nv >= 8 ? 1 : 8 / (mr * nv); }
constexpr int micro_unroll(int mr, int nv) { return mr * nv < 8 ? micro_sets(mr, nv) : mr * nv >= 16 ? 2 : 4; }

// Lines that a round can fetch. Winograd's weights of bytes are read by 9 to 16 rows and may come from memory: 256x14x14 takes 429 us with the
// processor's own fetching, 358 with four lines a round (one core, 19 MB of weights in turns; 333 with 5 MB).
template <class D>
constexpr int kLinesAhead = __is_same(D, DotI16) ? 4 : 1;

// Units of depth in one round of a full tile.
template <class D>
constexpr int kRoundUnits = kTiled<D> ? 16 : micro_unroll(kMaxRows, D::kVectors * D::kRegisters);

template <class D, int MR, int NV>
GH_NOINLINE void micro_tile(const void *A, long lda, const void *B, long ldb, const KSegments &segs, typename D::Out *out, long ldo,
                            bool accumulate) {
  typedef typename D::Acc Acc;
  constexpr int KU = micro_sets(MR, NV * D::kRegisters), kUnit = D::kBytes;
  Acc acc[KU][MR][NV];
  GH_UNROLL for (int u = 0; u < KU; u++)
    GH_UNROLL for (int r = 0; r < MR; r++)
      GH_UNROLL for (int v = 0; v < NV; v++) acc[u][r][v] = D::zero();
  // On their own, one by one: behind the reference they would take a register of the loop, 465 us of Winograd's 512x512x7x7 became 515.
  const long ahead_step = segs.ahead_step, own_step = segs.out.row_bytes, own_span = segs.out.span, len = segs.len;
  const char *b = (const char *)B, *ahead = segs.ahead;
  [[maybe_unused]] const char *own = segs.out.p ? segs.out.p : (const char *)out;
  // Times the steps of K that are left, shifted back: a row of the tile.
  [[maybe_unused]] const long row_of = ((long)MR << 24) / (len + 1);
  ldb *= kUnit;
  for (long s = 0; s < segs.count; s++) {
    // One pointer for three rows: [p], [p + lda], [p + 2 lda] are x86 addressing modes.
    constexpr int NP = (MR + 2) / 3;
    const char *p[NP];
    const long ld = segs.row_bytes ? segs.row_bytes : lda * kUnit;
    GH_UNROLL for (int i = 0; i < NP; i++) p[i] = (const char *)A + segs.offset[s] * kUnit + 3 * i * ld;
    long k = len;
    auto step = [&](int u, long ka, const char *bp) __attribute__((always_inline)) {
      auto b0 = D::loadb(bp);
      auto b1 = NV > 1 ? D::loadb(bp + kUnit * W) : b0;
      if constexpr (MR > 1 && (MR < 6 || kMaxRows == 6)) {
        in_register(b0);
        if constexpr (NV > 1) in_register(b1);
      }
      GH_UNROLL for (int r = 0; r < MR; r++) {
        auto a = D::bcast(p[r / 3] + (r % 3) * ld + ka);
        acc[u][r][0] = D::dot(a, b0, acc[u][r][0]);
        if (NV > 1) acc[u][r][NV - 1] = D::dot(a, b1, acc[u][r][NV - 1]);
      }
    };
    constexpr int UNROLL = micro_unroll(MR, NV * D::kRegisters);
    for (; k >= UNROLL; k -= UNROLL) {
      __builtin_prefetch(ahead, 0, 3);  // fetching into L2 alone is dropped where the page is not known: 5 % with pages of 4 KB
      GH_UNROLL for (int i = 1; i < kLinesAhead<D>; i++)
        if (ahead_step > 64 * i) __builtin_prefetch(ahead + 64 * i, 0, 3);
      ahead += ahead_step;
      if constexpr (MR >= 8) {  // low tiles have no time to spare, and little to write
        const char *line = own + (k * row_of >> 24) * own_step;
        __builtin_prefetch(line, 1, 3);
        __builtin_prefetch(line + own_span, 1, 3);
      }
      GH_UNROLL for (int u = 0; u < UNROLL; u++) step(KU > 1 ? u : 0, kUnit * u, b + u * ldb);
      GH_UNROLL for (int i = 0; i < NP; i++) p[i] += kUnit * UNROLL;
      b += UNROLL * ldb;
    }
    for (; k > 0; k--) {
      step(0, 0, b);
      GH_UNROLL for (int i = 0; i < NP; i++) p[i] += kUnit;
      b += ldb;
    }
  }
  GH_UNROLL for (int r = 0; r < MR; r++)
    GH_UNROLL for (int v = 0; v < NV; v++) {
      Acc x = acc[0][r][v];
      GH_UNROLL for (int u = 1; u < KU; u++) x = x + acc[u][r][v];
      typename D::Out *o = out + r * ldo + v * W;
      if (accumulate) x = x + load(o);
      store(o, x);
    }
}

}  // namespace GH_ISA_NS
}  // namespace gh
