// What a call of a saved model gives, looked at before any of it is read. A model without symbols needs no sizes.
static int gh_check_call(const void* model, const void* const* inputs, void* const* outputs, const int64_t*& sizes) {
  static const int64_t none[1] = {0};
  if (!model) return gh_fail("there is no model: none was created, or it was moved away", "");
  if (!sizes) {
    if (kGhSymbolCount) return gh_fail("sizes of the symbols are needed", "");
    sizes = none;
  }
  for (int i = 0; i < kGhSymbolCount; ++i)
    if (sizes[i] < kGhSymbols[i].low || sizes[i] > kGhSymbols[i].high)
      return gh_fail("a size lies outside of the range that was compiled for", kGhSymbols[i].name);
  for (int i = 0; i < kGhInputCount; ++i)
    if (!(inputs && inputs[i]) && GH_NAME(input_bytes)(i, sizes) > 0) return gh_fail("an input is NULL", kGhInputs[i].name);
  for (int i = 0; i < kGhOutputCount; ++i)
    if (!(outputs && outputs[i]) && GH_NAME(output_bytes)(i, sizes) > 0)
      return gh_fail("an output is NULL", kGhOutputs[i].name);
  return 0;
}
