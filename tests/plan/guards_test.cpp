// What a plan must notice between two steps, and what it owes to its caller.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <stdexcept>

#include <brim/brim.h>

#include "distance.h"
#include "message_of.h"

namespace brim {
namespace {

using tests::distance;
using tests::message_of;

/// The same on both: `eager(i)` and `compiled(i)` give what step i leaves.
template <class Eager, class Compiled>
void expect_same(const Eager& eager, const Compiled& compiled, int steps) {
  for (int i = 0; i < steps; ++i) EXPECT_LE(distance(eager(i), compiled(i)), 1e-6) << "step " << i;
}

TEST(Guards, AnOptimizerThatStepsTwice) {
  const auto make = [] { return full({4}, 1).set_requires_grad(); };
  Tensor a = make(), b = make();
  optim::AdamW oa({a}, {.lr = 0.1}), ob({b}, {.lr = 0.1});
  const auto body = [](Tensor& w, optim::Optimizer& o, const Tensor& x) {
    for (int k = 0; k < 2; ++k) {
      o.zero_grad();
      sum(square(w * x)).backward();
      o.step();
    }
  };
  auto step = compile([&](const Tensor& x) { body(b, ob, x); });
  expect_same([&](int i) { return body(a, oa, full({4}, i + 1)), a.detach(); },
              [&](int i) { return step(full({4}, i + 1)), b.detach(); }, 4);
  EXPECT_EQ(ob.state_dict().at("state.0.step").item<int64_t>(), 8);
  EXPECT_EQ(step.stats().plans, 1);
}

TEST(Guards, AnOptimizerInTheSamePlaceIsAnother) {
  Tensor a = ones({3}).set_requires_grad(), b = ones({3}).set_requires_grad();
  std::optional<optim::SGD> sgd;
  sgd.emplace(optim::ParameterList{a}, optim::SGD::Options{.lr = 0.5, .momentum = 0.9});
  auto step = compile([&](const Tensor& x) {
    sgd->zero_grad();
    sum((a + b) * x).backward();
    sgd->step();
  });
  step(ones({3}));
  sgd.emplace(optim::ParameterList{b}, optim::SGD::Options{.lr = 0.5, .momentum = 0.9});
  a.zero_grad();
  step(ones({3}));
  EXPECT_EQ(a.detach().to_vector<float>(), std::vector<float>(3, 0.5f));
  EXPECT_EQ(b.detach().to_vector<float>(), std::vector<float>(3, 0.5f));
}

TEST(Guards, ParametersThatKernelsSeeAsViews) {
  struct Net : nn::Module {
    Tensor& w = parameter("w", ones({4, 4}));
  } net;
  auto step = compile([&](const Tensor& x) { return sum(matmul(x, net.w.t())); });
  const Tensor x = ones({2, 4});
  EXPECT_EQ(step(x).item(), 32);
  net.to(f64);
  net.to(f32);
  {
    const NoGrad guard;
    net.w.detach().zero_();
  }
  EXPECT_EQ(step(x).item(), 0);
  EXPECT_EQ(step.stats().plans, 2);
}

TEST(Guards, ModulesClearTheirGradientsToo) {
  nn::Linear net({.in = 4, .out = 3});
  optim::SGD sgd(net.named_parameters(), {.lr = 0.1});
  auto step = compile([&](const Tensor& x) {
    net.zero_grad();
    sum(net(x)).backward();
    sgd.step();
  });
  for (int i = 0; i < 5; ++i) step(rand({2, 4}));
  EXPECT_EQ(step.stats().plans, 1);
  EXPECT_FALSE(net.weight.grad().defined());
}

TEST(Guards, SummingAndClearingTakeTurnsBetweenTwoPlans) {
  Tensor w = ones({3}).set_requires_grad();
  auto step = compile([&](const Tensor& x) { sum(w * x).backward(); });
  for (int i = 0; i < 12; ++i) {
    step(ones({3}));
    EXPECT_EQ(w.grad().to_vector<float>()[0], static_cast<float>(i % 4 + 1));
    if (i % 4 == 3) w.zero_grad();
  }
  EXPECT_EQ(step.stats().plans, 2);
}

TEST(Guards, LeavesOfTheStepAreItsOwn) {
  auto step = compile([](const Tensor& x) {
    Tensor leaf = x.detach().clone();
    leaf.set_requires_grad();
    sum(square(leaf)).backward();
    return leaf.grad();
  });
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(step(full({2}, i)).to_vector<float>()[1], 2.0f * static_cast<float>(i));
  EXPECT_EQ(step.stats().plans, 1);
}

TEST(Guards, GradientsThatTheStepDoesNotUseStay) {
  Tensor w = ones({3}).set_requires_grad();
  optim::SGD sgd({w}, {.lr = 0.25});
  auto step = compile([&](const Tensor& x) {
    sgd.zero_grad();
    const Tensor loss = sum(w * x);
    loss.backward();
    return loss;
  });
  for (int i = 0; i < 3; ++i) {
    step(ones({3}));
    sgd.step();
  }
  EXPECT_EQ(w.detach().to_vector<float>(), std::vector<float>(3, 0.25f));
  EXPECT_EQ(step.stats().plans, 1);
}

TEST(Guards, AnInputOverMemoryThatTheStepWrites) {
  Tensor state = zeros({4}), reference = zeros({4});
  const auto body = [](Tensor& s, const Tensor& x) {
    s.add_(ones({4}));
    return x * 2 + s;
  };
  auto step = compile([&](const Tensor& x) { return body(state, x); });
  for (int i = 0; i < 3; ++i) {
    const Tensor before = reference.clone();
    EXPECT_EQ(distance(step(state.detach()), body(reference, before)), 0);
  }
}

TEST(Guards, AStepIsNotCalledFromWithin) {
  Tensor w = ones({1}).set_requires_grad();
  optim::Adam adam({w}, {.lr = 0.1});
  auto step = compile([&](const Tensor& x) {
    const Tensor loss = sum(w * x);
    loss.backward();
    adam.step();
    adam.zero_grad();
    return loss;
  });
  const Tensor x = ones({1});
  step(x);
  EXPECT_EQ(
      message_of<ValueError>([&] {
        step.repeat(
            5, [&] { step(x); }, x);
      }),
      "[compile] the step is called while it runs: not from after_each(), nor by two threads");
  EXPECT_NEAR(w.item(), 0.8, 1e-5);  // the step before it is done
  EXPECT_THROW(step.repeat(
                   5, [] { throw std::runtime_error("stop"); }, x),
               std::runtime_error);
  EXPECT_NEAR(w.item(), 0.7, 1e-5);
  EXPECT_EQ(adam.state_dict().at("state.0.step").item<int64_t>(), 3);
  step(x);
  EXPECT_NEAR(w.item(), 0.6, 1e-5);
}

TEST(Guards, ATensorThatTwoPlansUseIsReplaced) {
  Tensor scale = full({1}, 2);
  auto step = compile([&](const Tensor& x) { return sum(x * scale); });
  EXPECT_EQ(step(ones({3})).item(), 6);
  EXPECT_EQ(step(ones({5})).item(), 10);
  EXPECT_EQ(step.stats().plans, 2);
  scale = full({1}, 7);
  EXPECT_EQ(step(ones({3})).item(), 21);
  EXPECT_EQ(step(ones({5})).item(), 35);
  EXPECT_EQ(step(ones({3})).item(), 21);
  EXPECT_EQ(step.stats().plans, 4);

  Tensor h;
  auto writer = compile([&](const Tensor& x) {
    h = x * 2;
    return sum(h);
  });
  auto reader = compile([&](const Tensor& x) { return sum(h + x); });
  for (int i = 0; i < 3; ++i) {
    writer(ones({2}) * i);
    EXPECT_EQ(reader(ones({2})).item(), 4 * i + 2);
  }
  EXPECT_EQ(writer.stats().plans + reader.stats().plans, 2);
  h = full({2}, 7);
  EXPECT_EQ(reader(ones({2})).item(), 16);
  EXPECT_EQ(writer(ones({2})).item(), 4);
  EXPECT_EQ(reader(ones({2})).item(), 6);
}

TEST(Guards, AParameterThatNoLaunchUsesMayMove) {
  Tensor w = ones({1}).set_requires_grad();
  const auto unused = std::make_shared<nn::Linear>(nn::Linear::Options{.in = 2, .out = 2});
  optim::SGD sgd({w, unused->weight}, {.lr = 0.5});
  auto step = compile([&](const Tensor& x) {
    sgd.zero_grad();
    const Tensor loss = sum(w * x);
    loss.backward();
    sgd.step();
    return loss;
  });
  step(ones({1}));
  unused->to(f64);
  step(ones({1}));
  EXPECT_EQ(w.item(), 0);
}

TEST(Guards, WhatTheCallerThrowsIsNoReasonToRunEagerly) {
  Tensor w = zeros({1});
  auto step = compile(
      [&](const Tensor& x) {
        const NoGrad guard;
        w.add_(x);
        return sum(w);
      },
      {.fall_back = true});
  int calls = 0;
  const auto stop = [&] {
    if (++calls == 2) throw CompileError("of another step");
  };
  EXPECT_THROW(step.repeat(4, stop, ones({1})), CompileError);
  EXPECT_EQ(w.item(), 2);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(step.stats().fell_back, "");
}

TEST(Guards, PlansThatAreMadeAnewAgainAndAgainAreTold) {
  std::vector<std::string> warnings;
  Tensor c;
  auto step = compile([&](const Tensor& x) { return sum(x * c); },
                      {.warn = [&](const std::string& line) { warnings.push_back(line); }});
  for (int i = 0; i < 20; ++i) {
    c = full({1}, i);
    EXPECT_EQ(step(ones({2})).item(), 2 * i);
  }
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("made anew 8 times: tensors that they use were replaced"),
            std::string::npos);
}

TEST(Guards, ResultsAreTheCallers) {
  Tensor last;
  auto step = std::make_unique<decltype(compile(std::function<Tensor(const Tensor&)>()))>(
      compile(std::function<Tensor(const Tensor&)>([&](const Tensor& x) {
        last = sum(x);
        return last;
      })));
  const Tensor first = (*step)(full({3}, 1)), second = (*step)(full({3}, 2));
  EXPECT_EQ(first.item(), 3);
  EXPECT_EQ(second.item(), 6);
  EXPECT_EQ(last.item(), 6);
  step.reset();
  const Tensor other = full({3}, 7);
  EXPECT_EQ(second.item(), 6);
  auto doubled = compile([](const Tensor& x) { return x * 2; });
  doubled(ones({2})).set_requires_grad(true);
  EXPECT_FALSE(doubled(ones({2})).requires_grad());
}

TEST(Guards, VariablesOutsideHoldTheNewestOfAllPlans) {
  Tensor last;
  auto step = compile([&](const Tensor& x) { last = sum(x); });
  for (int i = 1; i <= 3; ++i)
    for (const int64_t size : {4, 4, 2}) {  // as the last batch of an epoch
      step(full({size}, i));
      EXPECT_EQ(last.item(), i * size);
    }
  last = {};
  step(full({2}, 7));
  ASSERT_TRUE(last.defined());
  EXPECT_EQ(last.item(), 14);
}

TEST(Guards, GeneratorsThatCannotBeToldApart) {
  Generator a(4), b(4), c(5);
  auto same = compile(
      [&](const Tensor& x) { return dropout(x, 0.5, true, &a) + dropout(x, 0.5, true, &b); });
  EXPECT_THROW(same(ones({8})), CompileError);
  EXPECT_EQ(a.state(), (RandomKey{4, 0}));
  auto own = compile([](const Tensor& x) {
    Generator g(1);
    return dropout(x, 0.5, true, &g);
  });
  EXPECT_THROW(own(ones({8})), CompileError);
  auto two = compile(
      [&](const Tensor& x) { return dropout(x, 0.5, true, &a) * dropout(x, 0.5, true, &c); });
  Generator d(4), e(5);
  for (int i = 0; i < 3; ++i) {
    const Tensor x = ones({8}), want = dropout(x, 0.5, true, &d) * dropout(x, 0.5, true, &e);
    EXPECT_EQ(distance(two(x), want), 0);
  }
}

TEST(Guards, ExplainingAfterAPlanThatFailed) {
  auto step = compile([](const Tensor& x) { return matmul(x, x); }, {.max_plans = 1});
  step(ones({2, 2}));
  EXPECT_THROW(step(ones({2, 3})), ShapeError);
  EXPECT_NE(step.explain().find("matmul"), std::string::npos);
  EXPECT_EQ(step(ones({2, 2})).to_vector<float>(), std::vector<float>(4, 2.0f));
}

}  // namespace
}  // namespace brim
