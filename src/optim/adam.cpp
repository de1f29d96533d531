// Adam and AdamW differ in where the weight decay goes.
#include <brim/optim/adam.h>

#include <cmath>

#include "optim/checks.h"
#include "optim/rule.h"

namespace brim::optim {
namespace {

using formula::StepParams;

template <class O>
void check(const char* kind, const O& o) {
  check_not_negative(kind, "lr", o.lr);
  check_not_negative(kind, "eps", o.eps);
  check_not_negative(kind, "weight_decay", o.weight_decay);
  check_rate(kind, "beta1", o.beta1);
  check_rate(kind, "beta2", o.beta2);
}

template <class Field, class O>
std::vector<Field> list_fields(O& o) {
  return {{"lr", &o.lr},
          {"beta1", &o.beta1},
          {"beta2", &o.beta2},
          {"eps", &o.eps},
          {"weight_decay", &o.weight_decay},
          {"amsgrad", &o.amsgrad},
          {"master_weights", &o.master_weights, true}};
}

std::vector<const char*> states(bool amsgrad) {
  if (amsgrad) return {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"};
  return {"exp_avg", "exp_avg_sq"};
}

const StepKernel& kernel(bool amsgrad) {
  static const StepKernel plain("adam"), with_max("adam_amsgrad");
  return amsgrad ? with_max : plain;
}

template <class O>
StepParams params(const O& o, int64_t step) {
  return {.lr = o.lr,
          .momentum = o.beta1,
          .decay = o.beta2,
          .eps = o.eps,
          .correction1 = 1 - std::pow(o.beta1, static_cast<double>(step)),
          .correction2 = 1 - std::pow(o.beta2, static_cast<double>(step))};
}

}  // namespace

Adam::Adam(const ParameterList& params, Options options) : Optimizer("Adam") {
  add_group(params, options);
}
Adam::Adam(const std::vector<Group<Options>>& groups) : Optimizer("Adam") {
  BRIM_CHECK(!groups.empty(), ValueError, "[Adam] got no parameter groups");
  for (const auto& g : groups) add_group(g.params, g.options);
}
void Adam::add_group(const ParameterList& params, Options options) {
  options_.push_back(options);
  restore_on_error(options_, [&] { append_group(params); });
}
std::vector<Optimizer::Field> Adam::fields(size_t group) {
  return list_fields<Field>(options_[group]);
}
void Adam::check_options(size_t group) const { check("Adam", options_[group]); }
std::vector<const char*> Adam::state_names(size_t group) const {
  return states(options_[group].amsgrad);
}
Optimizer::Rule Adam::rule(size_t group, int64_t step) const {
  const Options& o = options_[group];
  StepParams p = params(o, step);
  p.weight_decay = o.weight_decay;
  return {kernel(o.amsgrad), p};
}

AdamW::AdamW(const ParameterList& params, Options options) : Optimizer("AdamW") {
  add_group(params, options);
}
AdamW::AdamW(const std::vector<Group<Options>>& groups) : Optimizer("AdamW") {
  BRIM_CHECK(!groups.empty(), ValueError, "[AdamW] got no parameter groups");
  for (const auto& g : groups) add_group(g.params, g.options);
}
void AdamW::add_group(const ParameterList& params, Options options) {
  options_.push_back(options);
  restore_on_error(options_, [&] { append_group(params); });
}
std::vector<Optimizer::Field> AdamW::fields(size_t group) {
  return list_fields<Field>(options_[group]);
}
void AdamW::check_options(size_t group) const { check("AdamW", options_[group]); }
std::vector<const char*> AdamW::state_names(size_t group) const {
  return states(options_[group].amsgrad);
}
Optimizer::Rule AdamW::rule(size_t group, int64_t step) const {
  const Options& o = options_[group];
  StepParams p = params(o, step);
  p.shrink = 1 - o.lr * o.weight_decay;
  return {kernel(o.amsgrad), p};
}

}  // namespace brim::optim
