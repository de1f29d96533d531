// Losses as modules: `criterion(outputs, targets)`. Weights are buffers: they move with the module.
#pragma once

#include <brim/nn/module.h>
#include <brim/ops/loss.h>

namespace brim::nn {

/// A module of two inputs, the network's output and what it should have been.
class Loss : public Module {
 public:
  using Module::forward;
  virtual Tensor forward(const Tensor& output, const Tensor& target) = 0;
  Tensor operator()(const Tensor& output, const Tensor& target) { return forward(output, target); }
};

/// cross_entropy(logits, target)
class CrossEntropyLoss : public Loss {
 public:
  using Options = CrossEntropyOptions;
  explicit CrossEntropyLoss(Options options = {});
  using Loss::forward;
  Tensor forward(const Tensor& logits, const Tensor& target) override;

 private:
  Options options_;
  Tensor& weight_;
};

/// nll_loss(log_probs, target)
class NLLLoss : public Loss {
 public:
  using Options = NllLossOptions;
  explicit NLLLoss(Options options = {});
  using Loss::forward;
  Tensor forward(const Tensor& log_probs, const Tensor& target) override;

 private:
  Options options_;
  Tensor& weight_;
};

/// bce_with_logits(logits, target)
class BCEWithLogitsLoss : public Loss {
 public:
  using Options = BceOptions;
  explicit BCEWithLogitsLoss(Options options = {});
  using Loss::forward;
  Tensor forward(const Tensor& logits, const Tensor& target) override;

 private:
  Options options_;
  Tensor &weight_, &pos_weight_;
};

/// mse_loss(output, target)
class MSELoss : public Loss {
 public:
  struct Options {
    Reduction reduction = Reduction::mean;
  };
  explicit MSELoss(Options options) : options(options) {}
  MSELoss() : MSELoss(Options{}) {}
  using Loss::forward;
  Tensor forward(const Tensor& output, const Tensor& target) override;
  const Options options;
};

/// l1_loss(output, target)
class L1Loss : public Loss {
 public:
  using Options = MSELoss::Options;
  explicit L1Loss(Options options) : options(options) {}
  L1Loss() : L1Loss(Options{}) {}
  using Loss::forward;
  Tensor forward(const Tensor& output, const Tensor& target) override;
  const Options options;
};

}  // namespace brim::nn
