// RMSprop.
#pragma once

#include <brim/optim/optimizer.h>

namespace brim::optim {

/// Options of RMSprop.
struct RMSpropOptions {
  double lr = 1e-2;             ///< learning rate
  double alpha = 0.99;          ///< decay of the mean square
  double eps = 1e-8;            ///< added to the root of the mean square
  double weight_decay = 0;      ///< L2 penalty, added to the gradient
  double momentum = 0;          ///< of the steps
  bool centered = false;        ///< divide by the variance instead of the mean square
  bool master_weights = false;  ///< f16 and bf16 parameters have masters and state in f32
};

/// Hinton, "Neural networks for machine learning", lecture 6e, 2012; eps is added to the root.
class RMSprop final : public Optimizer {
 public:
  using Options = RMSpropOptions;  ///< of the constructor
  /// One group. Throws ValueError for options out of range, and for no, undefined, doubled or
  /// unsuitable parameters.
  explicit RMSprop(const ParameterList& params, Options options = {});
  /// Groups with options of their own; throws as above.
  explicit RMSprop(const std::vector<Group<Options>>& groups);
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
