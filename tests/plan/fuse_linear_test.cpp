// The fused kernels of fully connected layers and losses: where plans put them, what they leave
// alone, and that training stays the same.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <brim/brim.h>

#include "plan/plan.h"

namespace brim::plan {
namespace {

struct Mlp : nn::Sequential {
  explicit Mlp(bool bias = true) {
    manual_seed(7);
    push<nn::Linear>({.in = 20, .out = 16, .bias = bias});
    push<nn::ReLU>();
    push<nn::Linear>({.in = 16, .out = 12, .bias = bias});
    push<nn::ReLU>();
    push<nn::Linear>({.in = 12, .out = 5, .bias = bias});
  }
};

using Batch = std::span<const Tensor>;
using TrainStep = std::function<Tensor(nn::Sequential&, optim::Optimizer&, Batch)>;

Tensor plain_step(nn::Sequential& net, optim::Optimizer& optimizer, Batch batch) {
  optimizer.zero_grad();
  Tensor loss = cross_entropy(net(batch[0]), batch[1]);
  loss.backward();
  optimizer.step();
  return loss;
}

std::vector<Tensor> batch_of(int64_t rows = 6) {
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < rows; ++i) labels.push_back(i % 5);
  return {randn({rows, 20}), Tensor::from(labels, {rows})};
}

/// The launches of a step with fused kernels.
std::vector<std::string> fused_names(nn::Sequential& net, optim::Optimizer& optimizer,
                                     const TrainStep& step) {
  const auto batch = batch_of();
  Program p =
      record([&](Batch in) { return std::vector<Tensor>{step(net, optimizer, in)}; }, batch, false)
          .program;
  (void)run_pass("rewrites", p);
  std::vector<std::string> list;
  for (const auto& launch : p.launches) list.emplace_back(launch->name());
  return list;
}

using Names = std::vector<std::string>;

TEST(FuseLinear, AnMlpStepIsSevenLaunches) {
  Mlp net;
  optim::SGD optimizer(net.named_parameters(), {.lr = 0.1, .momentum = 0.9});
  EXPECT_EQ(
      fused_names(net, optimizer, plain_step),
      (Names{"linear_relu", "linear_relu", "linear", "softmax_cross_entropy",
             "linear_grad_sgd_momentum", "linear_grad_sgd_momentum", "linear_grad_sgd_momentum"}));
}

TEST(FuseLinear, GradientsThatOthersReadStay) {
  Mlp net;
  optim::SGD optimizer(net.named_parameters(), {.lr = 0.1});
  const Names names =
      fused_names(net, optimizer, [](nn::Sequential& n, optim::Optimizer& o, Batch batch) {
        o.zero_grad();
        Tensor loss = cross_entropy(n(batch[0]), batch[1]);
        loss.backward();
        (void)optim::clip_grad_norm_(n.parameters(), 1.0);
        o.step();
        return loss;
      });
  EXPECT_EQ(std::count(names.begin(), names.end(), "linear_grad"), 3);
  EXPECT_EQ(names.back(), "sgd");
}

TEST(FuseLinear, AWeightThatIsReadAgainIsNotUpdatedEarly) {
  Mlp net;
  optim::SGD optimizer(net.named_parameters(), {.lr = 0.1});
  const Tensor first = net.parameters()[0];
  const Names names =
      fused_names(net, optimizer, [&](nn::Sequential& n, optim::Optimizer& o, Batch batch) {
        o.zero_grad();
        Tensor loss = cross_entropy(n(batch[0]), batch[1]);
        loss.backward();
        const NoGrad guard;
        Tensor size = sum(first.detach());
        o.step();
        return size;
      });
  EXPECT_EQ(std::count(names.begin(), names.end(), "linear_grad"), 1);
  EXPECT_EQ(std::count(names.begin(), names.end(), "linear_grad_sgd"), 2);
}

/// A square weight after two steps of `loss`.
Tensor stepped(const std::function<Tensor(const Tensor& weight)>& loss, bool compiled) {
  manual_seed(5);
  nn::Sequential net;
  net.push<nn::Linear>({.in = 72, .out = 72, .bias = false});
  const Tensor weight = net.parameters()[0];
  optim::SGD optimizer(net.named_parameters(), {.lr = 0.02});
  const auto body = [&](const Tensor& x) {
    optimizer.zero_grad();
    Tensor value = loss(weight) + sum(x);
    value.backward();
    optimizer.step();
    return value.detach();
  };
  auto plan = compile(body);
  const Tensor x = zeros({1});
  for (int i = 0; i < 2; ++i) (void)(compiled ? plan(x) : body(x));
  return weight.detach().clone();
}

TEST(FuseLinear, AWeightThatIsItsLayersInputIsNotUpdatedEarly) {
  const Tensor dy = ones({72, 72});
  const std::vector<std::function<Tensor(const Tensor&)>> losses{
      [](const Tensor& w) { return sum(square(linear(w.detach(), w))); },
      [&](const Tensor& w) { return sum(relu(linear(w.detach(), w)) * dy); },
      [&](const Tensor& w) { return sum(linear(dy, w) * w.detach()); },
  };
  for (size_t i = 0; i < losses.size(); ++i)
    EXPECT_LT(max(abs(stepped(losses[i], true) - stepped(losses[i], false))).item(), 1e-5) << i;
}

/// A product with the gradient of a layer that comes behind the optimizer's step sees the weight
/// after it.
TEST(FuseLinear, AProductWithTheUpdatedWeightStaysBehindTheUpdate) {
  const auto product = [](bool compiled) {
    manual_seed(6);
    Tensor weight = randn({8, 5}).set_requires_grad();
    optim::SGD optimizer({weight}, {.lr = 0.5});
    const auto body = [&](const Tensor& x) {
      optimizer.zero_grad();
      Tensor z = linear(x, weight);
      z.retain_grad();
      sum(square(z)).backward();
      optimizer.step();
      const NoGrad guard;
      return matmul(z.grad(), weight);
    };
    auto step = compile(body);
    const Tensor x = randn({4, 5});
    return compiled ? step(x).clone() : body(x);
  };
  EXPECT_LT(max(abs(product(true) - product(false))).item(), 1e-3);
}

TEST(FuseLoss, LeavesAnotherIncomingGradientAlone) {
  Mlp net;
  optim::SGD optimizer(net.named_parameters(), {.lr = 0.1});
  const Names names =
      fused_names(net, optimizer, [](nn::Sequential& n, optim::Optimizer& o, Batch batch) {
        o.zero_grad();
        Tensor loss = cross_entropy(n(batch[0]), batch[1]) * 2.0;
        loss.backward();
        o.step();
        return loss;
      });
  EXPECT_EQ(std::count(names.begin(), names.end(), "softmax_cross_entropy"), 0);
  EXPECT_EQ(std::count(names.begin(), names.end(), "cross_entropy_grad"), 1);
}

using MakeOptimizer = std::function<std::unique_ptr<optim::Optimizer>(const nn::Sequential&)>;

/// Weights after some steps, whose learning rate changes.
std::vector<Tensor> trained(const MakeOptimizer& make, const TrainStep& step, bool bias,
                            bool compiled) {
  Mlp net(bias);
  const auto optimizer = make(net);
  manual_seed(3);
  const auto body = [&](const Tensor& x, const Tensor& y) {
    const std::vector<Tensor> batch = {x, y};
    return step(net, *optimizer, batch);
  };
  auto plan = compile(body);
  for (int i = 0; i < 6; ++i) {
    const auto batch = batch_of(i < 4 ? 6 : 1);
    optimizer->set_lr(0.05 / (1 + i));
    const Tensor loss = compiled ? plan(batch[0], batch[1]) : body(batch[0], batch[1]);
    EXPECT_TRUE(std::isfinite(loss.item()));
  }
  std::vector<Tensor> weights;
  for (const Tensor& p : net.parameters()) weights.push_back(p.detach().clone());
  return weights;
}

void expect_same_training(const MakeOptimizer& make, const TrainStep& step = plain_step,
                          bool bias = true) {
  const auto want = trained(make, step, bias, false), got = trained(make, step, bias, true);
  ASSERT_EQ(want.size(), got.size());
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_LE(max(abs(got[i] - want[i])).item(), 1e-4) << "parameter " << i;
}

TEST(FuseLinear, TrainingStaysTheSame) {
  const std::vector<MakeOptimizer> optimizers = {
      [](const nn::Sequential& n) {
        return std::make_unique<optim::SGD>(n.named_parameters(), optim::SGDOptions{.lr = 0.05});
      },
      [](const nn::Sequential& n) {
        return std::make_unique<optim::SGD>(
            n.named_parameters(),
            optim::SGDOptions{.lr = 0.05, .momentum = 0.9, .weight_decay = 0.01});
      },
      [](const nn::Sequential& n) {
        return std::make_unique<optim::AdamW>(n.named_parameters(),
                                              optim::AdamWOptions{.lr = 0.05});
      },
      [](const nn::Sequential& n) {
        return std::make_unique<optim::RMSprop>(n.named_parameters(),
                                                optim::RMSpropOptions{.lr = 0.05});
      }};
  for (const auto& make : optimizers)
    for (const bool bias : {true, false}) expect_same_training(make, plain_step, bias);
}

TEST(FuseLinear, GradientsOfSeveralBatchesAddUp) {
  expect_same_training(
      [](const nn::Sequential& n) {
        return std::make_unique<optim::SGD>(n.named_parameters(), optim::SGDOptions{.lr = 0.05});
      },
      [](nn::Sequential& net, optim::Optimizer& optimizer, Batch batch) {
        optimizer.zero_grad();
        for (int i = 0; i < 2; ++i) cross_entropy(net(batch[0] * (1.0 + i)), batch[1]).backward();
        optimizer.step();
        return sum(batch[0]);
      });
}

}  // namespace
}  // namespace brim::plan
