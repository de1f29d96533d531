// An ONNX graph with names as a network with numbers.
#include "deploy/engine/network.h"

#include <algorithm>
#include <unordered_map>

#include "core/check.h"

namespace brim::deploy {
namespace {

Shape fixed_shape(const Extents& extents) {
  Shape shape;
  for (const Extent& size : extents) shape.push_back(size.fixed);
  return shape;
}

}  // namespace

std::optional<double> EngineNetwork::number(const EngineNode& node, size_t input) const {
  if (!is_constant(node, input) || constant(node, input).numel() != 1) return {};
  return constant(node, input).to(DType::f64).to_vector<double>()[0];
}

std::vector<int64_t> EngineNetwork::integers(const EngineNode& node, size_t input) const {
  BRIM_CHECK(is_constant(node, input), NotImplemented, "sizes that are computed");
  return constant(node, input).to(DType::i64).to_vector<int64_t>();
}

void EngineNetwork::replace(int from, int to) {
  for (EngineNode& node : nodes) {
    std::ranges::replace(node.inputs, from, to);
    if (node.residual == from) node.residual = to;
  }
  std::ranges::replace(outputs, from, to);
}

EngineNetwork engine_network(const OnnxGraph& graph) {
  EngineNetwork network;
  std::unordered_map<std::string, int> by_name;
  const auto add = [&](const std::string& name, EngineValue value) {
    by_name[name] = static_cast<int>(network.values.size());
    network.values.push_back(std::move(value));
    return by_name[name];
  };
  for (const Port& port : graph.inputs())
    network.inputs.push_back(add(port.name, {fixed_shape(port.shape), port.dtype, {}, nullptr}));
  for (const Initializer& i : graph.initializers())
    add(i.name, {i.tensor.shape(), i.tensor.dtype(), i.tensor, nullptr});
  for (const Node& node : graph.nodes()) {
    EngineNode made;
    made.op = node.op;
    const size_t slash = node.name.rfind('/');
    made.module = slash == std::string::npos ? "" : node.name.substr(0, slash);
    made.attributes = node.attributes;
    for (const std::string& input : node.inputs)
      made.inputs.push_back(input.empty() ? -1 : by_name.at(input));
    for (size_t i = 0; i < node.outputs.size(); ++i)
      made.outputs.push_back(
          add(node.outputs[i], {fixed_shape(node.made[i].shape), node.made[i].dtype, {}, nullptr}));
    network.nodes.push_back(std::move(made));
  }
  for (const Port& port : graph.outputs()) network.outputs.push_back(by_name.at(port.name));
  return network;
}

}  // namespace brim::deploy
