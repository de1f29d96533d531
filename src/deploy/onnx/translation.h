// The table of what kernels are in ONNX. A file of kernels/ registers its own.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <brim/ops/int8.h>

#include "backend/launch.h"
#include "core/check.h"
#include "deploy/onnx/graph.h"
#include "deploy/onnx/memory.h"

namespace brim::deploy {

/// One launch, recorded with two batches, while it becomes nodes.
class Translated {
 public:
  /// Of a layer in integers by its packed weight, as Int8Weight::packed; null: of none.
  struct Int8Layer {
    std::string name;  ///< of its weight
    const Int8Weight* weight = nullptr;
  };
  using FindInt8 = std::function<Int8Layer(const Storage* packed)>;
  struct Product {
    Value x, weight, bias;  ///< bias: "" for none
  };
  /// By the storage that a linear layer wrote.
  using Products = std::map<const Storage*, Product>;

  /// What all launches of an export share.
  struct Shared {
    OnnxGraph& graph;
    OnnxMemory& memory;
    std::pair<int64_t, int64_t> batches;
    bool symmetric_int8;
    FindInt8 find_int8;
    Products products;
  };

  Translated(Shared& shared, const backend::Launch& first, const backend::Launch& second)
      : graph(shared.graph),
        symmetric_int8(shared.symmetric_int8),
        shared_(shared),
        first_(first),
        second_(second) {}

  OnnxGraph& graph;
  const bool symmetric_int8;  ///< OnnxOptions

  std::string_view kernel() const { return first_.name(); }
  /// Whether the operand was given.
  bool has(std::string_view operand) const { return first_.operand(operand).defined(); }
  Extents shape(std::string_view operand) const { return window(operand).shape; }
  DType dtype(std::string_view operand) const { return first_.operand(operand).dtype(); }
  size_t rank(std::string_view operand) const {
    return static_cast<size_t>(first_.operand(operand).rank());
  }
  Output like(std::string_view operand) const { return {shape(operand), dtype(operand)}; }

  /// The elements of an operand.
  Value in(std::string_view operand) { return shared_.memory.read(window(operand)); }
  /// For operators that broadcast.
  Value in_broadcast(std::string_view operand) {
    return shared_.memory.read(window(operand), true);
  }
  /// For operators that take any number of leading axes: of other leading sizes than the operand.
  Value in_rows(std::string_view operand);
  /// The parameter, or `value` for each element of `shape`.
  Value in_or(std::string_view operand, double value, const Extents& shape, DType dtype) {
    return has(operand) ? in(operand) : filled(value, shape, dtype);
  }
  /// `count` elements of `value`.
  Value filled(double value, int64_t count, DType dtype) {
    return filled(value, Extents{count}, dtype);
  }
  Value filled(double value, const Extents& shape, DType dtype);
  void out(std::string_view operand, const Value& value);
  /// Whatever leading axes `value` has.
  void out_rows(std::string_view operand, const Value& value);

  /// Only step `index` of axis 0.
  void out_step(std::string_view operand, int64_t index, const Value& value);

  /// The operands of the linear layer that made an operand, or undefined ones.
  Product product_of(std::string_view operand) const;
  void keep_product(std::string_view operand, const Product& product);

  /// An operand that was there before the pass: its numbers are known. Undefined where it was not.
  Tensor constant(std::string_view operand) const {
    const Tensor& x = first_.operand(operand);
    return x.defined() && x.storage()->data() ? x : Tensor();
  }

  /// The kernel's option. Throws NotImplemented where it depends on the batch.
  template <class T>
  const T& option() const {
    const T* a = first_.option<T>();
    const T* b = second_.option<T>();
    BRIM_CHECK(a && b && *a == *b, deploy::DependsOnBatch, "an option depends on the batch");
    return *a;
  }
  /// Of options that depend on the batch in part: those of both recordings.
  template <class T>
  std::pair<const T&, const T&> both() const {
    return {*first_.option<T>(), *second_.option<T>()};
  }
  /// Of options that hold the sizes of operands.
  template <class T>
  const T& sizes() const {
    return *first_.option<T>();
  }
  Int8Layer int8_layer() const {
    return shared_.find_int8(first_.operand("packed").storage().get());
  }

  Window window(std::string_view operand) const;

 private:
  Shared& shared_;
  const backend::Launch& first_;
  const backend::Launch& second_;
};

/// The elements of a tensor of both recordings, as a function of the batch. Throws NotImplemented.
Window window_of(const Tensor& first, const Tensor& second, std::pair<int64_t, int64_t> batches);

/// Throws NotImplemented where ONNX has nothing for what the launch does; without a place.
using Translation = void (*)(Translated& t);

/// For a variable of static lifetime; `operators`: as in OnnxKernel.
bool register_translation(const char* kernel, const char* operators, Translation translation);
/// Null where there is none.
Translation find_translation(std::string_view kernel);

}  // namespace brim::deploy
