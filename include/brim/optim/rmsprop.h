// RMSprop.
#pragma once

#include <brim/optim/optimizer.h>

namespace brim::optim {

struct RMSpropOptions {
  double lr = 1e-2;
  double alpha = 0.99;  ///< decay of the mean square
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool centered = false;  ///< divide by the variance instead of the mean square
};

/// Hinton, "Neural networks for machine learning", lecture 6e, 2012; eps is added to the root.
class RMSprop final : public Optimizer {
 public:
  using Options = RMSpropOptions;
  explicit RMSprop(const ParameterList& params, Options options = {});
  explicit RMSprop(const std::vector<Group<Options>>& groups);
  void add_group(const ParameterList& params, Options options);
  const Options& options(size_t group = 0) const { return options_.at(group); }

 private:
  std::vector<Field> fields(size_t group) override;
  void check_options(size_t group) const override;
  std::vector<const char*> state_names(size_t group) const override;
  Rule rule(size_t group, int64_t step) const override;

  std::vector<Options> options_;
};

}  // namespace brim::optim
