// conv_bytes.cpp: convolutions of bytes, over taps and by Winograd's transforms in 16 bits.
#include "conv_shape.h"
#include "driver.h"
#include "glasshouse/apart/winograd_bytes.h"
#include "glasshouse/quant.h"
using namespace gh;

static void taps(void* pool, const long* a, const uint8_t* x, bool planes, int zero, const int8_t* w, int32_t* y) {
  ThreadPool& p = *(ThreadPool*)pool;
  const ConvShape s = shape(a), padded = i8_padded_shape(s);
  const long OC = s.OC, k = (long)s.kh * s.kw;
  void *wp = malloc(i8_conv_bytes(s)), *image = malloc((size_t)(padded.N * padded.H * padded.W_in * padded.C));
  i8_conv_pack(p, w, s.cg() * k, k, s.kw, 1, s, wp);
  i8_pad_image(p, s, x, zero, (uint8_t*)image, planes);
  const int32_t* sums = i8_conv_sums(wp, s);
  auto out = [=](long r, long c, vi v, auto t) { store(y + r * OC + c, v - vi(zero) * load(sums + c, t), t); };
  if (s.groups == 1) i8_conv(p, padded, (const uint8_t*)image, wp, out);
  else i8_conv_groups(p, lanes_hold_groups(s), padded, (const uint8_t*)image, wp, out);
  free(wp);
  free(image);
}
API void over_taps(void* pool, const long* a, const uint8_t* x, int zero, const int8_t* w, int32_t* y) {
  taps(pool, a, x, false, zero, w, y);
}
API void of_planes(void* pool, const long* a, const uint8_t* x, int zero, const int8_t* w, int32_t* y) {
  taps(pool, a, x, true, zero, w, y);
}

// Gives the parts in which channels were summed.
template <class T>
long transformed(void* pool, const long* a, const T* x, int zero, const int8_t* w, int32_t* y) {
  ThreadPool& p = *(ThreadPool*)pool;
  const ConvShape s = shape(a);
  const long OC = s.OC;
  void *wp = malloc(winograd_bytes_size(s)), *work = malloc(winograd_bytes_work(s));
  winograd_bytes_pack(p, w, s.C * 9, 9, 3, 1, s, wp);
  conv2d_winograd_bytes(p, s, x, zero, wp, work, [=](long r, long c, vi v, auto t) { store(y + r * OC + c, v, t); });
  free(wp);
  free(work);
  return winograd_bytes_parts(w, s.C * 9, 9, 3, 1, s);
}
API long by_transform(void* pool, const long* a, const uint8_t* x, int zero, const int8_t* w, int32_t* y) {
  return transformed(pool, a, x, zero, w, y);
}
API long by_transform_signed(void* pool, const long* a, const int8_t* x, int zero, const int8_t* w, int32_t* y) {
  return transformed(pool, a, x, zero, w, y);
}

template <class T>
void by_channel(void* pool, const long* a, const T* x, int zero, const int8_t* w, int32_t* y) {
  const ConvShape s = shape(a);
  const long C = s.C, k = (long)s.kh * s.kw;
  void* wp = malloc(depthwise_bytes_size(s));
  depthwise_bytes_pack(w, k, s.kw, 1, s, wp);
  depthwise_bytes(*(ThreadPool*)pool, s, x, wp, zero, [=](long r, long c, vi v, auto t) { store(y + r * C + c, v, t); });
  free(wp);
}
API void depthwise(void* pool, const long* a, const uint8_t* x, int zero, const int8_t* w, int32_t* y) {
  by_channel(pool, a, x, zero, w, y);
}
API void depthwise_signed(void* pool, const long* a, const int8_t* x, int zero, const int8_t* w, int32_t* y) {
  by_channel(pool, a, x, zero, w, y);
}
