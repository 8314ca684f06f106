// What a saved model tells of its tensors and sizes.
#define GH_TENSORS(kind, list, count, shape)                                                               \
  GH_API int GH_NAME(kind##_count)(void) { return count; }                                                 \
  GH_API const char* GH_NAME(kind##_name)(int i) { return i >= 0 && i < count ? list[i].name : nullptr; }  \
  GH_API const char* GH_NAME(kind##_type)(int i) { return i >= 0 && i < count ? list[i].type : nullptr; }  \
  GH_API int GH_NAME(kind##_rank)(int i) { return i >= 0 && i < count ? list[i].rank : -1; }               \
  GH_API void GH_NAME(kind##_shape)(int i, const int64_t* sizes, int64_t* dims) { shape(i, sizes, dims); } \
  GH_API int64_t GH_NAME(kind##_bytes)(int i, const int64_t* sizes) {                                      \
    if (i < 0 || i >= count) return -1;                                                                    \
    int64_t dims[64], bytes = list[i].item;                                                                \
    shape(i, sizes, dims);                                                                                 \
    for (int d = 0; d < list[i].rank; ++d) bytes *= dims[d];                                               \
    return bytes;                                                                                          \
  }
GH_TENSORS(input, kGhInputs, kGhInputCount, gh_input_shape)
GH_TENSORS(output, kGhOutputs, kGhOutputCount, gh_output_shape)

GH_API int GH_NAME(symbol_count)(void) { return kGhSymbolCount; }
GH_API const char* GH_NAME(symbol_name)(int i) { return i >= 0 && i < kGhSymbolCount ? kGhSymbols[i].name : nullptr; }
GH_API int64_t GH_NAME(symbol_low)(int i) { return i >= 0 && i < kGhSymbolCount ? kGhSymbols[i].low : 0; }
GH_API int64_t GH_NAME(symbol_high)(int i) { return i >= 0 && i < kGhSymbolCount ? kGhSymbols[i].high : -1; }
