// A model compiled by Glasshouse, for C++17: memory and errors are looked after. NAME.h is what lies below.
//
//   glasshouse::NAME::Model model;                  // or Model("folder with weights.bin", threads)
//   std::vector<float> x(...);
//   auto y = model.run({x.data()});                 // a model with fixed sizes
//   auto y = model.run({x.data()}, {batch});        // sizes in the order of Model::symbols()
//   const float* first = y[0].as<float>();          // beside it: y[0].name, y[0].type, y[0].shape
//
// What goes wrong is thrown: std::invalid_argument and std::out_of_range for what the caller gave,
// std::runtime_error with the library's message for the rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "NAME.h"

namespace glasshouse::NAME {

using Sizes = std::vector<std::int64_t>;

/// A symbolic size and the range that the model was compiled for.
struct Symbol {
  std::string name;
  std::int64_t low, high;
};

/// What an input or output is for given sizes.
struct Tensor {
  std::string name;
  std::string type;  // "float32", "int64" ...
  std::vector<std::int64_t> shape;
  std::size_t bytes = 0;

  std::size_t count() const {
    std::size_t n = 1;
    for (std::int64_t size : shape) n *= static_cast<std::size_t>(size);
    return n;
  }
};

/// An output with its memory.
class Output : public Tensor {
 public:
  explicit Output(Tensor about)
      : Tensor(std::move(about)), memory_(new std::max_align_t[bytes / sizeof(std::max_align_t) + 1]) {}
  void* data() { return memory_.get(); }
  const void* data() const { return memory_.get(); }
  /// The elements, as a type of their size.
  template <typename T>
  T* as() {
    return static_cast<T*>(checked(sizeof(T)));
  }
  template <typename T>
  const T* as() const {
    return static_cast<const T*>(checked(sizeof(T)));
  }

 private:
  void* checked(std::size_t item) const {
    if (count() * item != bytes)
      throw std::invalid_argument(name + " holds " + type + ", whose elements are not " + std::to_string(item) + " bytes long");
    return memory_.get();
  }
  std::unique_ptr<std::max_align_t[]> memory_;
};

/// The model; it can be moved, not copied. One runs one request at a time, further callers wait.
class Model {
 public:
  /// `folder` has weights.bin where the weights are not in the library; 0 threads: one for each processor.
  explicit Model(const std::string& folder = "", int threads = 0)
      : handle_(NAME_create(folder.empty() ? nullptr : folder.c_str(), threads)) {
    if (!handle_) throw std::runtime_error(NAME_error());
  }

  static std::vector<Symbol> symbols() {
    std::vector<Symbol> out;
    for (int i = 0; i < NAME_symbol_count(); ++i) out.push_back({NAME_symbol_name(i), NAME_symbol_low(i), NAME_symbol_high(i)});
    return out;
  }
  static std::vector<Tensor> inputs(const Sizes& sizes = {}) {
    check(sizes);
    std::vector<Tensor> out;
    for (int i = 0; i < NAME_input_count(); ++i) {
      Tensor t{NAME_input_name(i), NAME_input_type(i), {}, 0};
      t.shape.resize(static_cast<std::size_t>(NAME_input_rank(i)));
      NAME_input_shape(i, sizes.data(), t.shape.data());
      t.bytes = static_cast<std::size_t>(NAME_input_bytes(i, sizes.data()));
      out.push_back(std::move(t));
    }
    return out;
  }
  static std::vector<Tensor> outputs(const Sizes& sizes = {}) {
    check(sizes);
    std::vector<Tensor> out;
    for (int i = 0; i < NAME_output_count(); ++i) {
      Tensor t{NAME_output_name(i), NAME_output_type(i), {}, 0};
      t.shape.resize(static_cast<std::size_t>(NAME_output_rank(i)));
      NAME_output_shape(i, sizes.data(), t.shape.data());
      t.bytes = static_cast<std::size_t>(NAME_output_bytes(i, sizes.data()));
      out.push_back(std::move(t));
    }
    return out;
  }

  /// Runs into memory of the caller's: a pointer for each tensor, row-major.
  void run_into(const std::vector<const void*>& from, const std::vector<void*>& to, const Sizes& sizes = {}) {
    check(sizes);
    check_count("inputs", from.size(), NAME_input_count());
    check_count("outputs", to.size(), NAME_output_count());
    if (NAME_run(handle_.get(), from.data(), to.data(), sizes.empty() ? nullptr : sizes.data()))
      throw std::runtime_error(NAME_error());
  }
  /// Runs into new memory.
  std::vector<Output> run(const std::vector<const void*>& from, const Sizes& sizes = {}) {
    std::vector<Output> out;
    std::vector<void*> to;
    for (Tensor& about : outputs(sizes)) out.emplace_back(std::move(about));
    for (Output& output : out) to.push_back(output.data());
    run_into(from, to, sizes);
    return out;
  }

 private:
  static void check_count(const char* what, std::size_t given, int needed) {
    if (given != static_cast<std::size_t>(needed))
      throw std::invalid_argument(std::to_string(given) + " " + what + " given, " + std::to_string(needed) + " needed");
  }
  static void check(const Sizes& sizes) {
    check_count("sizes", sizes.size(), NAME_symbol_count());
    for (int i = 0; i < NAME_symbol_count(); ++i) {
      const std::int64_t size = sizes[static_cast<std::size_t>(i)];
      if (size < NAME_symbol_low(i) || size > NAME_symbol_high(i))
        throw std::out_of_range(std::string(NAME_symbol_name(i)) + " is " + std::to_string(size) + ", compiled for " +
                                std::to_string(NAME_symbol_low(i)) + " to " + std::to_string(NAME_symbol_high(i)));
    }
  }
  struct Destroy {
    void operator()(::NAME* model) const { NAME_destroy(model); }
  };
  std::unique_ptr<::NAME, Destroy> handle_;
};

}  // namespace glasshouse::NAME
