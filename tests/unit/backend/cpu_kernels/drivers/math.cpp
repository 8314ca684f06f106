// math.cpp: elementary functions over arrays, and conversions of storage types.
#include "driver.h"
#include "glasshouse/vmath.h"
using namespace gh;

#define MAP(name)                                                                       \
  API void map_##name(long n, const float* x, float* y) {                               \
    for_each_vector(n, [&](long i, auto t) { store(y + i, name(load(x + i, t)), t); }); \
  }
MAP(exp)
MAP(expm1)
MAP(log)
MAP(log1p)
MAP(tanh)
MAP(sigmoid)
MAP(silu)
MAP(softplus)
MAP(erf)
MAP(sin)
MAP(cos)
MAP(tan)
MAP(gelu)
MAP(gelu_tanh)
MAP(exp_nonpos)
static GH_INLINE vf softmax_weight(vf x) { return softmax_exp(x, vf(0.0f)); }
MAP(softmax_weight)
MAP(relu)
MAP(sign)
MAP(floor)
MAP(ceil)
MAP(rint)
MAP(trunc)
MAP(sqrt)

API void map_max(long n, const float* x, const float* y, float* z) {
  for_each_vector(n, [&](long i, auto t) { store(z + i, max(load(x + i, t), load(y + i, t)), t); });
}
API void map_min(long n, const float* x, const float* y, float* z) {
  for_each_vector(n, [&](long i, auto t) { store(z + i, min(load(x + i, t), load(y + i, t)), t); });
}
template <class T>
static void narrow_to(long n, const float* x, void* y) {
  for_each_vector(n, [&](long i, auto t) { store((T*)y + i, load(x + i, t), t); });
}
template <class T>
static void widen_from(long n, const void* x, float* y) {
  for_each_vector(n, [&](long i, auto t) { store(y + i, load((const T*)x + i, t), t); });
}
API void to_bf16(long n, const float* x, void* y) { narrow_to<bf16>(n, x, y); }
API void to_f16(long n, const float* x, void* y) { narrow_to<f16>(n, x, y); }
API void to_i8(long n, const float* x, void* y) { narrow_to<int8_t>(n, x, y); }
API void to_u8(long n, const float* x, void* y) { narrow_to<uint8_t>(n, x, y); }
API void from_bf16(long n, const void* x, float* y) { widen_from<bf16>(n, x, y); }
API void from_f16(long n, const void* x, float* y) { widen_from<f16>(n, x, y); }
API void from_i8(long n, const void* x, float* y) { widen_from<int8_t>(n, x, y); }
API void from_u8(long n, const void* x, float* y) { widen_from<uint8_t>(n, x, y); }
API void positive(long n, const float* x, void* y) {
  for_each_vector(n, [&](long i, auto t) { store_mask((char*)y + i, load(x + i, t) > vf(0.0f), t); });
}
// One element in all lanes.
API void map_splat(long n, const float* x, float* y) {
  for_each_vector(n, [&](long i, auto t) { store(y + i, vf(x[0]), t); });
}
API void where(long n, const void* m, const float* x, float* y) {
  for_each_vector(
      n, [&](long i, auto t) { store(y + i, select(load_mask((const char*)m + i, t), load(x + i, t), vf(-1.0f)), t); });
}
API void lanes(const float* x, float* y) {
  const vf v = load(x);
  y[0] = reduce_add(v), y[1] = reduce_mul(v), y[2] = reduce_max(v), y[3] = reduce_min(v);
}
API long width() { return W; }
