// Convolutions as graphs of cuDNN's backend API (cudnn_graph.h), with what stands behind them.
#pragma once

#include <vector>

#include "backend/cuda/libraries/cudnn_graph.h"
#include "backend/cuda/libraries/dnn.h"

namespace brim::cuda::dnn {

/// One engine for a convolution.
struct ConvPlan {
  ExecutionPlan engine;
  bool has_epilogue;  ///< bias and ReLU, as far as there are any, are in the graph

  /// As ExecutionPlan::queue.
  bool queue(cudnnHandle_t handle, const DnnConv& c, void* weight, void* scratch) const;
};

/// Plans of the engines that may compute the pass, those that the heuristics think best in front:
/// first with the epilogue, where there is one, then of the convolution alone. Empty where there
/// are none, or the library fails when it is asked (plans_or_none).
std::vector<ConvPlan> conv_plans(cudnnHandle_t handle, const DnnConv& c);

}  // namespace brim::cuda::dnn
