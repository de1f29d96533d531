// Passes over a network: each looks for a node that one before it can do as well, joins it there,
// and leaves what no output needs to the next clean-up.
#include <algorithm>
#include <cmath>

#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/index.h>
#include <brim/ops/matmul.h>
#include <brim/ops/shape.h>
#include <brim/ops/unary.h>

#include "deploy/engine/flow.h"
#include "deploy/engine/network.h"
#include "deploy/engine/operators/windows.h"

namespace brim::deploy {
namespace {

class Simplifier {
 public:
  explicit Simplifier(EngineNetwork& network) : network_(network) {}

  void run() {
    compute_weights(network_);
    for (EngineNode& node : network_.nodes) {
      if (node.op == "Identity")
        network_.replace(node.outputs[0], node.inputs[0]);
      else
        compute(node);
    }
    drop_unused();
    const auto each = [&](auto&& pass) {
      for (size_t i = 0; i < network_.nodes.size(); ++i)
        if (!network_.nodes[i].outputs.empty() && pass(network_.nodes[i])) flow_ = Flow(network_);
      drop_unused();
    };
    each([this](EngineNode& node) { return fold_batch_norm(node); });
    each([this](EngineNode& node) { return add_bias(node); });
    each([this](EngineNode& node) { return join_sigmoid(node); });
    each([this](EngineNode& node) { return join_sum(node) || join_bounds(node); });
    join_integers(network_);
    drop_unused();
    each([this](EngineNode& node) { return join_pool(node); });
  }

 private:
  EngineValue& value(int id) { return network_.values[static_cast<size_t>(id)]; }

  void drop_unused() {
    flow_ = Flow(network_);
    for (auto node = network_.nodes.rbegin(); node != network_.nodes.rend(); ++node) {
      if (std::ranges::any_of(node->outputs, [&](int id) { return flow_.uses(id) > 0; })) continue;
      flow_.leave_out(*node);
      node->outputs.clear();
    }
    std::erase_if(network_.nodes, [](const EngineNode& node) { return node.outputs.empty(); });
    flow_ = Flow(network_);
  }

  /// Of constants: layouts of weights, ranges, masks.
  void compute(EngineNode& node) {
    if (node.outputs.size() != 1 || node.inputs.empty() || !network_.is_constant(node, 0)) return;
    const Tensor& x = network_.constant(node, 0);
    EngineValue& y = value(node.outputs[0]);
    if (node.op == "Reshape") {
      y.constant = x.reshape(y.shape);
    } else if (node.op == "Transpose") {
      std::vector<int> order;
      for (const int64_t axis : node.attribute<std::vector<int64_t>>("perm", {}))
        order.push_back(static_cast<int>(axis));
      y.constant = x.permute(order).contiguous();
      y.integers = value(node.inputs[0]).integers;  // an output in each row, as before
    } else if (node.op == "Cast") {
      y.constant = x.to(y.dtype);
    } else if (node.op == "Expand") {
      y.constant = x.expand(y.shape).contiguous();
    } else if (node.op == "Add" && network_.is_constant(node, 1)) {
      y.constant = x + network_.constant(node, 1);
    } else if (node.op == "ConstantOfShape") {
      y.constant = node.attribute("value", zeros({1})).expand(y.shape).contiguous();
    } else if (node.op == "Gather" && network_.is_constant(node, 1) &&
               network_.constant(node, 1).rank() == 1 && x.dtype() == DType::f32) {
      y.constant = index_select(x, static_cast<int>(node.attribute<int64_t>("axis", 0)),
                                network_.constant(node, 1));
    } else if (node.op == "Concat") {
      std::vector<Tensor> parts;
      for (size_t i = 0; i < node.inputs.size() && network_.is_constant(node, i); ++i)
        parts.push_back(network_.constant(node, i));
      if (parts.size() == node.inputs.size())
        y.constant = cat(parts, static_cast<int>(node.attribute<int64_t>("axis", 0)));
    }
    if (y.constant.defined()) retire(node);
  }

  /// One whose weights are in the file, as a kernel of convolutions reads them.
  bool is_layer(const EngineNode& node) const {
    if (!network_.is_constant(node, 1)) return false;
    return node.op == "Conv" || node.op == "Gemm" || node.op == "Affine" ||
           (node.op == "MatMul" && network_.constant(node, 1).rank() == 2);
  }
  /// A layer whose output is for one node alone.
  EngineNode* layer_before(int id) {
    EngineNode* layer = flow_.only_maker(id);
    return layer && is_layer(*layer) ? layer : nullptr;
  }

  /// The normalisation's factor and what it adds, of each channel.
  std::pair<Tensor, Tensor> affine_of(const EngineNode& node) const {
    const auto wide = [&](size_t i) { return network_.constant(node, i).to(DType::f64); };
    const Tensor scale =
        wide(1) / brim::sqrt(wide(4) + double{node.attribute<float>("epsilon", 1e-5F)});
    return {scale, wide(2) - wide(3) * scale};
  }

