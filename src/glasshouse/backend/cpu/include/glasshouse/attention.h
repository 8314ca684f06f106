// attention.h: softmax(scale * Q K^T + mask) V for many heads, fused: scores live in a block that stays in L2.
//
// Contract
//   attention<D>(pool, shape, q, k, v, mask, out)
//     D       DotF32, DotBF16 (products in bf16, softmax and sums in float32) or DotF64; vectors are vf, of DotF64 vd
//     q,k,v   Strided<T>{p, batch, head, seq}: element (b, h, s, d) at p[b * batch + h * head + s * seq + d]; heads need not be
//             split by a copy. T is float, bf16 or f16, of DotF64 double. k and v have kv_heads heads; query head h reads head h / (heads / kv_heads).
//     mask    NoMask{}, or mask(b, h, i, j, x, range) -> vf: gets W scaled scores of query i, keys j.., returns them masked (add a
//             float mask; select(keep, x, -inf) for a boolean one). Broadcasting is the functor's.
//     out     out(b, h, i, d, vf, range): W elements of the result of query i (writes merged heads in place).
//     shape.causal: query i sees keys j <= i + k_len - q_len when shape.align_end, j <= i otherwise (torch's is_causal).
// - Keys are taken in blocks of kKeyBlock with running maximum and sum, so memory does not grow with the length; one block (up
//   to 1024 keys) needs no rescaling. Work is dealt out by (batch, head, block of queries), the same for any number of threads
//   up to the grouping; results do not depend on it.
// - A query whose keys are all masked with -inf gives 0, as torch's own attention does; with shape.plain NaN (0 / 0), as a
//   softmax that stands alone.
#pragma once
#include "gemm.h"
#include "reduce.h"
#include <cmath>
#include <limits>

