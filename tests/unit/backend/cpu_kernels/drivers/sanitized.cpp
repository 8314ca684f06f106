// sanitized.cpp: every kernel over awkward sizes on exactly sized heap blocks, for the address and undefined-behaviour
// sanitizers to watch. Results are checked by the other tests; here only a wrong access or a wrong shift ends it.
#include "conv.cpp"
#include "gemm.cpp"
#include "rows.cpp"
#include "transposed.cpp"
#include <initializer_list>
#include <stdio.h>

template <class T = float>
struct Heap {
  T* p;
  explicit Heap(long n) : p((T*)malloc((n ? n : 1) * sizeof(T))) {
    for (long i = 0; i < n; i++) {
      if constexpr (sizeof(T) == 4) p[i] = (T)((i * 7919 % 201) * 0.01 - 1.0);
      else memset((void*)(p + i), (int)(i % 60), sizeof(T));
    }
  }
  ~Heap() { free(p); }
  operator T*() { return p; }
};

static void convolutions(void* pool) {
  const long cases[][16] = {
      {1, 6, 6, 16, 6, 6, 16, 1, 1, 1, 1, 0, 0, 1, 1, 1},     {2, 9, 7, 5, 9, 7, 7, 3, 3, 1, 1, 1, 1, 1, 1, 1},
      {1, 10, 8, 6, 5, 4, 8, 3, 3, 2, 2, 1, 1, 1, 1, 2},      {1, 17, 30, 20, 17, 30, 33, 5, 5, 1, 1, 2, 2, 1, 1, 1},
      {1, 12, 20, 16, 12, 20, 40, 3, 3, 1, 1, 2, 2, 2, 2, 1}, {2, 31, 40, 3, 16, 20, 17, 7, 7, 2, 2, 3, 3, 1, 1, 1},
      {1, 5, 34, 8, 2, 17, 20, 2, 2, 2, 2, 0, 0, 1, 1, 1}};
  for (auto& a : cases) {
    ConvShape s = shape(a);
    Heap<> x(s.N * s.H * s.W_in * s.C), w(s.OC * s.K()), b(s.OC), y(s.N * s.OH * s.OW * s.OC), dw(s.OC * s.K());
    conv(pool, 0, a, x, w, b, y);
    conv(pool, 1, a, x, w, b, y);
    conv_bf16(pool, a, x, w, y);
    if (s.kh == 3 && s.kw == 3 && s.sh == 1 && s.dh == 1 && s.groups == 1)
      conv(pool, 2, a, x, w, b, y), conv(pool, 4, a, x, w, b, y);
    for (int way = 0; way < (s.groups == 1 ? 3 : 2); way++) input_grad(pool, way, a, y, w, x);
    weight_grad(pool, 0, a, x, y, dw), weight_grad(pool, 1, a, x, y, dw);
  }
  const long d[16] = {1, 9, 11, 20, 9, 11, 20, 3, 3, 1, 1, 1, 1, 1, 1, 20};
  Heap<> x(9 * 11 * 20), w(180), b(20), y(9 * 11 * 20);
  conv(pool, 5, d, x, w, b, y);
  const long few[][16] = {{2, 9, 7, 5, 9, 7, 3, 3, 3, 1, 1, 1, 1, 1, 1, 1}, {1, 3, 70, 2, 5, 67, 8, 3, 4, 1, 1, 2, 0, 1, 1, 1}};
  for (auto& a : few) {
    ConvShape s = shape(a);
    Heap<> x(s.N * s.H * s.W_in * s.C), w(s.OC * s.K()), b(s.OC), y(s.N * s.OH * s.OW * s.OC);
    few_filters(pool, a, x, w, b, y);
  }
}
static void products(void* pool) {
  const long cases[][3] = {{1, 1, 1}, {1, 33, 17}, {3, 31, 5}, {7, 40, 33}, {15, 96, 31}, {29, 100, 130}, {57, 34, 1024}};
  for (auto& c : cases) {
    long M = c[0], N = c[1], K = c[2];
    Heap<> a(M * K), b(K * N), bias(N), out(M * N), wide(2 * K * N);
    Heap<bf16> ah(M * K), bh(K * N);
    Heap<uint8_t> au(M * K);
    Heap<int8_t> bi(K * N);
    Heap<f16> a16(M * K), b16(K * N);
    Heap<double> a64(3 * M * K), b64(3 * K * N), out64(3 * M * N);
    for (int form = 0; form < 3; form++)
      for (int bt = 0; bt < 2; bt++) {
        product_f32(pool, form, M, N, K, a, b, bt, bias, out);
        product_mixed(pool, form, M, N, K, a, b, bt, bias, out);
        product_bf16(pool, form, M, N, K, ah, bh, bt, bias, out);
        product_i8(pool, form, M, N, K, au, bi, bt, bias, out);
        product_f16(pool, form, M, N, K, a16, b16, bt, bias, out);
        product_f64(pool, form, M, N, K, a64, b64, bt, out64);
      }
    product_strided(pool, M, N, K, a, wide, out);
    product_batched_f64(pool, 3, M, N, K, a64, b64, out64);
    Heap<> a3(3 * M * K), b3(3 * K * N), out3(3 * M * N);
    product_batched(pool, 3, M, N, K, a3, b3, 0, 1, out3);
  }
}
static void rows(void* pool) {
  for (long n : {1L, 3L, 17L, 65L, 130L}) {
    Heap<> x(40 * n), y(40 * n);
    turn4(pool, 1, 40, n, x, y), turn2(pool, 2, 40, n, x, y);
  }
  const long pools[][15] = {{2, 20, 9, 11, 5, 6, 3, 3, 2, 2, 1, 1, 1, 1, 1}, {1, 5, 7, 6, 5, 4, 3, 3, 1, 1, 1, 1, 2, 2, 0}};
  for (auto& a : pools) {
    Heap<> x(a[0] * a[1] * a[2] * a[3]), y(a[0] * a[1] * a[4] * a[5]);
    for (int i = 0; i < 4; i++) pool2d(pool, i / 2, i % 2, a, x, y);
  }
  Heap<int64_t> idx(50);
  for (int i = 0; i < 50; i++) idx[i] = i % 22 - 11;
  Heap<> table(11 * 70), out(50 * 70);
  gather(pool, 50, 70, 11, idx, table, out), scatter(pool, 50, 70, 11, idx, out, table);
  const long att[][9] = {{1, 3, 3, 20, 20, 16, 16, 0, 0},
                         {2, 4, 2, 37, 53, 41, 24, 1, 0},
                         {1, 2, 1, 15, 1100, 8, 17, 0, 0},
                         {1, 2, 2, 5, 40, 16, 16, 1, 1}};
  for (auto& d : att) {
    Heap<> q(d[0] * d[3] * d[1] * d[5]), k(d[0] * d[4] * d[2] * d[5]), v(d[0] * d[4] * d[2] * d[6]), m(d[0] * d[3] * d[4]),
        o(d[0] * d[3] * d[1] * d[6]);
    attend_f32(pool, d, 0.3f, q, k, v, m, o), attend_bf16(pool, d, 0.3f, q, k, v, nullptr, o);
  }
}

int main() {
  void* pool = pool_new(2);
  convolutions(pool);
  products(pool);
  rows(pool);
  pool_free(pool);
  puts("clean");
}
