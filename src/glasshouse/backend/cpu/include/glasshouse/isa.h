// isa.h: which instruction set a file is compiled for, and how elements lie in memory: all that code needs which only passes
// pointers on. It costs a file nothing to read; the intrinsics behind vec.h cost 0.3 s.
#pragma once
#include <stdint.h>

#if !defined(GH_PLAIN) && defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define GH_AVX512 1
#if defined(GH_AMX)
#define GH_ISA_NS avx512_amx
#else
#define GH_ISA_NS avx512
#endif
#elif !defined(GH_PLAIN) && defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define GH_AVX2 1
#define GH_ISA_NS avx2
#else
#define GH_ISA_NS plain
#endif
#if defined(GH_AMX) && !defined(GH_AVX512)
#undef GH_AMX
#endif
#if defined(GH_AVX512) && defined(__AVX512BF16__)
#define GH_BF16 1
#endif
#if defined(GH_AVX512) && defined(__AVX512VNNI__)
#define GH_VNNI 1
#endif

namespace gh {
inline namespace GH_ISA_NS {

// Storage types. bf16 is the upper half of a float32; f16 is IEEE binary16; f8e4 and f8e5 are float8_e4m3fn and float8_e5m2.
struct bf16 { uint16_t bits; };
struct f16 { uint16_t bits; };
struct f8e4 { uint8_t bits; };
struct f8e5 { uint8_t bits; };

}  // namespace GH_ISA_NS
}  // namespace gh
