// What a network is made of, without computing anything: its modules with the shapes that they
// give, parameters, operations and the memory that training keeps, and what computes after what.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <brim/core/shape.h>
#include <brim/core/tensor.h>
#include <brim/nn/module.h>

namespace brim::deploy {

/// A module. Its figures include those of the modules in it; of what it launches itself there are
/// those that begin with own_.
struct ModuleSummary {
  std::string name;     ///< dotted, as in "layer1.0.conv1"; "": the network
  std::string kind;     ///< "Conv2d"
  std::string options;  ///< as str() shows them: "3, 6, kernel=5"; empty for modules of modules
  int depth = 0;        ///< 0: the network
  int64_t calls = 0;    ///< in a forward pass; 0: it takes no part in it
  /// Of its last call; empty where it was not called.
  std::optional<Shape> output;
  int64_t parameters = 0;  ///< numbers; shared ones count once
  /// Multiplications and additions of a forward pass; a kernel that declares none counts one for
  /// each element of its largest tensor.
  double flops = 0;
  int64_t activation_bytes = 0;      ///< that the forward pass keeps for the backward pass
  double own_flops = 0;              ///< without those of modules in it
  int64_t own_activation_bytes = 0;  ///< without those of modules in it
  std::vector<std::string> own_ops;  ///< kernels that it launches itself, each once, in order
};

/// What a module computes by itself without another one in between: the box of a drawing.
struct SummaryNode {
  std::string module;            ///< dotted name; "": the network
  std::vector<std::string> ops;  ///< the kernels, each once, in order
  Shape output;                  ///< of the last of them
  /// Earlier nodes that it reads of, rising; -1: the network's first input, -2: its second one, ...
  std::vector<int> inputs;
  double flops = 0;              ///< of a forward pass
  int64_t activation_bytes = 0;  ///< kept for the backward pass
};

/// An input of a network.
struct SummaryInput {
  Shape shape;               ///< with the batch
  DType dtype = DType::f32;  ///< of its elements
};

/// What summarize() found.
struct NetworkSummary {
  Shape input;                         ///< the first one, with the batch
  Shape output;                        ///< the first one, with the batch
  DType input_dtype = DType::f32;      ///< of the first input
  std::vector<SummaryInput> others;    ///< inputs behind the first one
  std::vector<ModuleSummary> modules;  ///< each before those in it; the network first
  std::vector<SummaryNode> nodes;      ///< in the order in which they compute
  int64_t parameters = 0;              ///< numbers; shared ones count once
  int64_t trained = 0;                 ///< of these, that require gradients
  int64_t parameter_bytes = 0;         ///< of all parameters
  int64_t buffer_bytes = 0;            ///< of all buffers
  int64_t input_bytes = 0;             ///< of all inputs
  double flops = 0;                    ///< of a forward pass
  double backward_flops = 0;     ///< of the gradients of all parameters; 0 where none is trained
  int64_t activation_bytes = 0;  ///< that the forward pass keeps for the backward pass
};

/// Records a forward and a backward pass over an input of x's shape, dtype and device, whose values
/// do not matter, in the mode (training or eval) that the network is in; nothing is computed, and
/// the network stays as it is. Throws CompileError where the network reads values on the host,
/// ShapeError where x does not fit it.
NetworkSummary summarize(nn::Module& network, const Tensor& x);

/// What a network of several inputs or outputs computes: results of these inputs.
using SummaryForward = std::function<std::vector<Tensor>(std::span<const Tensor> inputs)>;
/// The same for a network with a forward of its own, which `forward` calls with inputs of the
/// examples' shapes and dtypes; the backward pass is of the sum of its results. Throws ValueError
/// without an example or without a result.
NetworkSummary summarize(nn::Module& network, std::span<const Tensor> examples,
                         const SummaryForward& forward);

}  // namespace brim::deploy
