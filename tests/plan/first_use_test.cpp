// Tensors that a step makes on its first run and keeps.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include <brim/brim.h>

#include "distance.h"
#include "message_of.h"

namespace brim {
namespace {

using tests::distance;
using tests::message_of;

class FirstUse : public testing::TestWithParam<const char*> {
 protected:
  Device device = GetParam();
  Tensor ones_(const Shape& shape) { return ones(shape, {.device = device}); }
};

INSTANTIATE_TEST_SUITE_P(Devices, FirstUse, testing::Values("cpu", "sim:0"),
                         [](const auto& device) { return std::string(device.param, 3); });

TEST_P(FirstUse, ATensorIsComputedOnceForReal) {
  Tensor m;
  auto f = compile([&](const Tensor& x) {
    if (!m.defined()) m = full({4}, 3, {.device = device});
    return sum(x * m);
  });
  EXPECT_EQ(f(ones_({4})).item(), 12);
  EXPECT_EQ(f(ones_({4}) * 2).item(), 24);
  EXPECT_EQ(m.to_vector<float>(), std::vector<float>(4, 3));
  EXPECT_EQ(f(ones_({2, 4})).item(), 24);  // another plan finds it as it is
  EXPECT_EQ(f.stats().plans, 2);
}

TEST_P(FirstUse, AStepMayReturnIt) {
  Tensor m;
  auto f = compile([&](const Tensor& x) {
    if (!m.defined()) m = x * 5;
    return std::vector<Tensor>{m, x};
  });
  EXPECT_EQ(f(ones_({2}))[0].to_vector<float>(), std::vector<float>(2, 5));
  EXPECT_EQ(f(ones_({2}) * 7)[0].to_vector<float>(), std::vector<float>(2, 5));
}

/// Lion (Chen et al. 2023) as a user writes it, with state that the first step makes.
class Lion {
 public:
  explicit Lion(std::vector<Tensor> parameters)
      : parameters_(std::move(parameters)), momentum_(parameters_.size()) {}
  void step() {
    const NoGrad guard;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      Tensor& p = parameters_[i];
      Tensor& m = momentum_[i];
      if (!m.defined()) m = zeros_like(p);
      const Tensor g = p.grad();
      p.add_(sign(m * 0.9 + g * 0.1), -0.01);
      m.mul_(0.99).add_(g, 0.01);
      p.zero_grad();
    }
  }

