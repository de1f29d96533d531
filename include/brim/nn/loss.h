// Losses as modules: `criterion(outputs, targets)`.
#pragma once

#include <brim/nn/module.h>
#include <brim/ops/loss.h>

namespace brim::nn {

/// cross_entropy(logits, target). A class weight is a buffer: it moves with the module.
class CrossEntropyLoss : public Module {
 public:
  using Options = CrossEntropyOptions;
  explicit CrossEntropyLoss(Options options = {});
  using Module::forward;
  Tensor forward(const Tensor& logits, const Tensor& target);
  Tensor operator()(const Tensor& logits, const Tensor& target) { return forward(logits, target); }

 private:
  Options options_;
  Tensor& weight_;
};

}  // namespace brim::nn
