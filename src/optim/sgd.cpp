#include <brim/optim/sgd.h>

#include "optim/checks.h"
#include "optim/rule.h"

namespace brim::optim {

SGD::SGD(const ParameterList& params, Options options) : Optimizer("SGD") {
  add_group(params, options);
}

SGD::SGD(const std::vector<Group<Options>>& groups) : Optimizer("SGD") {
  BRIM_CHECK(!groups.empty(), ValueError, "[SGD] got no parameter groups");
  for (const auto& g : groups) add_group(g.params, g.options);
}

void SGD::add_group(const ParameterList& params, Options options) {
  options_.push_back(options);
  restore_on_error(options_, [&] { append_group(params); });
}

std::vector<Optimizer::Field> SGD::fields(size_t group) {
  Options& o = options_[group];
  return {{"lr", &o.lr},
          {"momentum", &o.momentum},
          {"dampening", &o.dampening},
          {"weight_decay", &o.weight_decay},
          {"nesterov", &o.nesterov},
          {"master_weights", &o.master_weights, true}};
}

void SGD::check_options(size_t group) const {
  const Options& o = options_[group];
  check_not_negative("SGD", "lr", o.lr);
  check_not_negative("SGD", "momentum", o.momentum);
  check_not_negative("SGD", "weight_decay", o.weight_decay);
  BRIM_CHECK(!o.nesterov || (o.momentum > 0 && o.dampening == 0), ValueError,
             "[SGD] nesterov needs a momentum above 0 and no dampening, got {} and {}", o.momentum,
             o.dampening);
}

std::vector<const char*> SGD::state_names(size_t group) const {
  if (options_[group].momentum == 0) return {};
  return {"momentum_buffer"};
}

Optimizer::Rule SGD::rule(size_t group, int64_t step) const {
  static const StepKernel plain("sgd"), with_momentum("sgd_momentum");
  const Options& o = options_[group];
  return {o.momentum == 0 ? plain : with_momentum,
          {.lr = o.lr,
           .weight_decay = o.weight_decay,
           .momentum = o.momentum,
           .keep = step == 1 ? 1 : 1 - o.dampening,
           .nesterov = o.nesterov ? 1.0 : 0.0}};
}

}  // namespace brim::optim