  bool fold_batch_norm(EngineNode& node) {
    if (node.op != "BatchNormalization") return false;
    for (size_t i = 1; i < 5; ++i)
      if (!network_.is_constant(node, i)) return false;
    const auto [scale, shift] = affine_of(node);
    EngineNode* const layer = layer_before(node.inputs[0]);
    // Their weights have an output in each row.
    const bool can = layer && (layer->op == "Conv" || layer->op == "Gemm") && layer->residual < 0 &&
                     !layer->is_bounded();
    if (!can) {
      node.op = "Affine";
      node.inputs = {node.inputs[0], network_.add_constant(scale.to(DType::f32)),
                     network_.add_constant(shift.to(DType::f32))};
      return true;
    }
    const Tensor weight = network_.constant(*layer, 1).to(DType::f64);
    const Tensor bias =
        layer->has(2) ? network_.constant(*layer, 2).to(DType::f64) * scale + shift : shift;
    Shape rows = Shape::filled(weight.rank(), 1);
    rows[0] = scale.numel();
    const Tensor folded = weight * scale.reshape(rows);
    const int new_weight = network_.add_constant(folded.to(DType::f32));
    if (const auto& integers = value(layer->inputs[1]).integers)
      value(new_weight).integers = std::make_shared<const EngineIntegers>(EngineIntegers{
          integers->values, (integers->scales.to(DType::f64) * scale).to(DType::f32)});
    const int new_bias = network_.add_constant(bias.to(DType::f32));
    layer->inputs.resize(3);
    layer->inputs[1] = new_weight;
    layer->inputs[2] = new_bias;
    take_over(*layer, node);
    return true;
  }

  /// A vector that is added to a product of the last axis is its bias.
  bool add_bias(EngineNode& node) {
    if (node.op != "Add") return false;
    for (const size_t side : {size_t{0}, size_t{1}}) {
      EngineNode* const layer = layer_before(node.inputs[side]);
      if (!layer || layer->op != "MatMul" || layer->has(2) || !network_.is_constant(node, 1 - side))
        continue;
      const Tensor& bias = network_.constant(node, 1 - side);
      const int64_t outputs = value(layer->outputs[0]).shape.back();
      if (bias.numel() != outputs || bias.rank() == 0 || bias.shape().back() != outputs) continue;
      layer->inputs.resize(2);
      layer->inputs.push_back(node.inputs[1 - side]);
      take_over(*layer, node);
      return true;
    }
    return false;
  }

  /// x * sigmoid(x)
  bool join_sigmoid(EngineNode& node) {
    if (node.op != "Mul") return false;
    for (const size_t side : {size_t{0}, size_t{1}}) {
      EngineNode* const gate = flow_.only_maker(node.inputs[side]);
      if (!gate || gate->op != "Sigmoid" || gate->inputs[0] != node.inputs[1 - side]) continue;
      node.op = "Silu";
      node.inputs = {gate->inputs[0]};
      return true;
    }
    return false;
  }

  /// A sum of a layer and something of the same sizes is computed where the sum was.
  bool join_sum(EngineNode& node) {
    if (node.op != "Add") return false;
    for (const size_t side : {size_t{1}, size_t{0}}) {
      EngineNode* const layer = layer_before(node.inputs[side]);
      const int other = node.inputs[1 - side];
      if (!layer || layer->op == "Affine" || layer->residual >= 0 || layer->is_bounded() ||
          value(other).shape != value(node.inputs[side]).shape || value(other).constant.defined())
        continue;
      EngineNode joined = *layer;
      joined.residual = other;
      joined.outputs = node.outputs;
      retire(*layer);
      node = std::move(joined);
      return true;
    }
    return false;
  }

  /// Relu and Clip are bounds of what comes before them.
  bool join_bounds(EngineNode& node) {
    double low = 0, high = rt::kInfinity;
    if (node.op == "Clip") {
      low = -high;
      for (const size_t i : {size_t{1}, size_t{2}}) {
        if (!node.has(i)) continue;
        const std::optional<double> bound = network_.number(node, i);
        if (!bound) return false;
        (i == 1 ? low : high) = *bound;
      }
    } else if (node.op != "Relu") {
      return false;
    }
    EngineNode* const before = flow_.only_maker(node.inputs[0]);
    static const std::vector<std::string> kBinary = {"Add", "Sub", "Mul", "Div", "Max", "Min"};
    const bool can = before && !before->is_bounded() &&
                     (is_layer(*before) || std::ranges::find(kBinary, before->op) != kBinary.end());
    if (!can) return false;
    before->low = low;
    before->high = high;
    take_over(*before, node);
    return true;
  }

  /// Windows of 2 x 2 side by side.
  bool join_pool(EngineNode& node) {
    if (node.op != "MaxPool") return false;
    const OnnxWindows windows(node);
    EngineNode* const before = flow_.only_maker(node.inputs[0]);
    const OnnxWindows::Sizes two = {2, 2};
    if (!before || before->is_pooled || before->outputs.size() != 1 || windows.kernel != two ||
        windows.strides != two || windows.pads != OnnxWindows::Sizes{0, 0, 0, 0} ||
        windows.dilations != OnnxWindows::Sizes{1, 1} ||
        node.attribute<int64_t>("ceil_mode", 0) != 0 || !convolves_planes(network_, *before))
      return false;
    before->is_pooled = true;
    take_over(*before, node);
    return true;
  }

  /// `layer` makes what `node` made, which is no longer there.
  void take_over(EngineNode& layer, EngineNode& node) {
    layer.outputs = node.outputs;
    retire(node);
  }

  static void retire(EngineNode& node) {
    node.inputs.clear();
    node.outputs.clear();
    node.residual = -1;
  }

  EngineNetwork& network_;
  Flow flow_{network_};
};

}  // namespace

void simplify(EngineNetwork& network) { Simplifier(network).run(); }

}  // namespace brim::deploy