 private:
  std::vector<Tensor> parameters_, momentum_;
};

TEST_P(FirstUse, AnOptimizerOfOnesOwn) {
  const Tensor x = randn({16, 5}, {.device = device}), y = randn({16, 3}, {.device = device});
  const auto train = [&](bool compiled) {
    manual_seed(3);
    nn::Linear net({.in = 5, .out = 3});
    net.to(device);
    Lion lion({net.weight, net.bias});
    const auto step = [&](const Tensor& in, const Tensor& out) {
      const Tensor loss = mse_loss(net(in), out);
      loss.backward();
      lion.step();
      return loss;
    };
    auto plan = compile(step);
    std::vector<double> losses;
    for (int i = 0; i < 6; ++i) losses.push_back((compiled ? plan(x, y) : step(x, y)).item());
    return losses;
  };
  const std::vector<double> eager = train(false), compiled = train(true);
  EXPECT_LT(eager.back(), eager.front());
  for (size_t i = 0; i < eager.size(); ++i) EXPECT_NEAR(compiled[i], eager[i], 1e-6) << i;
}

TEST_P(FirstUse, WhatOnesOwnHandsLetGoIsMadeAgain) {
  const auto run = [&](bool compiled) {
    Tensor m;
    const auto step = [&](const Tensor& x) {
      if (!m.defined() || m.shape() != x.shape()) m = zeros_like(x);
      m.add_(x);
      return sum(m);
    };
    auto plan = compile(step);
    std::vector<double> seen;
    for (const int64_t n : {3, 3, 5, 3, 5, 5}) {
      const Tensor x = ones_({n});
      seen.push_back((compiled ? plan(x) : step(x)).item());
    }
    m = Tensor();
    for (int i = 0; i < 2; ++i)
      seen.push_back((compiled ? plan(ones_({5})) : step(ones_({5}))).item());
    m = ones_({5}) * 7;
    for (int i = 0; i < 2; ++i)
      seen.push_back((compiled ? plan(ones_({5})) : step(ones_({5}))).item());
    EXPECT_EQ(m.to_vector<float>(), std::vector<float>(5, 9));
    EXPECT_EQ(plan.stats().plans, compiled ? 6 : 0);
    return seen;
  };
  EXPECT_EQ(run(true), run(false));
}

TEST_P(FirstUse, AMaskOfRandomNumbersIsDrawnInTheOrderOfTheEagerStep) {
  const auto run = [&](bool compiled) {
    manual_seed(11);
    Tensor mask;
    const auto step = [&](const Tensor& x) {
      if (!mask.defined()) mask = rand({64}, {.device = device}) < 0.5;
      return dropout(masked_fill(x, mask, 0), 0.5, true);
    };
    auto plan = compile(step);
    std::vector<Tensor> results;
    for (int i = 0; i < 3; ++i)
      results.push_back((compiled ? plan(ones_({64})) : step(ones_({64}))).clone());
    results.push_back(rand({8}, {.device = device}));
    return results;
  };
  const std::vector<Tensor> eager = run(false), compiled = run(true);
  for (size_t i = 0; i < eager.size(); ++i) EXPECT_EQ(distance(eager[i], compiled[i]), 0) << i;
}

TEST_P(FirstUse, WhatItNeedsOfTheStepIsComputedForIt) {
  Tensor weight = ones_({4, 4}), mask;
  auto f = compile([&](const Tensor& x) {
    const Tensor h = matmul(x, weight);
    if (!mask.defined()) mask = h > 6;
    return sum(masked_fill(h, mask, 0));
  });
  const Tensor x = arange(8, {.dtype = f32, .device = device}).reshape({2, 4});
  EXPECT_EQ(f(x).item(), 24);       // rows of 6 and 22: the second is masked
  EXPECT_EQ(f(x + 8).item(), 152);  // 38 each
}

TEST_P(FirstUse, WhatCannotBeKnownBeforeTheStepIsRefused) {
  Tensor weight = ones_({4}), first;
  auto after = compile([&](const Tensor& x) {
    weight.add_(x);
    if (!first.defined()) first = weight * 2;
    return sum(first);
  });
  EXPECT_NE(message_of<CompileError>([&] { after(ones_({4})); }).find("'mul"), std::string::npos);
  EXPECT_EQ(weight.to_vector<float>(), std::vector<float>(4, 1));

  // Set on the first run only, into a tensor that was there.
  bool ready = false;
  Tensor shift = zeros({4}, {.device = device});
  auto data_dependent = compile([&](const Tensor& x) {
    if (!std::exchange(ready, true)) shift.copy_(x);
    return sum(x - shift);
  });
  EXPECT_THROW(data_dependent(ones_({4})), CompileError);

  // A new tensor each time.
  Tensor total = zeros({}, {.device = device});
  auto running = compile([&](const Tensor& x) {
    total = total + sum(x);
    return total;
  });
  EXPECT_NE(message_of<CompileError>([&] { running(ones_({4})); }).find("'add'"),
            std::string::npos);
}

TEST_P(FirstUse, WhatAFailedRecordingLeftBehindIsAnError) {
  Tensor m;
  const auto step = [&](const Tensor& x) {
    if (!m.defined()) m = full({4}, 3, {.device = device});
    const Tensor y = sum(x * m);
    return y * y.item();
  };
  auto refused = compile(step);
  EXPECT_THROW(refused(ones_({4})), CompileError);
  ASSERT_TRUE(m.defined());
  const std::string message = message_of<CompileError>([&] { (void)m.to_vector<float>(); });
  EXPECT_NE(message.find("'fill'"), std::string::npos) << message;
  EXPECT_THROW((void)(m + m), CompileError);

  std::vector<std::string> warnings;
  auto falls_back = compile(step, {.fall_back = true, .warn = [&](const std::string& line) {
                                     warnings.push_back(line);
                                   }});
  EXPECT_THROW(falls_back(ones_({4})), CompileError);
  auto other = compile([&](const Tensor& x) { return sum(x * m); });
  EXPECT_THROW(other(ones_({4})), CompileError);
  m = {};
  EXPECT_EQ(falls_back(ones_({4})).item(), 144);
}

}  // namespace
}  // namespace brim
