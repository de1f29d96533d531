// Layers in 8-bit integers: ONNX has them as QuantizeLinear, DequantizeLinear and the layer in f32.
#include <algorithm>
#include <cmath>
#include <tuple>

#include <brim/ops/binary.h>

#include "deploy/engine/flow.h"
#include "deploy/engine/network.h"

namespace brim::deploy {
namespace {

/// Scale and zero point of QuantizeLinear or DequantizeLinear, where they are one constant for all
/// of a tensor in u8.
std::optional<QuantParams> params_of(const EngineNetwork& network, const EngineNode& node) {
  const std::optional<double> scale = network.number(node, 1), zero = network.number(node, 2);
  if (!scale || !zero || network.constant(node, 2).dtype() != DType::u8) return {};
  return QuantParams{static_cast<float>(*scale), static_cast<int32_t>(*zero)};
}

/// Whose step can have u8 as its result.
bool is_depthwise(const EngineNetwork& network, const EngineNode& node) {
  if (node.op == "Affine") return true;
  if (node.op != "Conv" || !network.is_constant(node, 1)) return false;
  const Shape& w = network.shape(node, 1);
  return w.rank() == 4 && w[1] == 1 && node.attribute<int64_t>("group", 1) == w[0];
}

class IntegerPass {
 public:
  explicit IntegerPass(EngineNetwork& network) : network_(network) {}

  void run() {
    take_integers();
    while (share() || move_forward()) {
    }
    give_integers();
  }

 private:
  EngineValue& value(int id) { return network_.values[static_cast<size_t>(id)]; }

  /// Layers with weights in integers read the integers themselves.
  void take_integers() {
    const Flow flow(network_);
    for (EngineNode& node : network_.nodes) {
      const bool is_layer = node.op == "Conv" || node.op == "Gemm" || node.op == "MatMul";
      if (!is_layer || !node.has(1) || !value(node.inputs[1]).integers) continue;
      const EngineNode* const before = flow.maker(node.inputs[0]);
      if (!before || before->op != "DequantizeLinear") continue;
      const std::optional<QuantParams> params = params_of(network_, *before);
      if (!params || node.attribute<int64_t>("group", 1) != 1) continue;
      node.quantized_input = params;
      node.inputs[0] = before->inputs[0];
    }
  }

  /// The same integers are made once.
  bool share() {
    bool has_changed = false;
    for (size_t i = 0; i < network_.nodes.size(); ++i) {
      const EngineNode& first = network_.nodes[i];
      if (first.op != "QuantizeLinear" || first.outputs.empty()) continue;
      for (size_t k = i + 1; k < network_.nodes.size(); ++k) {
        EngineNode& other = network_.nodes[k];
        if (other.op != "QuantizeLinear" || other.inputs[0] != first.inputs[0] ||
            params_of(network_, other) != params_of(network_, first) || !params_of(network_, first))
          continue;
        network_.replace(other.outputs[0], first.outputs[0]);
        network_.nodes.erase(network_.nodes.begin() + static_cast<std::ptrdiff_t>(k--));
        has_changed = true;
      }
    }
    return has_changed;
  }

  /// What is joined is made integers part by part.
  void move_before_parts(EngineNode& concat, EngineNode& node) {
    std::vector<EngineNode> parts;
    for (int& id : concat.inputs) {
      network_.values.push_back({value(id).shape, DType::u8, {}, nullptr});
      EngineNode part = node;
      part.inputs[0] = id;
      id = static_cast<int>(network_.values.size()) - 1;
      part.outputs[0] = id;
      parts.push_back(std::move(part));
    }
    concat.outputs[0] = node.outputs[0];
    const auto at = &concat - network_.nodes.data();
    network_.nodes.erase(network_.nodes.begin() + (&node - network_.nodes.data()));
    network_.nodes.insert(network_.nodes.begin() + at, parts.begin(), parts.end());
  }

  /// Integers are made before they are moved: a quarter of the bytes is, and the layer before can
  /// make them. The largest number is the largest integer, but for
  /// NaN, which becomes 0.
  bool move_forward() {
    const Flow flow(network_);
    for (EngineNode& node : network_.nodes) {
      if (node.op != "QuantizeLinear" || !params_of(network_, node)) continue;
      EngineNode* const before = flow.maker(node.inputs[0]);
      if (before && before->op == "Concat" && flow.uses(node.inputs[0]) == 1) {
        move_before_parts(*before, node);
        return true;
      }
      const bool can = before && flow.uses(node.inputs[0]) == 1 &&
                       (before->op == "Reshape" || before->op == "MaxPool");
      if (!can) continue;
      const int x = before->inputs[0], y = node.outputs[0];
      network_.values.push_back({value(x).shape, DType::u8, {}, nullptr});
      const int integers = static_cast<int>(network_.values.size()) - 1;
      std::swap(*before, node);
      before->inputs[0] = x;
      before->outputs[0] = integers;
      node.inputs[0] = integers;
      node.outputs[0] = y;
      return true;
    }
    return false;
  }

  /// Kernels that round their results themselves.
  bool can_give(const EngineNode& node, int uses) const {
    return node.quantized_input.has_value() || (uses == 1 && is_depthwise(network_, node));
  }

  void give_integers() {
    for (size_t i = 0; i < network_.nodes.size(); ++i) {
      const Flow flow(network_);
      const EngineNode& node = network_.nodes[i];
      const std::optional<QuantParams> params =
          node.op == "QuantizeLinear" ? params_of(network_, node) : std::nullopt;
      EngineNode* const before = params ? flow.maker(node.inputs[0]) : nullptr;
      if (!before || before->outputs.size() != 1 || !can_give(*before, flow.uses(node.inputs[0])))
        continue;
      before->quantized_output = params;
      before->is_kept = flow.uses(node.inputs[0]) > 1;
      before->outputs.push_back(node.outputs[0]);
      network_.nodes.erase(network_.nodes.begin() + static_cast<std::ptrdiff_t>(i--));
    }
  }

  EngineNetwork& network_;
};

}  // namespace

void compute_weights(EngineNetwork& network) {
  for (EngineNode& node : network.nodes) {
    if (node.op != "DequantizeLinear" || !network.is_constant(node, 0) ||
        !network.is_constant(node, 1) || node.attribute<int64_t>("axis", 1) != 0)
      continue;
    const Tensor values = network.constant(node, 0), scales = network.constant(node, 1);
    if (values.dtype() != DType::i8 || scales.rank() != 1) continue;
    Shape rows = Shape::filled(values.rank(), 1);
    rows[0] = scales.numel();
    EngineValue& y = network.values[static_cast<size_t>(node.outputs[0])];
    y.constant = values.to(DType::f32) * scales.reshape(rows);
    y.integers = std::make_shared<const EngineIntegers>(EngineIntegers{values, scales});
    node.outputs.clear();
  }
  std::erase_if(network.nodes, [](const EngineNode& node) { return node.outputs.empty(); });
}

void join_integers(EngineNetwork& network) { IntegerPass(network).run(); }

}  // namespace brim::deploy
