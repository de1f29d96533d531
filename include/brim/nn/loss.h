// Losses as modules: `criterion(outputs, targets)`. Weights are buffers: they move with the module.
#pragma once

#include <brim/nn/module.h>
#include <brim/ops/loss.h>

namespace brim::nn {

/// A module of two inputs, the network's output and what it should have been.
class Loss : public Module {
 public:
  using Module::forward;
  /// The loss, which Options::reduction makes one number of or not.
  virtual Tensor forward(const Tensor& output, const Tensor& target) = 0;
  /// Calls forward().
  Tensor operator()(const Tensor& output, const Tensor& target) { return forward(output, target); }
};

/// cross_entropy(logits, target)
class CrossEntropyLoss : public Loss {
 public:
  using Options = CrossEntropyOptions;              ///< of the constructor
  explicit CrossEntropyLoss(Options options = {});  ///< its weight becomes a buffer
  using Loss::forward;
  Tensor forward(const Tensor& logits, const Tensor& target) override;  ///< as cross_entropy()

 private:
  Options options_;
  Tensor& weight_;
};

/// nll_loss(log_probs, target)
class NLLLoss : public Loss {
 public:
  using Options = NllLossOptions;          ///< of the constructor
  explicit NLLLoss(Options options = {});  ///< its weight becomes a buffer
  using Loss::forward;
  Tensor forward(const Tensor& log_probs, const Tensor& target) override;  ///< as nll_loss()

 private:
  Options options_;
  Tensor& weight_;
};

/// bce_with_logits(logits, target)
class BCEWithLogitsLoss : public Loss {
 public:
  using Options = BceOptions;                        ///< of the constructor
  explicit BCEWithLogitsLoss(Options options = {});  ///< its weights become buffers
  using Loss::forward;
  Tensor forward(const Tensor& logits, const Tensor& target) override;  ///< as bce_with_logits()

 private:
  Options options_;
  Tensor &weight_, &pos_weight_;
};

/// mse_loss(output, target)
class MSELoss : public Loss {
 public:
  /// Options of MSELoss.
  struct Options {
    Reduction reduction = Reduction::mean;  ///< of the elements' losses
  };
  explicit MSELoss(Options options) : options(options) {}  ///< with these options
  MSELoss() : MSELoss(Options{}) {}                        ///< with the default options
  using Loss::forward;
  Tensor forward(const Tensor& output, const Tensor& target) override;  ///< as mse_loss()
  const Options options;  ///< as given to the constructor
};

/// l1_loss(output, target)
class L1Loss : public Loss {
 public:
  using Options = MSELoss::Options;                       ///< of the constructor
  explicit L1Loss(Options options) : options(options) {}  ///< with these options
  L1Loss() : L1Loss(Options{}) {}                         ///< with the default options
  using Loss::forward;
  Tensor forward(const Tensor& output, const Tensor& target) override;  ///< as l1_loss()
  const Options options;  ///< as given to the constructor
};

}  // namespace brim::nn
