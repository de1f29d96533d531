// Schedules: rates of each step, state, errors.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include <brim/ops/create.h>
#include <brim/optim/optim.h>

namespace brim {
namespace {

using namespace optim;

struct Fixture : ::testing::Test {
  Tensor p = ones({1}).set_requires_grad(), q = ones({1}).set_requires_grad();
  SGD sgd{{{.params = {p}, .options = {.lr = 0.1, .momentum = 0.9}},
           {.params = {q}, .options = {.lr = 1, .momentum = 0.9}}}};

  void expect(Schedule& schedule, const std::vector<double>& rates) {
    for (size_t i = 0; i < rates.size(); ++i) {
      if (i > 0) schedule.step();
      EXPECT_NEAR(sgd.lr(0), rates[i], 1e-12) << "step " << i;
    }
  }
};
using Schedules = Fixture;

TEST_F(Schedules, StepLR) {
  optim::StepLR schedule(sgd, {.step_size = 2, .gamma = 0.5});
  expect(schedule, {0.1, 0.1, 0.05, 0.05, 0.025});
  EXPECT_DOUBLE_EQ(sgd.lr(1), 0.25);
  EXPECT_EQ(schedule.step_count(), 4);
}

TEST_F(Schedules, MultiStepLR) {
  MultiStepLR schedule(sgd, {.milestones = {3, 1, 3}, .gamma = 0.1});
  expect(schedule, {0.1, 0.01, 0.01, 0.0001, 0.0001});
}

TEST_F(Schedules, ExponentialLR) {
  ExponentialLR schedule(sgd, {.gamma = 0.5});
  expect(schedule, {0.1, 0.05, 0.025});
}

TEST_F(Schedules, CosineAnnealingLR) {
  CosineAnnealingLR schedule(sgd, {.T_max = 4, .eta_min = 0.02});
  const double half = 0.04 * std::numbers::sqrt2 / 2;
  expect(schedule, {0.1, 0.06 + half, 0.06, 0.06 - half, 0.02, 0.06 - half});
}

TEST_F(Schedules, LinearLRWarmsUp) {
  LinearLR schedule(sgd, {.start_factor = 0.25, .total_iters = 3});
  expect(schedule, {0.025, 0.05, 0.075, 0.1, 0.1});
}

TEST_F(Schedules, SequentialLRCountsEachFromItsBeginning) {
  SequentialLR schedule(
      sgd, {linear_lr({.start_factor = 0.5, .total_iters = 2}), cosine_annealing_lr({.T_max = 2})},
      {2});
  expect(schedule, {0.05, 0.075, 0.1, 0.05, 0});
}

TEST_F(Schedules, ChainedLRMultiplies) {
  ChainedLR schedule(
      sgd, {exponential_lr({.gamma = 0.5}), linear_lr({.start_factor = 0.5, .total_iters = 1})});
  expect(schedule, {0.05, 0.05, 0.025});
}

TEST_F(Schedules, OneCycleLR) {
  optim::OneCycleLR schedule(sgd, {.max_lr = 1,
                                   .total_steps = 10,
                                   .pct_start = 0.3,
                                   .anneal_strategy = Anneal::linear,
                                   .div_factor = 5,
                                   .final_div_factor = 2});
  // Up to step 2, then down to 0.1 at step 9.
  EXPECT_NEAR(sgd.option("momentum"), 0.95, 1e-12);
  expect(schedule, {0.2, 0.6, 1, 1 - 0.9 / 7});
  EXPECT_NEAR(sgd.option("momentum", 1), 0.85 + 0.1 / 7, 1e-12);
  for (int i = 4; i < 10; ++i) schedule.step();
  EXPECT_NEAR(sgd.lr(), 0.1, 1e-12);
  schedule.step();  // a loop's last step()
  EXPECT_NEAR(sgd.lr(), 0.1, 1e-12);
  EXPECT_THROW(schedule.step(), ValueError);
}

TEST_F(Schedules, OneCycleLRThreePhases) {
  optim::OneCycleLR schedule(sgd, {.max_lr = 1,
                                   .total_steps = 10,
                                   .pct_start = 0.4,
                                   .anneal_strategy = Anneal::linear,
                                   .cycle_momentum = false,
                                   .div_factor = 4,
                                   .final_div_factor = 2,
                                   .three_phase = true});
  expect(schedule, {0.25, 0.5, 0.75, 1, 0.75, 0.5, 0.25, 0.25 - 0.125 / 3});
  EXPECT_EQ(sgd.option("momentum"), 0.9);
}

TEST_F(Schedules, OneCycleLRNeedsMomentumToCycle) {
  Adam adam({p});
  OneCycleLR cycle(adam, {.max_lr = 0.1, .total_steps = 5});
  EXPECT_EQ(adam.option("beta1"), 0.95);
}

TEST_F(Schedules, StateGoesOn) {
  optim::StepLR first(sgd, {.step_size = 2, .gamma = 0.5});
  for (int i = 0; i < 3; ++i) first.step();
  const StateDict state = first.state_dict();
  SGD other({{.params = {p}, .options = {.lr = 7}}, {.params = {q}, .options = {.lr = 7}}});
  optim::StepLR second(other, {.step_size = 2, .gamma = 0.5});
  second.load_state_dict(state);
  EXPECT_EQ(other.lr(0), 0.05);
  second.step();
  first.step();
  EXPECT_EQ(other.lr(1), sgd.lr(1));
  EXPECT_EQ(second.step_count(), 4);
  SGD single({p});
  optim::StepLR third(single, {.step_size = 2});
  EXPECT_THROW(third.load_state_dict(state), ValueError);
  EXPECT_THROW(third.load_state_dict({}), ValueError);
}

TEST_F(Schedules, BadOptionsAreErrors) {
  EXPECT_THROW(step_lr({.step_size = 0}), ValueError);
  EXPECT_THROW(cosine_annealing_lr({.T_max = 0}), ValueError);
  EXPECT_THROW(linear_lr({.start_factor = 0}), ValueError);
  EXPECT_THROW(one_cycle_lr({.max_lr = 1}), ValueError);
  EXPECT_THROW(sequential_lr({step_lr({})}, {1}), ValueError);
}

}  // namespace
}  // namespace brim
