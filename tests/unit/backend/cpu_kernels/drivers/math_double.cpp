// math_double.cpp: elementary functions of float64 over arrays, and conversions.
#include "driver.h"
#include "glasshouse/vmath_double.h"
using namespace gh;

#define MAP(name)                                                                       \
  API void map_##name(long n, const double* x, double* y) {                             \
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
MAP(gelu)
MAP(gelu_tanh)
MAP(relu)
MAP(abs)
MAP(floor)
MAP(ceil)
MAP(rint)
MAP(trunc)
MAP(sqrt)
MAP(asin)

#define MAP2(name)                                                                                      \
  API void map_##name(long n, const double* x, const double* y, double* z) {                            \
    for_each_vector(n, [&](long i, auto t) { store(z + i, name(load(x + i, t), load(y + i, t)), t); }); \
  }
MAP2(max)
MAP2(min)
MAP2(copysign)
MAP2(pow)

API void map_pow_float(long n, const float* x, const float* y, float* z) {
  for_each_vector(n, [&](long i, auto t) { store(z + i, pow(load(x + i, t), load(y + i, t)), t); });
}

// Where x < y, x; otherwise -1.
API void map_less(long n, const double* x, const double* y, double* z) {
  for_each_vector(n, [&](long i, auto t) {
    vd a = load(x + i, t);
    store(z + i, select(a < load(y + i, t), a, vd(-1.0)), t);
  });
}
// One element in all lanes.
API void map_splat(long n, const double* x, double* y) {
  for_each_vector(n, [&](long i, auto t) { store(y + i, vd(x[0]), t); });
}
API void to_float(long n, const double* x, float* y) {
  for_each_vector(n, [&](long i, auto t) { store(y + i, narrow(load(x + i, t)), t); });
}
API void from_float(long n, const float* x, double* y) {
  for_each_vector(n, [&](long i, auto t) { store(y + i, widen(load(x + i, t)), t); });
}
API void lanes(const double* x, double* y) {
  const vd v = load(x);
  y[0] = reduce_add(v), y[1] = reduce_mul(v), y[2] = reduce_max(v), y[3] = reduce_min(v);
}
API long width() { return W; }
