// A network in eval mode for a while.
#pragma once

#include <brim/nn/module.h>

#include <utility>
#include <vector>

namespace brim::nn {

/// Eval mode until the end of the scope, then what it was in each module.
class EvalMode {
 public:
  explicit EvalMode(Module& network) {
    network.apply([&](Module& m) { before_.emplace_back(&m, m.training()); });
    network.eval();
  }
  ~EvalMode() {
    // Each sets those below it too, which come behind it.
    for (const auto& [module, training] : before_) module->train(training);
  }
  EvalMode(const EvalMode&) = delete;
  EvalMode& operator=(const EvalMode&) = delete;

 private:
  std::vector<std::pair<Module*, bool>> before_;
};

}  // namespace brim::nn
