// Convolutions as cuDNN's backend API computes them: a graph of operations, the engines that its
// heuristics propose for it, and an execution plan of one of them. What an engine does to numbers
// is in its numerical notes, and those that brim does not allow are left out.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/libraries/cudnn_library.h"
#include "backend/cuda/libraries/dnn.h"

namespace brim::cuda::dnn {

struct DestroyBackend {
  using pointer = cudnnBackendDescriptor_t;
  void operator()(cudnnBackendDescriptor_t d) const { (void)library().destroy_backend(d); }
};
using BackendDesc = std::unique_ptr<void, DestroyBackend>;

/// One engine, with its knobs, for a convolution.
class ConvPlan {
 public:
  /// `graph` is the operations and what they are made of, kept while plans of it live.
  ConvPlan(std::shared_ptr<const std::vector<BackendDesc>> graph, BackendDesc config,
           std::string name, bool adds_bias);

  /// "plan bias 12 2=16": whether the bias is added too, the engine's number, its knobs. The same
  /// for a version of the library.
  const std::string& name() const { return name_; }
  bool adds_bias() const { return adds_bias_; }
  /// Makes the execution plan, which may compile code, unless it is made. False where cuDNN does
  /// not support it after all, or it needs more than `most` bytes. Queues nothing.
  bool make(cudnnHandle_t handle, size_t most);
  size_t workspace() const { return workspace_; }
  /// After make(): queues it on the handle's stream. False where cuDNN does not support it.
  bool queue(cudnnHandle_t handle, const DnnConv& c, void* weight, void* room) const;

 private:
  std::shared_ptr<const std::vector<BackendDesc>> graph_;
  BackendDesc config_, plan_;
  std::string name_;
  bool adds_bias_, tried_ = false;
  size_t workspace_ = 0;
};

/// Plans of the engines that may compute the pass, those that the heuristics think best in front:
/// first such as add the bias too, where there is one, then of the convolution alone. Empty where
/// there are none; also, with one warning in the process, where the library fails when it is asked.
/// Throws DeviceError for a lost GPU.
std::vector<ConvPlan> conv_plans(cudnnHandle_t handle, const DnnConv& c);

}  // namespace brim::cuda::dnn
