#include "deploy/onnx/recorded_network.h"

#include <brim/autograd/autograd.h>

#include "autograd/autocast.h"
#include "core/check.h"
#include "deploy/module_tracker.h"
#include "nn/eval_mode.h"
#include "nn/inference_form.h"

namespace brim::deploy {

RecordedNetwork record_network(nn::Module& network, const plan::Step& forward,
                               const std::vector<Tensor>& inputs) {
  const NoGrad no_gradients;
  const nn::EvalMode eval(network);
  const nn::DenseLayers dense;
  const autograd::AutocastPause f32;
  ModuleTracker tracker(network);
  try {
    plan::Recording recording = plan::record(forward, inputs, /*keep_gradients=*/false);
    std::vector<std::string> modules = tracker.modules(recording.program.launches.size());
    return {std::move(recording.program), std::move(modules)};
  } catch (const CompileError& e) {
    raise<CompileError>("[onnx] the forward pass cannot be recorded: {}", e.what());
  }
}

}  // namespace brim::deploy
