// An ONNX graph while it is built, and its file (onnx.proto of onnx 1.15, opset 20).
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <brim/core/tensor.h>
#include <brim/deploy/onnx.h>

#include "deploy/onnx/extent.h"

namespace brim::deploy {

inline constexpr int64_t kOnnxOpset = 20, kOnnxIr = 9;

/// A tensor of the graph by its name, "" for one that is left out.
struct Value {
  std::string name;
  Extents shape;
  DType dtype = DType::f32;
};

/// Also the name of an element type, for "to" of Cast.
int64_t onnx_type(DType dtype);

struct Attribute {
  std::string name;
  std::variant<int64_t, float, std::string, std::vector<int64_t>, Tensor> value;
};

/// What a node puts out.
struct Output {
  Extents shape;
  DType dtype;
};

struct Node {
  std::string op, name;
  std::vector<std::string> inputs, outputs;
  std::vector<Attribute> attributes;
  std::vector<Output> made;  ///< of each output
};

/// A weight or constant.
struct Initializer {
  std::string name;
  Tensor tensor;  ///< row-major, on the host
};

/// An input or output of the graph.
struct Port {
  std::string name;
  Extents shape;
  DType dtype;
};

class OnnxGraph {
 public:
  /// Keeps the name of an input or output for it.
  void reserve(const std::string& name) { ++taken_[name]; }
  /// Of the graph. Its name, and those of outputs, are reserved before anything is added.
  Value input(const std::string& name, Extents shape, DType dtype);
  /// Makes `value` an output of that name.
  void output(const std::string& name, const Value& value);

  /// What stands in front of the names of nodes from now on: a module.
  void set_scope(std::string scope) { scope_ = std::move(scope); }

  Value add(std::string_view op, const std::vector<Value>& inputs, Output output,
            std::vector<Attribute> attributes = {});
  std::vector<Value> add_many(std::string_view op, const std::vector<Value>& inputs,
                              const std::vector<Output>& outputs,
                              std::vector<Attribute> attributes = {});

  /// A tensor of the file, row-major whatever its strides are. Another one of the name gets a
  /// number.
  Value initializer(const std::string& name, const Tensor& tensor);
  /// A small constant; equal ones are one.
  Value integers(const std::vector<int64_t>& values);
  /// Of rank 0.
  Value scalar(double value, DType dtype);

  /// A shape as a tensor of integers, computed from the batch where it depends on it.
  Value shape_of(const Extents& shape);
  /// These are no-ops where nothing changes.
  Value reshape(const Value& x, const Extents& shape);
  Value transpose(const Value& x, const std::vector<int>& order);
  Value cast(const Value& x, DType dtype);
  /// Elements start, start + step, .. before stop along an axis.
  Value slice(const Value& x, size_t axis, Extent start, Extent stop, int64_t step = 1);
  Value reversed(const Value& x, size_t axis);
  Value expand(const Value& x, const Extents& shape);

  /// Drops what no output needs; what is left.
  OnnxSummary prune();

  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<Initializer>& initializers() const { return initializers_; }
  const std::vector<Port>& inputs() const { return inputs_; }
  const std::vector<Port>& outputs() const { return outputs_; }

  /// Writes the file. Throws ValueError beyond 2 GB, FileError.
  int64_t write(const std::string& path, const std::string& name,
                const std::map<std::string, std::string>& metadata) const;

 private:
  std::string unique(std::string name);
  Value batch();

  std::string scope_;
  std::vector<Node> nodes_;
  std::vector<Initializer> initializers_;
  std::vector<Port> inputs_, outputs_;
  std::map<std::string, int> taken_;
  std::map<std::string, std::string> output_names_;  // by the names that values had before
  std::map<std::vector<int64_t>, Value> integers_;
  std::map<std::pair<uint64_t, DType>, Value> scalars_;
  Value batch_;
};

}  // namespace brim::deploy
