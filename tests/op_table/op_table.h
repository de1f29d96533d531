// Every public op by name: how inputs and a JSON object of attributes, named as in PyTorch, become
// a call of brim. What compares brim with PyTorch (tests/golden, tests/differential) calls ops
// through this table only.
#pragma once

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <brim/core/pair.h>
#include <brim/core/tensor.h>

namespace brim::tests {

using Json = nlohmann::json;

/// What a table's function sees of a case: inputs and attributes.
struct Call {
  std::vector<Tensor> in;
  Json attrs;
  Device device = {};  ///< for ops without inputs

  const Tensor& operator[](size_t i) const { return in.at(i); }
  const Tensor& back() const { return in.back(); }
  template <class T>
  T get(const char* key) const {
    return attrs.at(key).get<T>();
  }
  bool has(const char* key) const { return attrs.contains(key) && !attrs.at(key).is_null(); }
  template <class T>
  T get(const char* key, T otherwise) const {
    return has(key) ? get<T>(key) : otherwise;
  }
  int integer(const char* key) const { return get<int>(key); }
  /// A number; JSON has no others than finite ones, so "inf", "-inf" and "nan" are texts.
  double number(const char* key) const {
    const Json& value = attrs.at(key);
    return value.is_string() ? std::stod(value.get<std::string>()) : value.get<double>();
  }
  std::optional<double> optional_number(const char* key) const {
    return has(key) ? std::optional(number(key)) : std::nullopt;
  }
  double number(const char* key, double otherwise) const {
    return optional_number(key).value_or(otherwise);
  }
  bool flag(const char* key) const { return get<bool>(key, false); }
  std::string text(const char* key) const { return get<std::string>(key); }
  std::vector<int64_t> integers(const char* key) const { return get<std::vector<int64_t>>(key); }
  DType dtype(DType otherwise = f32) const {
    return has("dtype") ? parse_dtype(text("dtype")) : otherwise;
  }
  TensorOptions options(DType otherwise = f32) const {
    return {.dtype = dtype(otherwise), .device = device};
  }
  /// Axes: a list, one number, or none (all of them).
  std::vector<int> axes(const char* key = "dim") const {
    if (!has(key)) return {};
    if (attrs.at(key).is_array()) return get<std::vector<int>>(key);
    return {integer(key)};
  }
  /// One axis, or none.
  std::optional<int> axis() const {
    return has("dim") ? std::optional(integer("dim")) : std::nullopt;
  }
  Shape shape(const char* key) const { return Shape(std::span<const int64_t>(integers(key))); }
  Pair pair(const char* key, Pair otherwise = 0) const {
    return has(key) ? Pair(integers(key).at(0), integers(key).at(1)) : otherwise;
  }
  /// The inputs behind the first `count`, one by one as their flags say that they are there.
  auto optional_inputs(size_t count) const {
    return [this, next = count](const char* flag_name) mutable {
      return flag(flag_name) ? in.at(next++) : Tensor();
    };
  }
};

/// The results of an op, however many.
struct Outputs : std::vector<Tensor> {
  Outputs(const Tensor& one) : std::vector<Tensor>{one} {}
  Outputs(std::vector<Tensor> many) : std::vector<Tensor>(std::move(many)) {}
  Outputs(std::initializer_list<Tensor> many) : std::vector<Tensor>(many) {}
};

/// Of an op that gives values and where they are.
template <class T>
Outputs both(const T& found) {
  return {found.values, found.indices};
}

using OpTable = std::map<std::string, std::function<Outputs(const Call&)>>;

// The families; op_table() has them all.
OpTable elementwise_ops();
OpTable reduction_ops();
OpTable movement_ops();
OpTable index_ops();
OpTable layer_ops();
/// Ops in a row, as the passes of compiled steps fuse them.
OpTable chain_ops();

const OpTable& op_table();

}  // namespace brim::tests
