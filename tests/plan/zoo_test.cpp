// Compiled training equals eager training for every model in the zoo, with all passes and with
// each one left out: it is no farther from training in f64 than eager training in f32 is. (Rounding
// flips a ReLU here and there, which deep networks that normalise few values amplify.)
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cmath>

#include <brim/brim.h>

#include "plan/pass.h"
#include "sanitized.h"
#include "temporary_folder.h"

namespace brim {
namespace {

struct Case {
  const char* model;
  Shape x;
  int steps;
};

using Weights = std::vector<Tensor>;

Weights copies(const nn::Module& net) {
  Weights list;
  for (const Tensor& p : net.parameters()) list.push_back(p.detach().clone().to(f64));
  for (const auto& [name, buffer] : net.named_buffers()) list.push_back(buffer.clone().to(f64));
  return list;
}

double norm_of(const Tensor& t) { return std::sqrt(sum(t * t).item()); }

/// Trains from the same weights on the same batches; gives the weights before and after.
std::pair<Weights, Weights> train(const Case& c, DType dtype, bool compiled,
                                  const std::string& passes) {
  manual_seed(11);
  const auto net = nn::make_model(c.model, {.classes = 10});
  optim::SGD optimizer(net->named_parameters(), {.lr = 0.01, .momentum = 0.9});
  const auto body = [&](const Tensor& x, const Tensor& y) {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy((*net)(x), y);
    loss.backward();
    optimizer.step();
    return loss;
  };
  auto step = compile(body, {.passes = passes});
  const Weights before = copies(*net);
  net->to(dtype);
  for (int i = 0; i < c.steps; ++i) {
    const Tensor x = randn(c.x).to(dtype), y = randint(0, 10, {c.x[0]}, {.dtype = i64});
    compiled ? step(x, y) : body(x, y);
  }
  EXPECT_EQ(step.stats().plans, compiled ? 1 : 0);
  return {before, copies(*net)};
}

/// Measured times of layouts go to a folder of the test.
class Zoo : public ::testing::TestWithParam<Case> {
 protected:
  Zoo() { setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1); }
  ~Zoo() override { unsetenv("XDG_CACHE_HOME"); }

 private:
  testing::TemporaryFolder folder_;
};

TEST_P(Zoo, CompiledEqualsEager) {
  const auto [before, exact] = train(GetParam(), f64, false, "");
  const Weights eager = train(GetParam(), f32, false, "").second;
  const auto distance = [&, &first = before, &want = exact](const Weights& got, size_t i) {
    return norm_of(got[i] - want[i]) / (norm_of(want[i] - first[i]) + 1e-3);
  };
  double rounding = 0;  // of the eager step, in the worst tensor
  for (size_t i = 0; i < eager.size(); ++i) rounding = std::max(rounding, distance(eager, i));
  std::vector<std::string> selections{"", "memory"};
  const bool slow = BRIM_SANITIZED && GetParam().model != std::string("tutorial-cnn");
  if (!slow)
    for (const plan::Pass& pass : plan::all_passes())
      selections.push_back("-" + std::string(pass.name));
  for (const std::string& passes : selections) {
    const Weights compiled = train(GetParam(), f32, true, passes).second;
    for (size_t i = 0; i < eager.size(); ++i)
      EXPECT_LE(distance(compiled, i), 1e-5 + 4 * rounding)
          << "tensor " << i << " with --passes '" << passes << "'";
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Zoo,
                         ::testing::Values(Case{"tutorial-cnn", {4, 3, 32, 32}, 8},
                                           Case{"tutorial-cnn", {33, 3, 32, 32}, 3},
                                           Case{"resnet18-cifar", {3, 3, 16, 16}, 2},
                                           Case{"resnet18", {2, 3, 64, 64}, 2}),
                         [](const auto& c) {
                           std::string name = c.param.model;
                           for (char& letter : name)
                             if (letter == '-') letter = '_';
                           return name + "_" + std::to_string(c.param.x[0]);
                         });

/// Layers that the models lack.
TEST(CompiledLayers, EqualEager) {
  const auto train_mixed = [](bool compiled) {
    manual_seed(5);
    nn::Sequential net;
    net.add<nn::Conv2d>("conv", {.in = 2, .out = 6, .kernel = 3, .padding = 1});
    net.add<nn::GroupNorm>("group", {.groups = 2, .channels = 6});
    net.add<nn::GELU>("gelu");
    net.add<nn::AvgPool2d>("pool", {.kernel = 2});
    net.add<nn::Flatten>("flatten");
    net.add<nn::Dropout>("dropout", {.p = 0.3});
    net.add<nn::Linear>("fc1", {.in = 96, .out = 20});
    net.add<nn::LayerNorm>("layer", {.shape = {20}});
    net.add<nn::Tanh>("tanh");
    net.add<nn::Linear>("fc2", {.in = 20, .out = 5});
    optim::AdamW optimizer(net.named_parameters(), {.lr = 0.01});
    auto body = [&](const Tensor& x, const Tensor& y) {
      optimizer.zero_grad();
      const Tensor loss = cross_entropy(net(x), y, {.label_smoothing = 0.1});
      loss.backward();
      optim::clip_grad_norm_(net.parameters(), 0.5);
      optimizer.step();
      return loss;
    };
    auto step = compile(body);
    std::vector<double> losses;
    for (int i = 0; i < 6; ++i) {
      const Tensor x = randn({7, 2, 8, 8}), y = randint(0, 5, {7}, {.dtype = i64});
      losses.push_back((compiled ? step(x, y) : body(x, y)).item());
    }
    return losses;
  };
  const auto eager = train_mixed(false), compiled = train_mixed(true);
  for (size_t i = 0; i < eager.size(); ++i) EXPECT_NEAR(eager[i], compiled[i], 1e-4) << i;
}

}  // namespace
}  // namespace brim
