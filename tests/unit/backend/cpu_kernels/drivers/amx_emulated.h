// amx_emulated.h: the tile instructions in plain C++, for processors that have none, as Intel's manual defines them.
// What would be an illegal instruction (a tile that is not configured, or sizes that do not match) ends the program.
#pragma once
#include <stdio.h>
#include <stdlib.h>

namespace gh {
inline namespace GH_ISA_NS {

struct EmulatedTiles {
  bool configured = false;
  int rows[8], bytes[8];
  uint8_t data[8][16][64];

  static EmulatedTiles& own() {
    static thread_local EmulatedTiles tiles;
    return tiles;
  }
  static void insist(bool holds, const char* what) {
    if (holds) return;
    fprintf(stderr, "illegal tile instruction: %s\n", what);
    abort();
  }
  void check(int t) const { insist(configured && rows[t] > 0 && bytes[t] > 0, "the tile is not configured"); }

  void configure(const TileSizes& s) {
    insist(s.palette == 1 && s.start_row == 0, "palette");
    for (uint8_t x : s.reserved) insist(x == 0, "reserved bytes");
    for (int t = 0; t < 16; t++) {
      insist(t < 8 ? s.rows[t] <= 16 && s.row_bytes[t] <= 64 : !s.rows[t] && !s.row_bytes[t], "sizes");
      insist(!s.rows[t] == !s.row_bytes[t], "rows without bytes");
      if (t < 8) rows[t] = s.rows[t], bytes[t] = s.row_bytes[t];
    }
    memset(data, 0, sizeof data);
    configured = true;
  }
  void zero(int t) {
    check(t);
    memset(data[t], 0, sizeof data[t]);
  }
  void load(int t, const void* p, long stride) {
    zero(t);
    for (int r = 0; r < rows[t]; r++) memcpy(data[t][r], (const char*)p + r * stride, (size_t)bytes[t]);
  }
  void store(int t, void* p, long stride) const {
    check(t);
    for (int r = 0; r < rows[t]; r++) memcpy((char*)p + r * stride, data[t][r], (size_t)bytes[t]);
  }
  void match(int to, int a, int b) const {
    check(to), check(a), check(b);
    insist(to != a && to != b && a != b, "one tile twice");
    insist(rows[to] == rows[a] && bytes[to] == bytes[b] && bytes[a] == 4 * rows[b], "sizes of the operands");
  }
  template <class T>
  T at(int t, int r, int i) const {
    T x;
    memcpy(&x, data[t][r] + (size_t)i * sizeof x, sizeof x);
    return x;
  }
  static float flushed(float x) { return __builtin_fabsf(x) < 0x1p-126f ? __builtin_copysignf(0.0f, x) : x; }
  float half(int t, int r, int i) const { return flushed(bit_cast<float>((uint32_t)at<uint16_t>(t, r, i) << 16)); }

  void bf16(int to, int a, int b) {
    match(to, a, b);
    for (int m = 0; m < rows[to]; m++)
      for (int n = 0; n < bytes[to] / 4; n++) {
        float sums[2] = {0, 0};
        for (int k = 0; k < rows[b]; k++)
          for (int i = 0; i < 2; i++) sums[i] = flushed(__builtin_fmaf(half(a, m, 2 * k + i), half(b, k, 2 * n + i), sums[i]));
        const float out = flushed(flushed(at<float>(to, m, n)) + flushed(sums[0] + sums[1]));
        memcpy(data[to][m] + 4 * n, &out, 4);
      }
  }
  void products_of_bytes(int to, int a, int b) {
    match(to, a, b);
    for (int m = 0; m < rows[to]; m++)
      for (int n = 0; n < bytes[to] / 4; n++) {
        uint32_t sum = at<uint32_t>(to, m, n);
        for (int k = 0; k < rows[b]; k++)
          for (int i = 0; i < 4; i++) sum += (uint32_t)((int)data[a][m][4 * k + i] * (int)(int8_t)data[b][k][4 * n + i]);
        memcpy(data[to][m] + 4 * n, &sum, 4);
      }
  }
};

}  // namespace GH_ISA_NS
}  // namespace gh

#define GH_TILE_CONFIG(sizes) EmulatedTiles::own().configure(sizes)
#define GH_TILE_RELEASE() (void)(EmulatedTiles::own().configured = false)
#define GH_TILE_ZERO(tile) EmulatedTiles::own().zero(tile)
#define GH_TILE_LOAD(tile, p, stride) EmulatedTiles::own().load(tile, p, stride)
#define GH_TILE_STORE(tile, p, stride) EmulatedTiles::own().store(tile, p, stride)
#define GH_TILE_BF16(to, a, b) EmulatedTiles::own().bf16(to, a, b)
#define GH_TILE_BYTES(to, a, b) EmulatedTiles::own().products_of_bytes(to, a, b)
