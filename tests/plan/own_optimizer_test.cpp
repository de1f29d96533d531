// Optimizers with a step() of their own: their options, counts and states, eager and compiled.
#include <gtest/gtest.h>

#include <vector>

#include <brim/brim.h>

#include "message_of.h"

namespace brim {
namespace {

/// SGD with a momentum that step() makes on first use.
class OwnOptimizer : public optim::Optimizer {
 public:
  OwnOptimizer(const optim::ParameterList& params, double lr, bool counts = true)
      : Optimizer("OwnOptimizer"), lr_(lr), counts_(counts) {
    append_group(params);
  }
  void step() override {
    const NoGrad guard;
    for (Parameter& p : group(0)) {
      if (!p.tensor.grad().defined()) continue;
      if (p.state.empty()) p.state.push_back(zeros_like(p.tensor));
      p.state[0].mul_(0.9).add_(p.tensor.grad());
      p.tensor.add_(p.state[0], -lr_);
      if (counts_) ++p.steps;
    }
  }

 protected:
  std::vector<Field> fields(size_t) override { return {{"lr", &lr_}}; }
  std::vector<const char*> state_names(size_t) const override { return {"momentum_buffer"}; }

 private:
  double lr_;
  bool counts_;
};

/// Without options and states, in any number of groups.
class Growing : public optim::Optimizer {
 public:
  explicit Growing(const optim::ParameterList& params) : Optimizer("Growing") { add(params); }
  void add(const optim::ParameterList& params) { append_group(params); }
  void step() override {
    const NoGrad guard;
    for (size_t g = 0; g < num_groups(); ++g)
      for (Parameter& p : group(g))
        if (p.tensor.grad().defined()) p.tensor.add_(p.tensor.grad(), -1);
  }

 protected:
  std::vector<Field> fields(size_t) override { return {}; }
};

class OwnOptimizers : public testing::TestWithParam<const char*> {
 protected:
  Device device = GetParam();

  /// The parameter after each of `steps` steps; `between(i, optimizer)` is called before step i.
  template <class Between>
  std::vector<float> train(bool compiled, int steps, const Between& between) {
    Tensor w = full({1}, 1, {.device = device}).set_requires_grad();
    OwnOptimizer optimizer({w}, 0.125);
    const auto step = [&](const Tensor& x) {
      const Tensor loss = sum(w * w * x);
      loss.backward();
      optimizer.step();
      optimizer.zero_grad();
      return loss;
    };
    auto plan = compile(step, {.passes = "exact"});
    const Tensor x = ones({1}, {.device = device});
    std::vector<float> seen;
    for (int i = 0; i < steps; ++i) {
      between(i, optimizer, w);
      compiled ? plan(x) : step(x);
      seen.push_back(static_cast<float>(w.item()));
    }
    plans_ = plan.stats().plans;
    steps_ = optimizer.state_dict().at("state.0.step").item<int64_t>();
    return seen;
  }
  int64_t steps_ = 0, plans_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Devices, OwnOptimizers, testing::Values("cpu", "sim:0"),
                         [](const auto& device) { return std::string(device.param, 3); });

TEST_P(OwnOptimizers, FollowTheirScheduleInPlans) {
  const auto halve = [](int i, optim::Optimizer& optimizer, Tensor&) {
    if (i == 3) optimizer.set_lr(optimizer.lr() / 2);
    if (i == 5) optimizer.set_lr(0);
  };
  const std::vector<float> eager = train(false, 8, halve), compiled = train(true, 8, halve);
  EXPECT_EQ(compiled, eager);
  EXPECT_EQ(eager[5], eager[7]);
  EXPECT_EQ(steps_, 8);
  EXPECT_EQ(plans_, 3);
}

TEST_P(OwnOptimizers, GoOnThoughTheOldStateIsStillHeld) {
  StateDict saved, old;
  const auto load = [&](int i, optim::Optimizer& optimizer, Tensor&) {
    if (i == 2)
      for (const auto& [name, t] : optimizer.state_dict()) saved[name] = t.clone();
    if (i != 4) return;
    old = optimizer.state_dict();
    optimizer.load_state_dict(saved);
  };
  EXPECT_EQ(train(true, 6, load), train(false, 6, load));
}

TEST_P(OwnOptimizers, GoOnFromAStateThatWasLoadedBetweenSteps) {
  StateDict saved;
  float weight = 0;
  const auto back = [&](int i, optim::Optimizer& optimizer, Tensor& w) {
    if (i == 2) {
      weight = static_cast<float>(w.item());
      saved.clear();
      for (const auto& [name, t] : optimizer.state_dict()) saved[name] = t.clone();
    }
    if (i != 5) return;
    const NoGrad guard;
    w.fill_(weight);
    optimizer.load_state_dict(saved);
  };
  const std::vector<float> eager = train(false, 8, back), compiled = train(true, 8, back);
  EXPECT_EQ(compiled, eager);
  EXPECT_EQ(compiled[5], compiled[2]);
  EXPECT_EQ(compiled[7], compiled[4]);
  EXPECT_EQ(steps_, 5);
  EXPECT_EQ(plans_, 2);
}

TEST(OwnOptimizer, MayNotEndWithTheStep) {
  Tensor w = ones({1}).set_requires_grad();
  auto own = compile([&](const Tensor& x) {
    sum(w * x).backward();
    OwnOptimizer(std::vector<Tensor>{w}, 0.5).step();
    return sum(w);
  });
  EXPECT_THROW(own(ones({1})), CompileError);
  auto sgd = compile([&](const Tensor& x) {
    sum(w * x).backward();
    optim::SGD(std::vector<Tensor>{w}, {.lr = 0.5}).step();
    return sum(w);
  });
  EXPECT_THROW(sgd(ones({1})), CompileError);
}

TEST(OwnOptimizer, AGroupThatIsAddedIsTrained) {
  Tensor a = zeros({1}).set_requires_grad(), b = zeros({1}).set_requires_grad();
  Growing optimizer(std::vector<Tensor>{a});
  auto step = compile([&](const Tensor& x) {
    optimizer.zero_grad();
    const Tensor loss = sum((a + b) * x);
    loss.backward();
    optimizer.step();
    return loss;
  });
  step(ones({1}));
  optimizer.add(std::vector<Tensor>{b});
  step(ones({1}));
  EXPECT_EQ(a.item(), -2);
  EXPECT_EQ(b.item(), -1);
}

TEST(OwnOptimizer, StatesAreSavedWhoeverCounts) {
  Tensor w = ones({2}).set_requires_grad();
  OwnOptimizer optimizer({w}, 0.5, false);
  w.set_grad(ones({2}));
  optimizer.step();
  const StateDict state = optimizer.state_dict();
  EXPECT_EQ(state.at("state.0.momentum_buffer").to_vector<float>(), std::vector<float>(2, 1));
  OwnOptimizer other({w}, 0.5, false);
  other.load_state_dict(state);
  EXPECT_EQ(other.state_dict().size(), state.size());
}

TEST(OwnOptimizer, NamesWhatAScalerNeeds) {
  Tensor w = ones({1}).set_requires_grad();
  OwnOptimizer optimizer({w}, 0.5);
  w.set_grad(ones({1}));
  EXPECT_EQ(tests::message_of<NotImplemented>([&] { optimizer.step_if_finite(zeros({})); }),
            "[OwnOptimizer] has no step of its own for this: override step(), and "
            "step_if_finite() for a GradScaler");
}

}  // namespace
}  // namespace brim