namespace gh {
inline namespace GH_ISA_NS {

template <class T>
struct Strided {
  const T *p;
  long batch, head, seq;
};
struct NoMask {
  template <class V, class R>
  GH_INLINE V operator()(long, long, long, long, V x, R) const { return x; }
};
struct AttentionShape {
  long batch, heads, kv_heads, q_len, k_len, dim, v_dim;
  double scale;
  bool causal = false, align_end = false, plain = false;
};

constexpr long kKeyBlock = 1024;
template <class D>
constexpr long kQueryBlock = kTiled<D> ? 2 * kTileRows : kMaxRows * (kMaxRows >= 12 ? 4 : 8);

// Rows of A (rows x ku units, stride lda) times packed panels [0, np), into out (row stride ldo elements).
template <class D>
inline void tile_product(Micro<D> &micro, const void *A, long lda, long rows, const void *Bp, long np, long n, long ku,
                         typename D::Out *out, long ldo, bool accumulate) {
  constexpr int NR = kColumns<D>, kUnit = D::kBytes;
  if constexpr (kTiled<D>)
    if (rows < kTilesFrom) {
      Micro<typename D::Registers> registers;
      tile_product<typename D::Registers>(registers, A, lda, rows, Bp, np, n, ku, out, ldo, accumulate);
      return;
    }
  RowsOf<D> tiles(rows, false);  // accumulating twice into an overlapping row would be wrong
  const long zero = 0;
  for (long j = 0; j < np; j++)
    for (long i = 0; i < tiles.count; i++) {
      auto t = tiles[i];
      micro_product(micro, n - j * NR <= W, t.height, (const char *)A + t.row * lda * kUnit, lda, (const char *)Bp + j * ku * NR * kUnit,
                    KSegments{1, ku, &zero}, out + t.row * ldo + j * NR, ldo, accumulate);
    }
}

template <class D, class TQ, class TK, class TV, class Mask, class Out>
inline void attention(ThreadPool &pool, const AttentionShape &s, Strided<TQ> q, Strided<TK> k, Strided<TV> v, Mask &&mask, Out &&out) {
  typedef typename D::Elem E;
  typedef typename D::Out R;  // scores, sums and results
  typedef typename D::Acc V;
  constexpr int NR = kColumns<D>, kUnit = D::kBytes;
  constexpr R kInf = std::numeric_limits<R>::infinity();
  if (s.batch * s.heads * s.q_len == 0) return;
  const long ku = units<D>(s.dim), nv = panels<D>(s.v_dim), ldo = nv * NR;
  const long kblock = s.k_len < 1 ? 1 : s.k_len < kKeyBlock ? s.k_len : kKeyBlock;  // it divides, also where there is no key
  const long lds = panels<D>(kblock) * NR + 16;  // scores' row stride: never a multiple of 4 KB
  const long qblocks = (s.q_len + kQueryBlock<D> - 1) / kQueryBlock<D>;
  const long items = s.batch * s.heads * qblocks;
  const double flops = (double)s.q_len * s.k_len * (s.dim + s.v_dim) / (double)qblocks;
  const double worth = kWorthThread<D> / D::kPer;
  const long offset = s.align_end ? s.k_len - s.q_len : 0;
  const V scale((R)s.scale);

  parallel_for(pool, items, flops > worth ? 1 : (long)(worth / (flops + 1)) + 1, [&](long begin, long end) {
    const size_t kb_bytes = (size_t)panels<D>(kblock) * ku * NR * kUnit, vb_bytes = (size_t)nv * units<D>(kblock) * NR * kUnit;
    char *work = (char *)scratch<1>(kb_bytes + vb_bytes);
    char *Kp = work, *Vp = work + kb_bytes;
    const long ldq = packed_a_stride(ku);
    R *S = (R *)scratch<0>((size_t)kQueryBlock<D> * (lds + ldo + ldq + 2) * sizeof(R));
    R *O = S + kQueryBlock<D> * lds, *Q = O + kQueryBlock<D> * ldo, *m = Q + kQueryBlock<D> * ldq, *l = m + kQueryBlock<D>;
    Micro<D> micro;
    long packed_for = -1;  // (batch, kv head, key block) whose K and V are packed now
    for (long it = begin; it < end; it++) {
      const long b = it / (s.heads * qblocks), h = it / qblocks % s.heads, qb = it % qblocks;
      Range qr = split((s.q_len + 1) / 2, qb, qblocks);  // in pairs: an odd query falls into the last block
      qr.begin *= 2;
      qr.end = 2 * qr.end < s.q_len ? 2 * qr.end : s.q_len;
      const long rows = qr.end - qr.begin, hk = h / (s.heads / s.kv_heads);
      // Queries are read in place where the tiles can; otherwise they are copied and converted.
      const TQ *q0 = q.p + b * q.batch + h * q.head + qr.begin * q.seq;
      const void *Qa = q0;
      long lda = q.seq / D::kPer;
      if (!RowsA<TQ>{q0, q.seq}.template in_place<D>(s.dim)) {
        for (long r = 0; r < rows; r++) {
          E *dst = (E *)(Q + r * ldq);
          convert_row(q0 + r * q.seq, dst, s.dim);
          for (long d = s.dim; d < ku * D::kPer; d++) dst[d] = E{};
        }
        Qa = Q, lda = ldq;
      }
      long last = s.causal ? qr.end - 1 + offset : s.k_len - 1;  // the last key that any of these queries sees
      if (last >= s.k_len) last = s.k_len - 1;
      bool first = true;
      for (long k0 = 0; k0 <= last || first; k0 += kblock) {
        const long kn = s.k_len - k0 < kblock ? s.k_len - k0 : kblock;
        const long used = last - k0 + 1 < kn ? last - k0 + 1 : kn;  // keys of this block that count
        const long id = (b * s.kv_heads + hk) * ((s.k_len + kblock - 1) / kblock + 1) + k0 / kblock;
        if (id != packed_for && kn > 0) {
          pack_b_panels<D>(k.p + b * k.batch + hk * k.head + k0 * k.seq, 1, k.seq, s.dim, kn, Kp, 0, panels<D>(kn));
          pack_b_panels<D>(v.p + b * v.batch + hk * v.head + k0 * v.seq, v.seq, 1, kn, s.v_dim, Vp, 0, nv);
          packed_for = id;
        }
        const long np = used > 0 ? panels<D>(used) : 0;
        tile_product<D>(micro, Qa, lda, rows, Kp, np, used, ku, S, lds, false);
        const long uk = units<D>(used > 0 ? used : 0);
        for (long r = 0; r < rows; r++) {
          const long i = qr.begin + r;
          long n = used;
          if (s.causal && i + offset - k0 + 1 < n) n = i + offset - k0 + 1;
          if (n < 0) n = 0;
          R *row = S + r * lds;
          R mx = reduce_row<FastMaxOp>(n, [&](long j, auto t) __attribute__((always_inline)) {
            V x = mask(b, h, i, k0 + j, load(row + j, t) * scale, t);
            store(row + j, x, t);
            return x;
          });
          R alpha = 0;
          if (!first) {
            R old = m[r];
            if (old > mx || old != old) mx = old;
            alpha = n > 0 ? std::exp(old - mx) : R(1);
            if (mx == -kInf) alpha = 1;  // nothing seen yet: nothing to rescale
          }
          // While all keys so far are -inf the maximum stands at 0 so that weights are 0, not NaN; the sum decides at the end.
          const V top(mx == -kInf ? R(0) : mx);
          E *p = (E *)row;  // weights overwrite scores, narrower or equal in size, front to back
          R sum = reduce_row<SumOp>(n, [&](long j, auto t) __attribute__((always_inline)) {
            V x = softmax_exp(load(row + j, t), top);
            store(p + j, x, t);
            return x;
          });
          for (long j = n; j < uk * D::kPer; j++) p[j] = E{};
          l[r] = first ? sum : l[r] * alpha + sum;
          m[r] = mx;
          if (!first && alpha != 1)
            for_each_vector(s.v_dim, [&](long d, auto t) __attribute__((always_inline)) {
              store(O + r * ldo + d, load(O + r * ldo + d, t) * V(alpha), t);
            });
        }
        // Vp was packed for kn keys: its panels are units(kn) rows apart, of which the first uk are multiplied.
        for (long j = 0; j < nv; j++)
          tile_product<D>(micro, S, lds, rows, Vp + j * units<D>(kn) * NR * kUnit, 1, s.v_dim - j * NR, uk, O + j * NR, ldo, !first);
        first = false;
        if (kn <= 0) break;
      }
      for (long r = 0; r < rows; r++) {
        const V inv(l[r] == 0 && !s.plain ? R(0) : 1 / l[r]);
        for_each_vector(s.v_dim, [&](long d, auto t) __attribute__((always_inline)) {
          out(b, h, qr.begin + r, d, load(O + r * ldo + d, t) * inv, t);
        });
      }
    }
  });
}

}  // namespace GH_ISA_NS
}  // namespace gh
