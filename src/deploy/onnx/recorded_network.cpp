#include "deploy/onnx/recorded_network.h"

#include <map>

#include <brim/autograd/autograd.h>

#include "autograd/autocast.h"
#include "core/check.h"
#include "nn/eval_mode.h"
#include "nn/inference_form.h"
#include "nn/module_calls.h"

namespace brim::deploy {
namespace {

/// Notes in which module each launch is.
class ModuleTracker final : public nn::ModuleListener {
 public:
  explicit ModuleTracker(nn::Module& network) : before_(nn::module_listener) {
    name(network, "");
    nn::module_listener = this;
  }
  ~ModuleTracker() { nn::module_listener = before_; }
  ModuleTracker(const ModuleTracker&) = delete;
  ModuleTracker& operator=(const ModuleTracker&) = delete;

  void enters(const nn::Module& module) override {
    catch_up();
    const auto known = names_.find(&module);
    inside_.push_back(known == names_.end() ? inside_.back() : known->second);
  }
  void leaves() noexcept override {
    catch_up();
    inside_.pop_back();
  }
  std::vector<std::string> modules(size_t count) {
    all_.resize(count);
    return std::move(all_);
  }

 private:
  void name(nn::Module& module, const std::string& path) {
    names_.emplace(&module, path);
    hooks_.push_back(module.register_forward_hook(
        [](nn::Module&, const Tensor&, const Tensor&) { return Tensor(); }));
    for (const auto& [child, of] : module.named_children())
      name(*of, path.empty() ? child : path + "." + child);
  }
  void catch_up() { all_.resize(plan::recorded_launches(), inside_.back()); }

  nn::ModuleListener* const before_;
  std::map<const nn::Module*, std::string> names_;
  std::vector<nn::Module::HookHandle> hooks_;
  std::vector<std::string> inside_ = {""};
  std::vector<std::string> all_;
};

}  // namespace

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
