// few_channels.h: transposed convolutions with few output channels (a waveform, colours, a mask): a product, then col2im along rows.
//
// Contract
// - `conv_few_channels(pool, s, g, w, epi)`: s describes the convolution whose gradient this is, [N, H, W_in, C] -> [N, OH, OW, OC]; g is
//   [N, OH, OW, OC], w [C][tap][OC] (`few_turn_weights` of [OC, C, kh, kw]); epi(n C + c, h W_in + w, acc, range): rows of planes. One group.
// - As a product over channels this would have C columns of the 32 that a panel has. Here pixels are the columns and (channel, tap) the
//   rows: every multiplication counts. A row of the result then is a sum of rows of that product, shifted by whole pixels: those with
//   w + pw = b * sw + r see the taps j with j * dw % sw == r, each at pixel b - j * dw / sw.
// - Sums run over channels first, then over taps, whatever the number of threads.
#pragma once
#include "../conv.h"

namespace gh {
inline namespace GH_ISA_NS {

inline void few_turn_weights(const float *w, long filters, long rows, float *out) { transpose2d(filters, rows, w, rows, out, filters); }

// Pixels of g that one part of the result reads: rows from y0, columns from x0, with those that lie outside.
struct FewPart {
  long y0, x0, height, width;
  long inside_y0, inside_y1, inside_x0, inside_x1;  // of them, those that g has
  FewPart(const ConvShape &s, Range a, Range b, long above, long before)
      : y0(a.begin - above), x0(b.begin - before), height(a.end - y0), width(b.end - x0) {
    inside_y0 = y0 < 0 ? 0 : y0, inside_y1 = a.end < s.OH ? a.end : s.OH;
    inside_x0 = x0 < 0 ? 0 : x0, inside_x1 = b.end < s.OW ? b.end : s.OW;
    if (inside_y1 < inside_y0) inside_y1 = inside_y0;
    if (inside_x1 < inside_x0) inside_x1 = inside_x0;
  }
  long pixels() const { return height * width; }
  bool whole() const { return (inside_y1 - inside_y0) * (inside_x1 - inside_x0) == pixels(); }
  // Panels of the product: pixels as columns.
  void pack(const ConvShape &s, const float *image, float *panels_of_b) const {
    const long np = panels<DotF32>(pixels()), panel = s.OC * NR;
    if (!whole() || pixels() % NR) memset((void *)panels_of_b, 0, (size_t)(np * panel) * 4);
    for (long y = inside_y0; y < inside_y1; y++)
      for (long x = inside_x0; x < inside_x1;) {
        const long at = (y - y0) * width + x - x0, room = NR - at % NR, n = room < inside_x1 - x ? room : inside_x1 - x;
        transpose2d(n, s.OC, image + (y * s.OW + x) * s.OC, s.OC, panels_of_b + at / NR * panel + at % NR, NR);
        x += n;
      }
  }
  // A row of the product without what no pixel of g made: a weight that is not finite would leave NaN there.
  void clear_outside(float *row) const {
    if (whole()) return;
    for (long y = 0; y < height; y++) {
      const bool inside = y + y0 >= inside_y0 && y + y0 < inside_y1;
      const long begin = inside ? inside_x0 - x0 : width, end = inside ? inside_x1 - x0 : width;
      for (long x = 0; x < begin; x++) row[y * width + x] = 0.0f;
      for (long x = end; x < width; x++) row[y * width + x] = 0.0f;
    }
  }
};

// n pixels from each of `steps` lines, alternately: with the common steps known, the compiler makes shuffles of it.
template <int Steps>
GH_INLINE void few_weave(const float *lines, long ld, long n, int steps, float *out) {
  const int count = Steps ? Steps : steps;
  for (long k = 0; k < n; k++)
    for (int r = 0; r < count; r++) out[k * count + r] = lines[r * ld + k];
}

template <class Epi>
inline void conv_few_channels(ThreadPool &pool, const ConvShape &s, const float *g, const float *w, Epi &&epi) {
  constexpr long kPartFloats = 48 * 1024, kMostFloats = 256 * 1024;  // of the product that wait for their sums: from a fifth of L2 to all of it
  const long taps = (long)s.kh * s.kw, rows = s.C * taps;
  const long above = (long)(s.kh - 1) * s.dh / s.sh, before = (long)(s.kw - 1) * s.dw / s.sw;
  const Range a{s.ph / s.sh, (s.H - 1 + s.ph) / s.sh + 1}, b{s.pw / s.sw, (s.W_in - 1 + s.pw) / s.sw + 1};
  if (s.N <= 0 || s.H <= 0 || s.W_in <= 0 || s.C <= 0) return;
  const long high = a.end - a.begin, wide = b.end - b.begin, tall = rows * (wide + before) * 4 * above;
  // Rows above a part are computed for it again: with high windows, larger parts cost less than that.
  const long room = (tall < kPartFloats ? kPartFloats : tall > kMostFloats ? kMostFloats : tall) / rows;
  // Whole rows where there is room for them, and enough parts for all threads.
  long part_rows = room / (wide + before) - above, part_columns = wide;
  if (part_rows < 1) {
    part_rows = 1, part_columns = room / (1 + above) - before;
    if (part_columns < 4 * W) part_columns = 4 * W;
    if (part_columns > wide) part_columns = wide;
  }
  const long share = (s.N * high + pool.size() - 1) / pool.size();
  if (part_rows > share) part_rows = share;
  if (part_rows > high) part_rows = high;
  const long down = (high + part_rows - 1) / part_rows, across = (wide + part_columns - 1) / part_columns;
  const double work = (double)part_rows * part_columns * rows * s.OC;
  parallel_for(pool, s.N * down * across, work > kWorthThread<DotF32> ? 1 : (long)(kWorthThread<DotF32> / (work + 1)) + 1, [&](long begin, long end) {
    for (long item = begin; item < end; item++) {
      const long n = item / (down * across), i0 = item / across % down * part_rows, j0 = item % across * part_columns;
      const Range ra{a.begin + i0, a.begin + (i0 + part_rows < high ? i0 + part_rows : high)};
      const Range rb{b.begin + j0, b.begin + (j0 + part_columns < wide ? j0 + part_columns : wide)};
      const FewPart part(s, ra, rb, above, before);
      const long pixels = part.pixels(), ld = (pixels + NR - 1) / NR * NR + W, np = panels<DotF32>(pixels);
      float *B = (float *)scratch<1>((size_t)np * panel_bytes<DotF32>(s.OC));
      float *product = (float *)scratch<3>((size_t)(rows * ld + W) * 4);
      part.pack(s, g + n * s.OH * s.OW * s.OC, B);
      auto keep = [=](long r, long c, vf acc, auto t) __attribute__((always_inline)) { store(product + r * ld + c, acc, t); };
      gemm_serial<DotF32>(0, rows, 0, np, pixels, s.OC, RowsA<float>{w, s.OC}, B, keep);
      for (long r = 0; r < rows; r++) part.clear_outside(product + r * ld);
      // A line of the result for each residue, then all of them woven together.
      const long places = rb.end - rb.begin, line = (places + W - 1) / W * W;
      float *lines = (float *)scratch<2>((size_t)(2 * s.sw * line + W) * 4), *woven = s.sw == 1 ? lines : lines + s.sw * line;
      long *reads = (long *)scratch<5>((size_t)(taps + s.sw + 1) * sizeof(long)), *ends = reads + taps;
      const long from = rb.begin * s.sw - s.pw, w0 = from < 0 ? 0 : from;
      const long w1 = rb.end * s.sw - s.pw < s.W_in ? rb.end * s.sw - s.pw : s.W_in;
      const long h0 = ra.begin * s.sh - s.ph;
      for (long h = h0 < 0 ? 0 : h0; h < s.H && h + s.ph < ra.end * s.sh; h++) {
        long count = 0;
        for (int r = 0; r < s.sw; r++) {
          for (int i = 0; i < s.kh; i++) {
            const long y = h + s.ph - (long)i * s.dh;
            if (y % s.sh) continue;
            for (int j = 0; j < s.kw; j++)
              if ((long)j * s.dw % s.sw == r)
                reads[count++] = ((long)i * s.kw + j) * ld + (y / s.sh - part.y0) * part.width + rb.begin - part.x0 - (long)j * s.dw / s.sw;
          }
          ends[r] = count;
        }
        for (long c = 0; c < s.C; c++) {
          for (int r = 0; r < s.sw; r++)
            for (long k = 0; k < line; k += W) {
              vf sum(0.0f);
              for (long i = r ? ends[r - 1] : 0; i < ends[r]; i++) sum = sum + load(product + c * taps * ld + reads[i] + k);
              store(lines + r * line + k, sum);
            }
          switch (s.sw) {
            case 1: break;
            case 2: few_weave<2>(lines, line, places, 2, woven); break;
            case 4: few_weave<4>(lines, line, places, 4, woven); break;
            default: few_weave<0>(lines, line, places, s.sw, woven);
          }
          for_each_vector(w1 - w0, [&](long k, auto t) __attribute__((always_inline)) {
            epi(n * s.C + c, h * s.W_in + w0 + k, load(woven + (w0 - from) + k, t), t);
          });
        }
      }
    }
  });
}

}  // namespace GH_ISA_NS
}  // namespace gh
