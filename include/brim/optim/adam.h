// Adam and AdamW.
#pragma once

#include <brim/optim/optimizer.h>

namespace brim::optim {

/// Options of Adam.
struct AdamOptions {
  double lr = 1e-3;             ///< learning rate
  double beta1 = 0.9;           ///< decay of the mean gradient
  double beta2 = 0.999;         ///< decay of the mean square
  double eps = 1e-8;            ///< added to the root of the mean square
  double weight_decay = 0;      ///< L2 penalty, added to the gradient
  bool amsgrad = false;         ///< divide by the largest mean square so far
  bool master_weights = false;  ///< f16 and bf16 parameters have masters and state in f32
};

/// Options of AdamW.
struct AdamWOptions {
  double lr = 1e-3;             ///< learning rate
  double beta1 = 0.9;           ///< decay of the mean gradient
  double beta2 = 0.999;         ///< decay of the mean square
  double eps = 1e-8;            ///< added to the root of the mean square
  double weight_decay = 1e-2;   ///< decoupled: p *= 1 - lr * weight_decay
  bool amsgrad = false;         ///< divide by the largest mean square so far
  bool master_weights = false;  ///< f16 and bf16 parameters have masters and state in f32
};

/// Kingma and Ba, "Adam: a method for stochastic optimization", ICLR 2015.
class Adam final : public Optimizer {
 public:
  using Options = AdamOptions;  ///< of the constructor
  /// One group. Throws ValueError for options out of range, and for no, undefined, doubled or
  /// unsuitable parameters.
  explicit Adam(const ParameterList& params, Options options = {});
  /// Groups with options of their own; throws as above.
  explicit Adam(const std::vector<Group<Options>>& groups);
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

/// Loshchilov and Hutter, "Decoupled weight decay regularization", ICLR 2019.
class AdamW final : public Optimizer {
 public:
  using Options = AdamWOptions;  ///< of the constructor
  /// One group. Throws ValueError for options out of range, and for no, undefined, doubled or
  /// unsuitable parameters.
  explicit AdamW(const ParameterList& params, Options options = {});
  /// Groups with options of their own; throws as above.
  explicit AdamW(const std::vector<Group<Options>>& groups);
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
