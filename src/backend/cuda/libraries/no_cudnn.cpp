// In the place of cudnn*.cpp where there is no header of cuDNN's to compile them with: brim's own
// kernels do everything. Why that is, is for dnn_problem() to say.
#include <mutex>

#include "backend/cuda/libraries/dnn.h"
#include "backend/cuda/runtime/dynamic_library.h"

namespace brim::cuda {

bool dnn_conv(const Context&, const DnnConv&, const Work&) {
  static std::once_flag warned;
  std::call_once(warned, [] {
    if (const std::string problem = dnn_problem(); !problem.empty())
      warn("brim's own, slower kernels compute convolutions, because " + problem);
  });
  return false;
}

bool dnn_avg_pool(const Context&, const DnnAvgPool&, const Work&) { return false; }
bool dnn_batch_norm(const Context&, const DnnBatchNorm&, const Work&) { return false; }
bool dnn_batch_norm_grad(const Context&, const DnnBatchNormGrad&, const Work&) { return false; }
bool dnn_batch_norm_relu(const Context&, const DnnBatchNormRelu&, const Work&) { return false; }

std::string dnn_version() { return "no cuDNN"; }

}  // namespace brim::cuda
