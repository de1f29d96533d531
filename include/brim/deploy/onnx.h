// Networks as ONNX files (onnx.ai), for ONNX Runtime, TensorRT and whatever else reads them. The
// forward pass is recorded kernel by kernel and written as a graph, so that any module can be
// exported, a user's own as well. Which kernels ONNX can hold: docs/ONNX.md.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <brim/core/tensor.h>
#include <brim/nn/module.h>

namespace brim::deploy {

/// Options of save_onnx().
struct OnnxOptions {
  /// Samples of a batch, where the file is to take no other number; else axis 0 of inputs is the
  /// dimension "batch", of any size.
  std::optional<int64_t> batch = {};
  /// Inputs of layers in 8-bit integers are i8 with a zero point of 0, which is what TensorRT
  /// takes, instead of u8: where they were not around 0, their steps are up to twice as large, and
  /// results are no longer those of brim.
  bool symmetric_int8 = false;
  std::vector<std::string> inputs = {"input"};    ///< names, in order
  std::vector<std::string> outputs = {"output"};  ///< names, in order
  /// The model's metadata_props: what a program needs to know to use it.
  std::map<std::string, std::string> metadata = {};
};

/// An output of the network in a file.
struct OnnxOutput {
  std::string name;                ///< of OnnxOptions::outputs
  DType dtype = DType::f32;        ///< of its elements
  std::vector<std::string> sizes;  ///< of its axes: "10", or of any batch "batch", "49*batch"
};

/// What a file holds.
struct OnnxSummary {
  int64_t nodes = 0;                         ///< of the graph
  int64_t initializers = 0;                  ///< weights and constants
  int64_t bytes = 0;                         ///< of the file
  std::map<std::string, int64_t> operators;  ///< how many nodes of each
  int64_t opset = 0;                         ///< version of ONNX's operators
  std::vector<OnnxOutput> outputs;           ///< in order
};

/// Writes what `network` computes of x in eval mode as an ONNX file, atomically. `example`: shape
/// and dtype of x, whose axis 0 is the batch; its values do not matter. Parameters and buffers have
/// the names of state_dict(). Layers that compute in 8-bit integers become QuantizeLinear and
/// DequantizeLinear around the layer in f32 (QDQ); sparse layers are written dense.
/// Throws NotImplemented, with all kernels that ONNX cannot hold and the modules they are in, or
/// what depends on the batch in a way that needs OnnxOptions::batch; CompileError where the forward
/// pass reads values on the host; ValueError for more than the 2 GB of a protobuf, or names that do
/// not fit; FileError. Then nothing is written.
OnnxSummary save_onnx(const std::string& path, nn::Module& network, const Tensor& example,
                      const OnnxOptions& options = {});

/// What a network of several inputs or outputs computes: results of these inputs.
using OnnxForward = std::function<std::vector<Tensor>(std::span<const Tensor> inputs)>;

/// The same of `forward`, which calls `network`. OnnxOptions has a name for each of them.
OnnxSummary save_onnx(const std::string& path, nn::Module& network, const OnnxForward& forward,
                      const std::vector<Tensor>& examples, const OnnxOptions& options);

/// A kernel that ONNX can hold, and by which of its operators: "silu", "Sigmoid, Mul".
struct OnnxKernel {
  std::string kernel, operators;  ///< a brim kernel, and the operators of ONNX that it becomes
};
/// All of them, in the order of their names.
std::vector<OnnxKernel> onnx_kernels();

}  // namespace brim::deploy
