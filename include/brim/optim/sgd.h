// Stochastic gradient descent.
#pragma once

#include <brim/optim/optimizer.h>

namespace brim::optim {

/// Options of SGD.
struct SGDOptions {
  double lr = 1e-3;             ///< learning rate
  double momentum = 0;          ///< of the steps; 0: none
  double dampening = 0;         ///< of the gradient in the momentum
  double weight_decay = 0;      ///< L2 penalty, added to the gradient
  bool nesterov = false;        ///< needs momentum, and no dampening
  bool master_weights = false;  ///< f16 and bf16 parameters have masters and state in f32
};

/// p -= lr * v with v = momentum * v + (1 - dampening) * (gradient + weight_decay * p); the first v
/// is the gradient itself, as in PyTorch.
class SGD final : public Optimizer {
 public:
  using Options = SGDOptions;  ///< of the constructor
  /// One group. Throws ValueError for options out of range, and for no, undefined, doubled or
  /// unsuitable parameters.
  explicit SGD(const ParameterList& params, Options options = {});
  /// Groups with options of their own; throws as above.
  explicit SGD(const std::vector<Group<Options>>& groups);
  /// Another group; throws as the constructors do.
  void add_group(const ParameterList& params, Options options);
  const Options& options(size_t group = 0) const { return options_.at(group); }  ///< of a group

 private:
  std::vector<Field> fields(size_t group) override;
  void check_options(size_t group) const override;
  std::vector<const char*> state_names(size_t group) const override;
  bool master_weights(size_t group) const override { return options_[group].master_weights; }
  Rule rule(size_t group, int64_t step) const override;

  std::vector<Options> options_;
};

}  // namespace brim::optim
