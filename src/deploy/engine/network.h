// A network on its way to an engine: ONNX's operators over values of known sizes, which passes make
// fewer.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <brim/core/quant_params.h>
#include <brim/core/tensor.h>

#include "deploy/onnx/graph.h"
#include "rt/attributes.h"

namespace brim::deploy {

/// Weights in 8-bit integers: i8, an output in each row, with a scale for each.
struct EngineIntegers {
  Tensor values, scales;
};

struct EngineValue {
  Shape shape;
  DType dtype = DType::f32;
  Tensor constant;  ///< undefined where it is computed
  /// What a constant in f32 was made of; null: it was f32.
  std::shared_ptr<const EngineIntegers> integers = nullptr;
};

struct EngineNode {
  std::string op;                    ///< of ONNX; or "Affine": x, scale and shift by channel
  std::string module;                ///< that it is of
  std::vector<int> inputs, outputs;  ///< values; -1: left out
  std::vector<Attribute> attributes;
  // What passes have joined to it.
  int residual = -1;  ///< added to the result of a convolution or product
  double low = -rt::kInfinity, high = rt::kInfinity;  ///< bounds of the result
  std::optional<QuantParams> quantized_input;         ///< u8, of a layer in 8-bit integers
  std::optional<QuantParams> quantized_output;        ///< output 1: output 0 in u8
  bool is_pooled = false;  ///< the result is the largest of each 2 x 2 of a convolution's
  bool is_kept = true;     ///< whether output 0 is wanted, too

  bool is_bounded() const { return low != -rt::kInfinity || high != rt::kInfinity; }
  bool has(size_t input) const { return input < inputs.size() && inputs[input] >= 0; }
  /// An attribute, or `otherwise` where it is left out.
  template <class T>
  T attribute(std::string_view name, T otherwise) const {
    for (const Attribute& a : attributes)
      if (a.name == name) return std::get<T>(a.value);
    return otherwise;
  }
};

struct EngineNetwork {
  std::vector<EngineValue> values;
  std::vector<EngineNode> nodes;  ///< in the order in which they are computed
  std::vector<int> inputs, outputs;

  const Tensor& constant(const EngineNode& node, size_t input) const {
    return values[static_cast<size_t>(node.inputs[input])].constant;
  }
  bool is_constant(const EngineNode& node, size_t input) const {
    return node.has(input) && constant(node, input).defined();
  }
  const Shape& shape(const EngineNode& node, size_t input) const {
    return values[static_cast<size_t>(node.inputs[input])].shape;
  }
  /// The only element of a constant input.
  std::optional<double> number(const EngineNode& node, size_t input) const;
  /// The integers of a constant input. Throws NotImplemented where it is computed.
  std::vector<int64_t> integers(const EngineNode& node, size_t input) const;
  /// Who needs the one value takes the other.
  void replace(int from, int to);
  int add_constant(const Tensor& x) {
    values.push_back({x.shape(), x.dtype(), x, nullptr});
    return static_cast<int>(values.size()) - 1;
  }
};

/// Whether a Conv is computed by vectors of columns.
bool convolves_planes(const EngineNetwork& network, const EngineNode& node);

/// Of a graph with batches of one size.
EngineNetwork engine_network(const OnnxGraph& graph);

/// Computes constants in other shapes, orders and dtypes, folds batch norm into weights, and joins
/// to layers what is done with each of their outputs.
void simplify(EngineNetwork& network);

// Of simplify(), for integers between QuantizeLinear and DequantizeLinear:

/// Weights in integers become constants that know of them.
void compute_weights(EngineNetwork& network);
/// Layers take integers, and give them to the next one, where both sides of a product are integers.
/// Leaves behind what no output needs.
void join_integers(EngineNetwork& network);

}  // namespace brim::deploy
