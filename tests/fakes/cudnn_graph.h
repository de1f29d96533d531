// Descriptors of the backend API as the fake of libcudnn.so.9 has them, and what graphs of them
// compute.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fakes/cudnn_fake.h"

namespace brim::fake {

/// An engine, and what its notes say.
struct Engine {
  int64_t number;
  std::vector<cudnnBackendNumericalNote_t> notes;
  double milliseconds;
  int64_t workspace = 0;
  bool supported = true;
  int64_t tile = 0;  // of a knob, where it has one
};
struct Node;
struct Value {
  cudnnBackendAttributeType_t type{};
  std::vector<int64_t> numbers;
  std::vector<double> factors;
  std::vector<Node*> nodes;
  std::vector<void*> pointers;
};
struct Node {
  explicit Node(cudnnBackendDescriptorType_t t) : type(t) {}
  cudnnBackendDescriptorType_t type;
  bool finalized = false;
  std::map<cudnnBackendAttributeName_t, Value> values;
  const Engine* engine = nullptr;  // of configurations and engines
  Node* graph = nullptr;           // that they are for

  bool has(cudnnBackendAttributeName_t name) const { return values.contains(name); }
  int64_t number(cudnnBackendAttributeName_t name, size_t i = 0) const {
    const auto at = values.find(name);
    return at == values.end() || at->second.numbers.size() <= i ? -1 : at->second.numbers[i];
  }
  Node* node(cudnnBackendAttributeName_t name, size_t i = 0) const {
    const auto at = values.find(name);
    return at == values.end() || at->second.nodes.size() <= i ? nullptr : at->second.nodes[i];
  }
};
inline cudnnTensorStruct tensor_of(const Node& t) {
  cudnnTensorStruct result;
  result.type = static_cast<cudnnDataType_t>(t.number(CUDNN_ATTR_TENSOR_DATA_TYPE));
  for (size_t i = 0; i < 4; ++i) {
    result.size[i] = t.number(CUDNN_ATTR_TENSOR_DIMENSIONS, i);
    result.stride[i] = t.number(CUDNN_ATTR_TENSOR_STRIDES, i);
  }
  return result;
}
inline bool is_virtual(const Node& t) { return t.number(CUDNN_ATTR_TENSOR_IS_VIRTUAL) == 1; }
inline bool is_by_value(const Node& t) { return t.number(CUDNN_ATTR_TENSOR_IS_BY_VALUE) == 1; }

/// What a tensor of a graph is when the graph is executed.
struct Bound {
  void* memory = nullptr;
  double value = 0;  // of those that are given by value
};
using Data = std::map<int64_t, Bound>;  // by the tensors' numbers

/// A graph, taken apart.
struct Computation {
  std::string what, tail;                  // for the notes, before and behind the engine
  std::map<int64_t, const Node*> tensors;  // that have data, by their numbers
  /// Computes it as `engine` does.
  std::function<void(const Data& data, const Engine& engine)> run;

  /// Adds a tensor; says what is wrong with it.
  bool add(const Node* tensor) {
    const int64_t id = tensor->number(CUDNN_ATTR_TENSOR_UNIQUE_ID);
    if (is_virtual(*tensor)) return wrong("operation graph", "an end of the graph is virtual");
    return tensors.emplace(id, tensor).second ||
           wrong("operation graph", "numbers of tensors are not unique");
  }
};

inline std::span<Node* const> operations_of(const Node& graph) {
  const auto all = graph.values.find(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  return all == graph.values.end() ? std::span<Node* const>() : all->second.nodes;
}
/// A pointwise operation.
struct Pointwise {
  const Node *x, *b, *y;
  int64_t mode, type;
  bool keeps_nan;
};
/// Nothing where it is another one, or lacks something.
std::optional<Pointwise> pointwise_of(const Node& operation);
/// What the operation of a convolution, or of a gradient of it, lacks; null: nothing.
const char* lacks_of_conv(const Node& operation);

/// Each says what is wrong with the graph; nothing is returned then.
std::optional<Computation> convolution_of(const Node& graph);
std::optional<Computation> normalisation_of(const Node& graph);

}  // namespace brim::fake
