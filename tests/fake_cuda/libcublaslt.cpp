// cuBLASLt as far as it is used, without a GPU: products on the host, in float32 or float64, started through the fake driver (libcuda.cpp),
// so that what is captured runs when its graph does. Attributes have the library's numbers.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define API extern "C" __attribute__((visibility("default")))

namespace {
typedef void (*Start)(void (*)(const void*, size_t), const void*, size_t);
Start start;
int refuses = 0, room_asked = 0;
int64_t refused_columns = 0;

struct Product {
  int compute, transposed[2], epilogue;
  const void* bias;
};
struct Layout {
  int type;
  int64_t inner, outer, step;
};
struct Found {
  uint64_t algorithm[8];
  size_t room;
  int status;
  float waves;
  int reserved[4];
};
struct Call {
  Product product;
  Layout a, b, d;
  const void *left, *right, *added;
  void* out;
  double alpha, beta;
};
float of_half(uint16_t h) {
  _Float16 x;
  memcpy(&x, &h, 2);
  return (float)x;
}
double at(const void* p, int64_t i, int type) {
  if (type == 1) return ((const double*)p)[i];
  if (type == 0) return ((const float*)p)[i];
  if (type == 2) return of_half(((const uint16_t*)p)[i]);
  const uint32_t wide = (uint32_t)((const uint16_t*)p)[i] << 16;
  float x;
  memcpy(&x, &wide, 4);
  return x;
}
void put(void* p, int64_t i, int type, double exact) {
  const float x = (float)exact;
  if (type == 1) ((double*)p)[i] = exact;
  else if (type == 0) ((float*)p)[i] = x;
  else if (type == 2) {
    const _Float16 h = (_Float16)x;
    memcpy((uint16_t*)p + i, &h, 2);
  } else {
    uint32_t wide;
    memcpy(&wide, &x, 4);
    ((uint16_t*)p)[i] = (uint16_t)((wide + 0x7FFF + (wide >> 16 & 1)) >> 16);
  }
}
// Element k of line `line`: a line lies together where `along`.
double element(const void* p, const Layout& l, bool along, int64_t line, int64_t k) {
  return at(p, along ? line * l.step + k : k * l.step + line, l.type);
}
int64_t depth(const Layout& l, bool along) { return along ? l.inner : l.outer; }
int64_t lines(const Layout& l, bool along) { return along ? l.outer : l.inner; }
void run(const void* data, size_t) {
  const Call& c = *(const Call*)data;
  const int type = c.d.type;
  const bool first = c.product.transposed[0], second = !c.product.transposed[1];
  for (int64_t column = 0; column < c.d.outer; ++column)
    for (int64_t row = 0; row < c.d.inner; ++row) {
      double sum = 0;
      for (int64_t k = 0; k < depth(c.a, first); ++k) {
        sum += element(c.left, c.a, first, row, k) * element(c.right, c.b, second, column, k);
        if (c.product.compute != 70) sum = (float)sum;
      }
      const int64_t place = column * c.d.step + row;
      double x = c.alpha * sum;
      if (c.beta != 0) x += c.beta * at(c.added, place, type);
      if (c.product.epilogue & 4) x += at(c.product.bias, row, type);
      if (c.product.epilogue & 2) x = x < 0 ? 0 : x;
      if (c.product.epilogue & 32) x = 0.5 * x * (1 + tanh(0.7978845608 * (x + 0.044715 * x * x * x)));
      put(c.out, place, type, x);
    }
}
}  // namespace

API void fake_starts_with(void* function) { start = (Start)function; }
API void fake_refuses(int whether) { refuses = whether, refused_columns = 0; }
// Products with so many columns are refused when they are to begin, though there is an algorithm.
API void fake_refuses_columns(int64_t count) { refused_columns = count; }
API size_t cublasLtGetVersion() { return 130000; }
API int cublasLtCreate(void** h) { return *h = (void*)1, 0; }
API int cublasLtMatmulDescCreate(void** made, int compute, int) { return *made = new Product{compute, {0, 0}, 1, nullptr}, 0; }
API int cublasLtMatmulDescDestroy(void* made) { return delete (Product*)made, 0; }
API int cublasLtMatmulDescSetAttribute(void* product, int which, const void* value, size_t bytes) {
  Product* p = (Product*)product;
  if ((which == 3 || which == 4) && bytes == 4) return memcpy(&p->transposed[which - 3], value, 4), 0;
  if (which == 7 && bytes == 4) return memcpy(&p->epilogue, value, 4), 0;
  if (which == 8 && bytes == 8) return memcpy(&p->bias, value, 8), 0;
  return 7;
}
API int cublasLtMatrixLayoutCreate(void** made, int type, uint64_t inner, uint64_t outer, int64_t step) {
  return *made = new Layout{type, (int64_t)inner, (int64_t)outer, step}, 0;
}
API int cublasLtMatrixLayoutDestroy(void* made) { return delete (Layout*)made, 0; }
API int cublasLtMatmulPreferenceCreate(void** made) { return *made = (void*)1, 0; }
API int cublasLtMatmulPreferenceDestroy(void*) { return 0; }
// What operands are aligned to, as algorithms were chosen for it.
static uint32_t alignment[4] = {256, 256, 256, 256}, promised[4];
API int cublasLtMatmulPreferenceSetAttribute(void*, int which, const void* value, size_t bytes) {
  if (which == 1 && bytes == 8) return memcpy(&room_asked, value, 4), 0;
  if (which >= 5 && which <= 8 && bytes == 4) return memcpy(&alignment[which - 5], value, 4), 0;
  return which == 3 && bytes == 4 ? 0 : 7;
}
API int cublasLtMatmulAlgoGetHeuristic(void*, void*, void*, void*, void*, void*, void*, int, Found* found, int* count) {
  *count = !refuses;
  memcpy(promised, alignment, sizeof promised);
  found->room = (size_t)room_asked, found->status = 0;
  return 0;
}
static double number(const void* p, int compute) { return compute == 70 ? *(const double*)p : *(const float*)p; }
API int cublasLtMatmul(void*, void* product, const void* alpha, const void* a, void* al, const void* b, void* bl,
                       const void* beta, const void* c, void* cl, void* d, void* dl, const void*, void* room, size_t bytes,
                       void*) {
  const Product& p = *(Product*)product;
  const void* given[] = {a, b, c, d};
  for (int i = 0; i < 4; ++i)
    if ((uintptr_t)given[i] % promised[i]) return 7;
  Call call = {p, *(Layout*)al, *(Layout*)bl, *(Layout*)dl, a, b, c, d, number(alpha, p.compute), number(beta, p.compute)};
  const bool first = p.transposed[0], second = !p.transposed[1];
  if (p.compute != (call.d.type == 1 ? 70 : 68) || cl != dl || (int)bytes != room_asked || (uint64_t)room % 256) return 7;
  if (depth(call.a, first) != depth(call.b, second) || call.d.inner != lines(call.a, first) ||
      call.d.outer != lines(call.b, second))
    return 7;
  if (call.d.inner == refused_columns) return 7;
  memset(room, 0x5A, bytes);
  start(run, &call, sizeof call);
  return 0;
}
