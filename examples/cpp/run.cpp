// Runs a saved model without Python: ./run FOLDER [INPUT.bin ...]
//
// Inputs are raw row-major bytes, one file each; without files they are filled with small numbers. Outputs are written to
// output_0.bin, output_1.bin ... and their first values printed. examples/cpp/README.md says how to build this.
#include "model.h"

#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

static bool read_file(const char* path, std::vector<char>& into) {
  FILE* file = std::fopen(path, "rb");
  if (!file) return false;
  const size_t got = std::fread(into.data(), 1, into.size(), file);
  const bool whole = got == into.size() && std::fgetc(file) == EOF;
  std::fclose(file);
  return whole;
}

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: %s FOLDER [INPUT.bin ...]\n", argv[0]), 2;
  if (model_symbol_count()) return std::fprintf(stderr, "this example runs models with fixed sizes\n"), 2;
  model* m = model_create(argv[1], 0);
  if (!m) return std::fprintf(stderr, "%s\n", model_error()), 1;

  std::vector<std::vector<char>> inputs, outputs;
  std::vector<const void*> from;
  std::vector<void*> to;
  for (int i = 0; i < model_input_count(); ++i) {
    inputs.emplace_back(model_input_bytes(i, nullptr));
    std::vector<char>& data = inputs.back();
    if (i + 2 < argc) {
      if (!read_file(argv[i + 2], data)) return std::fprintf(stderr, "%s: not %zu bytes\n", argv[i + 2], data.size()), 2;
    } else if (!std::strcmp(model_input_type(i), "float32")) {
      float* numbers = (float*)data.data();
      for (size_t k = 0; k < data.size() / 4; ++k) numbers[k] = float(k % 17) / 17;
    }
  }
  for (int i = 0; i < model_output_count(); ++i) outputs.emplace_back(model_output_bytes(i, nullptr));
  for (auto& data : inputs) from.push_back(data.data());
  for (auto& data : outputs) to.push_back(data.data());

  const auto begin = std::chrono::steady_clock::now();
  if (model_run(m, from.data(), to.data(), nullptr)) return std::fprintf(stderr, "%s\n", model_error()), 1;
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;

  for (int i = 0; i < model_output_count(); ++i) {
    const std::string name = "output_" + std::to_string(i) + ".bin";
    if (FILE* file = std::fopen(name.c_str(), "wb")) {
      std::fwrite(outputs[i].data(), 1, outputs[i].size(), file);
      std::fclose(file);
    }
    std::printf("output %d: %s, %zu bytes", i, model_output_type(i), outputs[i].size());
    if (!std::strcmp(model_output_type(i), "float32") && outputs[i].size() >= 12) {
      const float* numbers = (const float*)outputs[i].data();
      std::printf(", begins with %g %g %g", numbers[0], numbers[1], numbers[2]);
    }
    std::puts("");
  }
  std::printf("first run: %.3f ms\n", took.count());
  model_destroy(m);
}
