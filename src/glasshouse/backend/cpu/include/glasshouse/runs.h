// runs.h: elements that lie side by side, moved as they are: forwards, backwards, or one of them many times.
//
// Contract
// - `copy_run(to, from, n)`: to[i] = from[i]; the two are the same memory or do not overlap.
// - `reverse_run(to, from, n)`: to[i] = from[-i]; they do not overlap.
// - `fill_run(to, value, n)`: to[i] = value.
// - Bytes are moved: NaNs keep theirs. Lengths that are known where they are called become single moves.
#pragma once
#include "vec.h"

namespace gh {
inline namespace GH_ISA_NS {

constexpr size_t kVectorBytes = W * 4;
// Lengths that are known become moves without a call up to here.
constexpr size_t kLongRun = 8 * kVectorBytes;

// Whole vectors at the places of cache lines, between one at either end: a third faster than memcpy on Zen 4 from 200 KB on.
inline GH_NOINLINE void copy_bytes(char *to, const char *from, size_t bytes) {
  if (bytes < kVectorBytes) {
    __builtin_memcpy(to, from, bytes);
    return;
  }
  typedef char lanes __attribute__((vector_size(kVectorBytes)));
  lanes first, last, x[4];
  __builtin_memcpy(&first, from, kVectorBytes);
  __builtin_memcpy(&last, from + bytes - kVectorBytes, kVectorBytes);
  size_t i = kVectorBytes - ((uintptr_t)to & (kVectorBytes - 1));
  for (; i + 4 * kVectorBytes <= bytes; i += 4 * kVectorBytes) {
    GH_UNROLL for (int k = 0; k < 4; k++) __builtin_memcpy(&x[k], from + i + k * kVectorBytes, kVectorBytes);
    GH_UNROLL for (int k = 0; k < 4; k++) __builtin_memcpy(to + i + k * kVectorBytes, &x[k], kVectorBytes);
  }
  for (; i + kVectorBytes <= bytes; i += kVectorBytes) {
    __builtin_memcpy(&x[0], from + i, kVectorBytes);
    __builtin_memcpy(to + i, &x[0], kVectorBytes);
  }
  __builtin_memcpy(to, &first, kVectorBytes);
  __builtin_memcpy(to + bytes - kVectorBytes, &last, kVectorBytes);
}

template <class T>
GH_INLINE void copy_run(T *to, const T *from, long n) {
  const size_t bytes = (size_t)n * sizeof(T);
  if (!__builtin_constant_p(bytes) || bytes > kLongRun) {
    copy_bytes((char *)to, (const char *)from, bytes);
    return;
  }
  if (bytes <= kVectorBytes) {
    __builtin_memcpy((void *)to, from, bytes);
    return;
  }
  size_t i = 0;
  for (; i + kVectorBytes <= bytes; i += kVectorBytes) __builtin_memcpy((char *)to + i, (const char *)from + i, kVectorBytes);
  if (i < bytes) __builtin_memcpy((char *)to + bytes - kVectorBytes, (const char *)from + bytes - kVectorBytes, kVectorBytes);
}

template <size_t Bytes> struct BitsOf;
template <> struct BitsOf<1> { typedef uint8_t type; };
template <> struct BitsOf<2> { typedef uint16_t type; };
template <> struct BitsOf<4> { typedef uint32_t type; };
template <> struct BitsOf<8> { typedef uint64_t type; };

template <class V, int... I>
GH_INLINE V reversed_lanes(V x, Lanes<I...>) {
  return __builtin_shufflevector(x, x, ((int)sizeof...(I) - 1 - I)...);
}

template <class T>
GH_INLINE void reverse_run(T *to, const T *from, long n) {
  typedef typename BitsOf<sizeof(T)>::type B;
  constexpr int N = (int)(kVectorBytes / sizeof(T) < (size_t)W ? kVectorBytes / sizeof(T) : W);
  typedef B V __attribute__((vector_size(N * sizeof(B))));
  long i = 0;
  for (; i + N <= n; i += N) {
    V x;
    __builtin_memcpy(&x, from - i - (N - 1), sizeof x);
    x = reversed_lanes(x, typename MakeLanes<N>::type{});
    __builtin_memcpy((void *)(to + i), &x, sizeof x);
  }
  for (; i < n; i++) __builtin_memcpy((void *)(to + i), from - i, sizeof(T));
}

template <class T>
GH_INLINE void fill_run(T *to, T value, long n) {
#pragma GCC ivdep
  for (long i = 0; i < n; i++) to[i] = value;
}

}  // namespace GH_ISA_NS
}  // namespace gh
