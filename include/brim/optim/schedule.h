// Learning-rate schedules. A rule says the rate of each step; a schedule applies it to the groups
// of an optimizer. Rates are computed from the step's number, not from the rate before, so nothing
// drifts and a resumed schedule is the same.
//
//   optim::StepLR schedule(sgd, {.step_size = 30});
//   ... for each epoch: train; schedule.step();
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include <brim/optim/optimizer.h>

namespace brim::optim {

/// The rate of step 0, 1, 2, ... of a group that began with `base`.
using LrRule = std::function<double(int64_t step, double base)>;

/// Options of StepLR.
struct StepLROptions {
  int64_t step_size = 1;  ///< steps between drops
  double gamma = 0.1;     ///< factor of each drop
};
/// Options of MultiStepLR.
struct MultiStepLROptions {
  std::vector<int64_t> milestones = {};  ///< steps at which the rate drops, rising
  double gamma = 0.1;                    ///< factor of each drop
};
/// Options of ExponentialLR.
struct ExponentialLROptions {
  double gamma = 0.9;  ///< factor of each step
};
/// Options of CosineAnnealingLR.
struct CosineAnnealingLROptions {
  int64_t T_max = 1;   ///< steps from the base rate to eta_min
  double eta_min = 0;  ///< the rate at the end
};
/// Options of LinearLR.
struct LinearLROptions {
  double start_factor = 1.0 / 3;  ///< of the base rate, at step 0
  double end_factor = 1;          ///< of the base rate, from step total_iters on
  int64_t total_iters = 5;        ///< steps from one to the other
};
/// How a rate moves between two.
enum class Anneal : uint8_t {
  cosine,  ///< along a cosine
  linear   ///< along a line
};
/// Options of OneCycleLR.
struct OneCycleLROptions {
  double max_lr = 0;                        ///< the peak
  int64_t total_steps = 0;                  ///< of the whole cycle
  double pct_start = 0.3;                   ///< part of the steps in which the rate rises
  Anneal anneal_strategy = Anneal::cosine;  ///< how rates move
  bool cycle_momentum = true;               ///< momentum (or beta1) falls while the rate rises
  double base_momentum = 0.85;              ///< where the rate is highest
  double max_momentum = 0.95;               ///< at both ends
  double div_factor = 25;                   ///< the first rate is max_lr / div_factor
  double final_div_factor = 1e4;            ///< the last one is the first / final_div_factor
  bool three_phase = false;                 ///< symmetric fall, then the final one
};

// Rules; all throw ValueError for options out of range.
LrRule step_lr(StepLROptions options);                         ///< base * gamma^(step / step_size)
LrRule multi_step_lr(MultiStepLROptions options);              ///< gamma at each milestone
LrRule exponential_lr(ExponentialLROptions options);           ///< base * gamma^step
LrRule cosine_annealing_lr(CosineAnnealingLROptions options);  ///< Loshchilov and Hutter, ICLR 2017
LrRule linear_lr(LinearLROptions options);                     ///< linear warm-up (or decay)
LrRule one_cycle_lr(OneCycleLROptions options);  ///< Smith and Topin, arXiv 1708.07120
/// rules[i] holds from milestones[i - 1] to milestones[i], each counting from its own beginning.
LrRule sequential_lr(std::vector<LrRule> rules, std::vector<int64_t> milestones);
/// All at once: each scales what the ones before give.
LrRule chained_lr(std::vector<LrRule> rules);

/// Applies a rule. The optimizer must outlive it.
class Schedule {
 public:
  /// Sets the rates of step 0. Base rates are the optimizer's at this moment.
  Schedule(Optimizer& optimizer, LrRule rule);
  virtual ~Schedule() = default;
  Schedule(const Schedule&) = delete;
  Schedule& operator=(const Schedule&) = delete;

  /// Sets the rates of the next step.
  void step();
  int64_t step_count() const { return step_; }                        ///< steps so far
  double lr(size_t group = 0) const { return optimizer_.lr(group); }  ///< of a group, now

  StateDict state_dict() const;  ///< the step and the base rates
  /// Goes on where state_dict() was taken, and sets the rates. Throws ValueError.
  void load_state_dict(const StateDict& state);

 protected:
  /// Sets the rates of `step`.
  virtual void apply(int64_t step);
  Optimizer& optimizer() { return optimizer_; }  ///< whose rates are set

 private:
  Optimizer& optimizer_;
  LrRule rule_;
  std::vector<double> base_;
  int64_t step_ = 0;
};

/// base * gamma^(step / step_size).
struct StepLR : Schedule {
  /// For `o`, which outlives it. Throws ValueError for options out of range.
  StepLR(Optimizer& o, StepLROptions options) : Schedule(o, step_lr(options)) {}
};
/// Times gamma at each milestone.
struct MultiStepLR : Schedule {
  /// For `o`, which outlives it. Throws ValueError for options out of range.
  MultiStepLR(Optimizer& o, MultiStepLROptions options) : Schedule(o, multi_step_lr(options)) {}
};
/// base * gamma^step.
struct ExponentialLR : Schedule {
  /// For `o`, which outlives it. Throws ValueError for options out of range.
  ExponentialLR(Optimizer& o, ExponentialLROptions options)
      : Schedule(o, exponential_lr(options)) {}
};
/// From the base rate to eta_min along half a cosine (Loshchilov and Hutter, ICLR 2017).
struct CosineAnnealingLR : Schedule {
  /// For `o`, which outlives it. Throws ValueError for options out of range.
  CosineAnnealingLR(Optimizer& o, CosineAnnealingLROptions options)
      : Schedule(o, cosine_annealing_lr(options)) {}
};
/// Linear warm-up, or decay.
struct LinearLR : Schedule {
  /// For `o`, which outlives it. Throws ValueError for options out of range.
  explicit LinearLR(Optimizer& o, LinearLROptions options = {}) : Schedule(o, linear_lr(options)) {}
};
/// One rule behind the other.
struct SequentialLR : Schedule {
  /// For `o`, which outlives it. Throws ValueError for options out of range.
  SequentialLR(Optimizer& o, std::vector<LrRule> rules, std::vector<int64_t> milestones)
      : Schedule(o, sequential_lr(std::move(rules), std::move(milestones))) {}
};
/// All rules at once.
struct ChainedLR : Schedule {
  /// For `o`, which outlives it. Throws ValueError for options out of range.
  ChainedLR(Optimizer& o, std::vector<LrRule> rules) : Schedule(o, chained_lr(std::move(rules))) {}
};
/// Also cycles momentum unless told otherwise; more than total_steps steps throw ValueError.
class OneCycleLR : public Schedule {
 public:
  /// Throws ValueError for options out of range.
  OneCycleLR(Optimizer& o, OneCycleLROptions options);

 protected:
  void apply(int64_t step) override;  ///< rates and momentum

 private:
  OneCycleLROptions options_;
};

}  // namespace brim::optim
