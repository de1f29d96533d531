// Rules of learning-rate schedules as closed formulas, and their application.
#include <brim/optim/schedule.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/recording.h"
#include "optim/checks.h"

namespace brim::optim {
namespace {

double anneal(Anneal how, double from, double to, double part) {
  if (how == Anneal::linear) return from + (to - from) * part;
  return to + (from - to) / 2 * (1 + std::cos(std::numbers::pi * part));
}

/// From `low` up to `high` and down to `last`; with three phases by way of `low`.
double one_cycle_at(const OneCycleLROptions& o, int64_t step, double low, double high,
                    double last) {
  BRIM_CHECK(step <= o.total_steps, ValueError,
             "[OneCycleLR] step {} is beyond total_steps = {}; count the steps of all epochs", step,
             o.total_steps);
  const double total = static_cast<double>(o.total_steps);
  const double peak = o.pct_start * total - 1;
  // A loop that ends with step() asks for one rate more than there are steps.
  const double at = static_cast<double>(std::min(step, o.total_steps - 1));
  const double valley = 2 * peak, end = total - 1;
  if (at <= peak) return anneal(o.anneal_strategy, low, high, peak > 0 ? at / peak : 1);
  if (!o.three_phase) return anneal(o.anneal_strategy, high, last, (at - peak) / (end - peak));
  // The valley of PyTorch's third phase lies at 2 * pct_start * total - 2.
  if (at <= valley) return anneal(o.anneal_strategy, high, low, (at - peak) / (valley - peak));
  return anneal(o.anneal_strategy, low, last, (at - valley) / (end - valley));
}

}  // namespace

LrRule step_lr(StepLROptions o) {
  BRIM_CHECK(o.step_size > 0, ValueError, "[StepLR] step_size is {}; it must be 1 or more",
             o.step_size);
  return [o](int64_t step, double base) {
    const int64_t passed = step / o.step_size;
    return base * std::pow(o.gamma, static_cast<double>(passed));
  };
}

LrRule multi_step_lr(MultiStepLROptions o) {
  std::sort(o.milestones.begin(), o.milestones.end());
  return [o](int64_t step, double base) {
    const auto passed = std::upper_bound(o.milestones.begin(), o.milestones.end(), step);
    return base * std::pow(o.gamma, static_cast<double>(passed - o.milestones.begin()));
  };
}

LrRule exponential_lr(ExponentialLROptions o) {
  return [o](int64_t step, double base) {
    return base * std::pow(o.gamma, static_cast<double>(step));
  };
}

LrRule cosine_annealing_lr(CosineAnnealingLROptions o) {
  BRIM_CHECK(o.T_max > 0, ValueError, "[CosineAnnealingLR] T_max is {}; it must be 1 or more",
             o.T_max);
  return [o](int64_t step, double base) {
    const double part = static_cast<double>(step) / static_cast<double>(o.T_max);
    return o.eta_min + (base - o.eta_min) * (1 + std::cos(std::numbers::pi * part)) / 2;
  };
}

LrRule linear_lr(LinearLROptions o) {
  BRIM_CHECK(o.start_factor > 0 && o.start_factor <= 1, ValueError,
             "[LinearLR] start_factor is {}; it must be in (0, 1]", o.start_factor);
  BRIM_CHECK(o.end_factor >= 0 && o.end_factor <= 1, ValueError,
             "[LinearLR] end_factor is {}; it must be in [0, 1]", o.end_factor);
  BRIM_CHECK(o.total_iters > 0, ValueError, "[LinearLR] total_iters is {}; it must be 1 or more",
             o.total_iters);
  return [o](int64_t step, double base) {
    const double part =
        static_cast<double>(std::min(step, o.total_iters)) / static_cast<double>(o.total_iters);
    return base * (o.start_factor + (o.end_factor - o.start_factor) * part);
  };
}

LrRule one_cycle_lr(OneCycleLROptions o) {
  check_not_negative("OneCycleLR", "max_lr", o.max_lr);
  BRIM_CHECK(o.total_steps > 0, ValueError,
             "[OneCycleLR] total_steps is {}; pass the number of steps of all epochs",
             o.total_steps);
  BRIM_CHECK(o.pct_start >= 0 && o.pct_start <= 1, ValueError,
             "[OneCycleLR] pct_start is {}; it must be in [0, 1]", o.pct_start);
  return [o](int64_t step, double) {
    const double first = o.max_lr / o.div_factor;
    return one_cycle_at(o, step, first, o.max_lr, first / o.final_div_factor);
  };
}

LrRule sequential_lr(std::vector<LrRule> rules, std::vector<int64_t> milestones) {
  BRIM_CHECK(!rules.empty() && milestones.size() + 1 == rules.size(), ValueError,
             "[SequentialLR] {} rules need {} milestones between them, got {}", rules.size(),
             rules.empty() ? 0 : rules.size() - 1, milestones.size());
  BRIM_CHECK(std::is_sorted(milestones.begin(), milestones.end()), ValueError,
             "[SequentialLR] milestones must not fall");
  return [rules = std::move(rules), milestones = std::move(milestones)](int64_t step, double base) {
    const auto next = std::upper_bound(milestones.begin(), milestones.end(), step);
    const auto index = next - milestones.begin();
    const int64_t begin = index == 0 ? 0 : *(next - 1);
    return rules[static_cast<size_t>(index)](step - begin, base);
  };
}

LrRule chained_lr(std::vector<LrRule> rules) {
  BRIM_CHECK(!rules.empty(), ValueError, "[ChainedLR] got no rules");
  return [rules = std::move(rules)](int64_t step, double base) {
    for (const LrRule& rule : rules) base = rule(step, base);
    return base;
  };
}

// --- application

Schedule::Schedule(Optimizer& optimizer, LrRule rule)
    : optimizer_(optimizer), rule_(std::move(rule)) {
  for (size_t g = 0; g < optimizer.num_groups(); ++g) base_.push_back(optimizer.lr(g));
  Schedule::apply(0);
}

void Schedule::apply(int64_t step) {
  std::vector<double> rates;  // all of them first: a rule may throw
  for (double base : base_) rates.push_back(rule_(step, base));
  for (size_t g = 0; g < base_.size(); ++g) optimizer_.set_lr(rates[g], g);
}

void Schedule::step() {
  refuse_in_recording("schedule",
                      "step() would set the rate once, when the plan is made; call it "
                      "after the compiled step");
  apply(step_ + 1);
  ++step_;
}

StateDict Schedule::state_dict() const {
  return {{"step", Tensor::from<int64_t>({step_}, {}, Device::cpu())},
          {"base_lr",
           Tensor::from<double>(base_, {static_cast<int64_t>(base_.size())}, Device::cpu())}};
}

void Schedule::load_state_dict(const StateDict& state) {
  const auto step = state.find("step"), base = state.find("base_lr");
  BRIM_CHECK(step != state.end() && base != state.end() && state.size() == 2, ValueError,
             "[schedule] a state dict holds 'step' and 'base_lr'; this one is of something else");
  BRIM_CHECK(step->second.numel() == 1 && base->second.dtype() == f64 &&
                 base->second.numel() == static_cast<int64_t>(base_.size()),
             ValueError, "[schedule] the state dict is of an optimizer with {} groups, not {}",
             base->second.numel(), base_.size());
  base_ = base->second.to_vector<double>();
  step_ = step->second.item<int64_t>();
  apply(step_);
}

OneCycleLR::OneCycleLR(Optimizer& o, OneCycleLROptions options)
    : Schedule(o, one_cycle_lr(options)), options_(options) {
  BRIM_CHECK(!options.cycle_momentum || o.has_option("beta1") || o.has_option("momentum"),
             ValueError, "[OneCycleLR] {} has no momentum to cycle; pass .cycle_momentum = false",
             o.kind());
  apply(0);
}

void OneCycleLR::apply(int64_t step) {
  Schedule::apply(step);
  if (!options_.cycle_momentum) return;
  Optimizer& o = optimizer();
  const char* name = o.has_option("beta1") ? "beta1" : "momentum";
  const double momentum = one_cycle_at(options_, step, options_.max_momentum,
                                       options_.base_momentum, options_.max_momentum);
  for (size_t g = 0; g < o.num_groups(); ++g) o.set_option(name, momentum, g);
}

}  // namespace brim::optim
