// Training with the rounding of integers in sight.
#include <brim/autograd/autograd.h>
#include <brim/compress/quantize.h>
#include <brim/core/random.h>
#include <brim/nn/linear.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/int8.h>
#include <brim/ops/loss.h>
#include <brim/ops/matmul.h>
#include <brim/ops/shape.h>
#include <brim/optim/sgd.h>
#include <brim/plan/compile.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compress/pruned_weight.h"
#include "compress/quantised.h"

namespace brim::compress {
namespace {

using tests::Quantised;
using tests::relative_error;

/// The loss after some steps.
double trained(Quantised& net, const Tensor& x, const Tensor& y) {
  optim::SGD sgd(net.parameters(), {.lr = 0.2, .momentum = 0.9});
  double loss = 0;
  for (int i = 0; i < 60; ++i) {
    sgd.zero_grad();
    const Tensor now = cross_entropy(net(x), y);
    now.backward();
    sgd.step();
    loss = now.item();
  }
  return loss;
}

TEST(FakeQuantizer, TrainsForIntegers) {
  manual_seed(8);
  const Tensor y = randint(0, 5, {64}, {.dtype = i64});
  const Tensor x = randn({64, 3, 8, 8}) * 0.3 + y.to(f32).reshape({-1, 1, 1, 1});  // can be learnt
  manual_seed(6);
  Quantised floats;
  const double first = cross_entropy(floats(x), y).item(), of_floats = trained(floats, x, y);
  manual_seed(6);
  Quantised net;
  net(x);
  FakeQuantizer rounding(net, [&] { net(x); }, {.only_faster = false});
  const double of_integers = trained(net, x, y);
  EXPECT_LT(of_floats, first / 2);
  EXPECT_LT(of_integers, first - 0.7 * (first - of_floats));
  net.eval();
  const NoGrad scope;
  const Tensor in_sight = net(x);
  const std::vector<QuantizedLayer> layers = rounding.quantize();
  EXPECT_EQ(layers.size(), 3u);
  // What was rounded in training is what integers compute.
  EXPECT_LT(relative_error(net(x), in_sight), 1e-5);
  EXPECT_THROW((void)rounding.quantize(), ValueError);
}

TEST(FakeQuantizer, IsInCompiledSteps) {
  std::vector<std::vector<double>> losses;
  for (const bool is_compiled : {false, true}) {
    manual_seed(7);
    Quantised net;
    const Tensor x = randn({16, 3, 8, 8}), y = randint(0, 5, {16}, {.dtype = i64});
    const FakeQuantizer rounding(net, [&] { net(x); }, {.only_faster = false});
    optim::SGD sgd(net.parameters(), {.lr = 0.05});
    const auto step = [&](const Tensor& in, const Tensor& labels) {
      sgd.zero_grad();
      const Tensor loss = cross_entropy(net(in), labels);
      loss.backward();
      sgd.step();
      return loss;
    };
    auto compiled = compile(step);
    std::vector<double>& all = losses.emplace_back();
    for (int i = 0; i < 5; ++i) all.push_back((is_compiled ? compiled(x, y) : step(x, y)).item());
  }
  for (size_t i = 0; i < losses[0].size(); ++i)
    EXPECT_NEAR(losses[0][i], losses[1][i], 2e-3 * losses[0][i]);
}

TEST(FakeQuantizer, TakesLayersThatAreKnown) {
  nn::Linear layer({.in = 6, .out = 4});
  const Tensor x = randn({3, 6});
  const auto run = [&] { layer(x); };
  std::vector<QuantizedLayer> layers = quantize(layer, run, {.only_faster = false});
  FakeQuantizer rounding(layer, layers, run);
  EXPECT_EQ(layer(x).to_vector<float>(), linear(fake_quantize(x, layers[0].input),
                                                fake_quantize_weight(layer.weight), layer.bias)
                                             .to_vector<float>());
  EXPECT_EQ(rounding.quantize()[0].input, layers[0].input);
  // One of which no layer is to be in integers has nothing to do.
  layers[0].why = "as asked for";
  FakeQuantizer nothing(layer, layers, run);
  EXPECT_EQ(nothing.quantize()[0].why, "as asked for");
  layers[0].name = "other";
  EXPECT_THROW(FakeQuantizer(layer, layers, run), ValueError);
}

TEST(FakeQuantizer, KeepsColumnsOut) {
  manual_seed(13);
  nn::Linear layer({.in = 40, .out = 16});
  {
    const NoGrad scope;
    layer.weight.copy_(tests::pruned_weight({16, 40}, 8, 0.75));
  }
  const Tensor x = randn({3, 40});
  const auto run = [&] { layer(x); };
  FakeQuantizer rounding(layer, run, {.only_faster = false, .vector = 8});
  {
    const NoGrad scope;
    layer.weight.mul_(1.5);
  }
  const auto layers = rounding.quantize();
  ASSERT_TRUE(layers[0].is_sparse());
  EXPECT_EQ(layers[0].sparse.dense().to_vector<float>(),
            Int8Weight::quantize(layer.weight).dense().to_vector<float>());
  EXPECT_NE(layer.str().find("sparse int8"), std::string::npos);
}

TEST(FakeQuantizer, LeavesNothingBehind) {
  nn::Linear layer({.in = 6, .out = 4});
  const Tensor x = randn({3, 6});
  const std::vector<float> before = layer(x).to_vector<float>();
  {
    const FakeQuantizer rounding(layer, [&] { layer(x); }, {.only_faster = false});
    EXPECT_NE(layer(x).to_vector<float>(), before);
  }
  EXPECT_EQ(layer(x).to_vector<float>(), before);
}

}  // namespace
}  // namespace brim::compress
