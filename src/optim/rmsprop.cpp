#include <brim/optim/rmsprop.h>

#include "optim/checks.h"
#include "optim/rule.h"

namespace brim::optim {

RMSprop::RMSprop(const ParameterList& params, Options options) : Optimizer("RMSprop") {
  add_group(params, options);
}

RMSprop::RMSprop(const std::vector<Group<Options>>& groups) : Optimizer("RMSprop") {
  BRIM_CHECK(!groups.empty(), ValueError, "[RMSprop] got no parameter groups");
  for (const auto& g : groups) add_group(g.params, g.options);
}

void RMSprop::add_group(const ParameterList& params, Options options) {
  options_.push_back(options);
  restore_on_error(options_, [&] { append_group(params); });
}

std::vector<Optimizer::Field> RMSprop::fields(size_t group) {
  Options& o = options_[group];
  return {{"lr", &o.lr},
          {"alpha", &o.alpha},
          {"eps", &o.eps},
          {"weight_decay", &o.weight_decay},
          {"momentum", &o.momentum},
          {"centered", &o.centered},
          {"master_weights", &o.master_weights, true}};
}

void RMSprop::check_options(size_t group) const {
  const Options& o = options_[group];
  check_not_negative("RMSprop", "lr", o.lr);
  check_not_negative("RMSprop", "eps", o.eps);
  check_not_negative("RMSprop", "weight_decay", o.weight_decay);
  check_not_negative("RMSprop", "momentum", o.momentum);
  check_not_negative("RMSprop", "alpha", o.alpha);
}

std::vector<const char*> RMSprop::state_names(size_t group) const {
  std::vector<const char*> names{"square_avg"};
  if (options_[group].momentum > 0) names.push_back("momentum_buffer");
  if (options_[group].centered) names.push_back("grad_avg");
  return names;
}

Optimizer::Rule RMSprop::rule(size_t group, int64_t) const {
  static const StepKernel plain("rmsprop"), momentum("rmsprop_momentum"),
      centered("rmsprop_centered"), both("rmsprop_momentum_centered");
  const Options& o = options_[group];
  const StepKernel& kernel =
      o.momentum > 0 ? (o.centered ? both : momentum) : (o.centered ? centered : plain);
  return {kernel,
          {.lr = o.lr,
           .weight_decay = o.weight_decay,
           .momentum = o.momentum,
           .decay = o.alpha,
           .eps = o.eps}};
}

}  // namespace brim::optim
