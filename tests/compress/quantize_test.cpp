// Layers in integers: what they compute, what they lose, and which stay as they are.
#include <brim/autograd/autograd.h>
#include <brim/compress/quantize.h>
#include <brim/core/random.h>
#include <brim/nn/activation.h>
#include <brim/nn/conv.h>
#include <brim/nn/linear.h>
#include <brim/ops/binary.h>
#include <brim/ops/compare.h>
#include <brim/ops/create.h>
#include <brim/ops/int8.h>
#include <brim/ops/matmul.h>
#include <brim/ops/reduce.h>
#include <brim/ops/unary.h>
#include <brim/plan/compile.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "compress/pruned_weight.h"
#include "compress/quantised.h"
#include "message_of.h"

namespace brim::compress {
namespace {

using tests::message_of;
using tests::Quantised;
using tests::relative_error;

TEST(Quantize, ComputesNearlyTheSame) {
  manual_seed(3);
  Quantised net;
  const Tensor x = randn({8, 3, 12, 12});
  net(x);  // some running statistics
  net.train();
  net.bn1.eval();
  const Tensor want = [&] {
    const NoGrad scope;
    net.eval();
    const Tensor y = net(x);
    net.train();
    net.bn1.eval();
    return y;
  }();
  for (const Calibration c :
       {Calibration::min_max, Calibration::percentile, Calibration::mse, Calibration::entropy}) {
    int runs = 0;
    const std::vector<QuantizedLayer> layers = quantize(net,
                                                        [&] {
                                                          EXPECT_FALSE(net.training());
                                                          EXPECT_FALSE(grad_enabled());
                                                          net(x);
                                                          ++runs;
                                                        },
                                                        {.calibration = c, .only_faster = false});
    EXPECT_GE(runs, 2);
    ASSERT_EQ(layers.size(), 3u);
    for (const QuantizedLayer& layer : layers) {
      EXPECT_EQ(layer.why, "") << layer.name;
      EXPECT_GT(layer.error, 0);
      EXPECT_LT(layer.error, 0.03) << layer.name;
    }
    EXPECT_EQ(layers[1].name, "conv2");
    EXPECT_GE(layers[1].min, 0);
    // Modes are what they were.
    EXPECT_TRUE(net.training());
    EXPECT_TRUE(net.conv1.training());
    EXPECT_FALSE(net.bn1.training());
    net.eval();
    const NoGrad scope;
    const Tensor got = net(x);
    EXPECT_LT(relative_error(got, want), 0.03);
    EXPECT_GT(relative_error(got, want), 0);
    // The layer computes what its ops do.
    const Tensor some = rand({2, 16, 5, 5});
    EXPECT_EQ(net.conv2(some).to_vector<float>(),
              int8_conv2d(brim::quantize(some, layers[1].input), layers[1].input, layers[1].weight)
                  .to_vector<float>());
    net.train();
    net.bn1.eval();
  }
}

/// Of the second convolution and the linear layer most columns are zero for 4 outputs at once.
void prune(Quantised& net) {
  const NoGrad scope;
  net.conv2.weight.copy_(net.conv2.weight.detach() *
                         ne(tests::pruned_weight({20, 16, 3, 3}, 4, 0.75), 0).to(f32));
  net.fc.weight.copy_(net.fc.weight.detach() *
                      ne(tests::pruned_weight({5, 20}, 4, 0.75), 0).to(f32));
}

TEST(Quantize, LeavesColumnsOfZerosOut) {
  manual_seed(12);
  Quantised net;
  prune(net);
  const Tensor x = randn({4, 3, 12, 12});
  const auto run = [&] { net(x); };
  net.eval();
  const NoGrad scope;
  quantize(net, run, {.only_faster = false});
  EXPECT_EQ(net.str().find("sparse int8"), std::string::npos);
  const std::vector<float> want = net(x).to_vector<float>();
  const auto layers = quantize(net, run, {.only_faster = false, .vector = 4});
  EXPECT_FALSE(layers[0].is_sparse());
  EXPECT_TRUE(layers[1].is_sparse());
  EXPECT_TRUE(layers[2].is_sparse());
  EXPECT_LT(layers[1].sparse.density(), 0.4);
  EXPECT_NE(net.str().find("sparse int8"), std::string::npos);
  EXPECT_EQ(net(x).to_vector<float>(), want);  // to the bit
  // The same layers as files have them.
  const Int8Layers of_file = int8_layers(layers);
  EXPECT_FALSE(of_file.at("conv1.weight").is_sparse());
  EXPECT_TRUE(of_file.at("conv2.weight").is_sparse());
  EXPECT_EQ(of_file.at("conv2.weight").shape(), net.conv2.weight.shape());
  EXPECT_TRUE(of_file.at("conv2.weight").correction().defined());
  use_dense(net);
  EXPECT_EQ(use_int8(net, of_file), 3u);
  EXPECT_EQ(net(x).to_vector<float>(), want);
  // Where that is measured, it is one of them, and says how long both take.
  for (const QuantizedLayer& layer : quantize(net, run, {.vector = 4})) {
    EXPECT_EQ(layer.sparse_int8_s > 0, layer.name != "conv1") << layer.name;
    if (layer.is_sparse()) {
      EXPECT_LT(layer.sparse_int8_s, layer.int8_s) << layer.name;
    }
  }
  EXPECT_THROW(quantize(net, run, {.vector = 5}), ValueError);
  EXPECT_THROW(use_int8(net, {{"fc.weight", {}}}), ValueError);
}

TEST(Quantize, EndsWithGradientsChangesAndUseDense) {
  manual_seed(4);
  nn::Linear layer({.in = 40, .out = 30});
  const Tensor x = randn({4, 40});
  const auto plain = [&] {
    const NoGrad scope;
    return linear(x, layer.weight, layer.bias).to_vector<float>();
  };
  const auto now = [&] {
    const NoGrad scope;
    return layer(x).to_vector<float>();
  };
  const auto quantised = [&] { quantize(layer, [&] { layer(x); }, {.only_faster = false}); };
  quantised();
  EXPECT_NE(now(), plain());
  EXPECT_EQ(layer(x).to_vector<float>(), plain());  // gradients are wanted
  use_dense(layer);
  EXPECT_EQ(now(), plain());
  quantised();
  {
    const NoGrad scope;
    layer.weight.mul_(2);
  }
  EXPECT_EQ(now(), plain());
}

TEST(Quantize, CorrectsBias) {
  manual_seed(5);
  // Few and uneven weights round badly, all inputs are on one side.
  nn::Linear layer({.in = 12, .out = 8});
  const Tensor rows = rand({2000, 12}) + 1;
  const auto bias_of = [&](const Tensor& x, bool is_corrected) {
    use_dense(layer);
    const NoGrad scope;
    const Tensor want = layer(x);
    const auto layers =
        quantize(layer, [&] { layer(x); }, {.correct_bias = is_corrected, .only_faster = false});
    EXPECT_EQ(layers[0].weight.correction.defined(), is_corrected);
    return abs(mean((layer(x) - want).reshape({-1, 8}), {0})).max().item();
  };
  // Of whatever rank: outputs are last, not where convolutions have them.
  for (const Shape& shape : {Shape{2000, 12}, Shape{4, 5, 100, 12}, Shape{4, 50, 10, 12}}) {
    const Tensor x = rows.reshape(shape);
    const double before = bias_of(x, false), after = bias_of(x, true);
    EXPECT_LT(after, before / 20) << before << " of " << shape.str();
  }
}

TEST(Quantize, KeepsWhatIsFaster) {
  manual_seed(9);
  Quantised net;
  const Tensor x = randn({4, 3, 16, 16});
  std::vector<double> measured;
  const auto progress = [&](double fraction) { measured.push_back(fraction); };
  for (const QuantizedLayer& layer : quantize(net, [&] { net(x); }, {.progress = progress})) {
    EXPECT_GT(layer.f32_s, 0) << layer.name;
    EXPECT_GT(layer.int8_s, 0) << layer.name;
    if (layer.why.empty()) {
      EXPECT_LT(layer.int8_s, layer.f32_s) << layer.name;
    } else {
      EXPECT_NE(layer.why.find("slower in integers"), std::string::npos) << layer.why;
    }
  }
  EXPECT_EQ(measured, (std::vector<double>{0, 1 / 3.0, 2 / 3.0}));
}

/// The names of the layers that are in integers by passes that take so long: for whether conv1,
/// conv2 and fc are in integers.
std::vector<std::string> chosen_by(
    const std::function<std::vector<double>(bool conv1, bool conv2, bool fc)>& seconds) {
  manual_seed(9);
  Quantised net;
  const Tensor x = randn({4, 3, 16, 16});
  const auto of_network = [&] {
    EXPECT_FALSE(net.training());
    EXPECT_FALSE(grad_enabled());
    return seconds(net.conv1.int8_weight(), net.conv2.int8_weight(), net.fc.int8_weight());
  };
  std::vector<std::string> names;
  for (const QuantizedLayer& layer : quantize(net, [&] { net(x); }, {.pass_seconds = of_network}))
    if (layer.why.empty()) names.push_back(layer.name);
  EXPECT_EQ(net.conv1.int8_weight() != nullptr, std::ranges::count(names, "conv1") == 1);
  EXPECT_EQ(net.fc.int8_weight() != nullptr, std::ranges::count(names, "fc") == 1);
  return names;
}

TEST(Quantize, ChoosesByPassesOfTheNetwork) {
  using Names = std::vector<std::string>;
  // Whatever layers take alone.
  EXPECT_EQ(chosen_by([](bool a, bool b, bool c) {
              return std::vector<double>{1 - 0.1 * (a + b + c), 2 - 0.1 * (a + b + c)};
            }),
            (Names{"conv1", "conv2", "fc"}));
  EXPECT_EQ(
      chosen_by([](bool a, bool b, bool c) { return std::vector<double>{1 + 0.1 * (a + b + c)}; }),
      Names());
  EXPECT_EQ(chosen_by([](bool a, bool b, bool c) {
              return std::vector<double>{1 - 0.3 * (a + b) + 0.1 * c};
            }),
            (Names{"conv1", "conv2"}));
  EXPECT_EQ(chosen_by([](bool a, bool b, bool c) {
              return std::vector<double>{1 + 0.2 * a - 0.3 * b + 0.1 * c};
            }),
            Names{"conv2"});
  // No pass may be slower than in f32.
  EXPECT_EQ(chosen_by([](bool a, bool b, bool c) {
              return std::vector<double>{1 - 0.3 * (a + b + c), 1 + 0.001 * (a + b + c)};
            }),
            Names());
  // Measured twice, the second time slower: luck.
  int calls = 0;
  EXPECT_EQ(chosen_by([&calls](bool a, bool b, bool c) {
              const bool is_f32 = !a && !b && !c;
              return std::vector<double>{is_f32 ? 1.0 : ++calls % 2 == 1 ? 0.5 : 1.5};
            }),
            Names());
}

TEST(Quantize, RefusesPassesWithoutTimes) {
  for (const std::vector<double>& times :
       {std::vector<double>(), std::vector<double>{0}, std::vector<double>{1, NAN}}) {
    Quantised net;
    const Tensor x = randn({4, 3, 16, 16});
    const QuantizeOptions how{.pass_seconds = [&] { return times; }};
    EXPECT_NE(message_of([&] {
                quantize(
                    net, [&] { net(x); }, how);
              }).find("pass_seconds"),
              std::string::npos);
    EXPECT_EQ(net.fc.int8_weight(), nullptr);
  }
}

TEST(Quantize, IsTheSameOnVirtualAccelerators) {
  manual_seed(10);
  Quantised net;
  const Tensor x = randn({4, 3, 12, 12});
  net.eval();
  const QuantizeOptions all{.only_faster = false};
  quantize(
      net, [&] { net(x); }, all);
  const NoGrad scope;
  const std::vector<float> want = net(x).to_vector<float>();
  const Device sim = Device::sim(0);
  net.to(sim);
  const Tensor there = x.to(sim);
  quantize(
      net, [&] { net(there); }, all);
  EXPECT_EQ(net(there).to_vector<float>(), want);
}

TEST(Quantize, IsSeenByCompiledSteps) {
  manual_seed(11);
  const NoGrad scope;
  nn::Linear layer({.in = 64, .out = 32});
  const Tensor x = randn({8, 64});
  auto step = compile([&](const Tensor& in) { return layer(in); });
  const auto expect_same = [&](const char* when) {
    EXPECT_LT(relative_error(step(x), layer(x)), 1e-5) << when;
  };
  expect_same("dense");
  quantize(layer, [&] { layer(x); }, {.only_faster = false});
  expect_same("in integers");
  EXPECT_GT(relative_error(step(x), linear(x, layer.weight, layer.bias)), 1e-4);
  layer.weight.copy_(randn({32, 64}));
  expect_same("written");
  quantize(layer, [&] { layer(x); }, {.only_faster = false});
  expect_same("in integers again");
  use_dense(layer);
  expect_same("dense again");
  {
    const FakeQuantizer rounding(layer, [&] { layer(x); }, {.only_faster = false});
    expect_same("rounded");
    EXPECT_GT(relative_error(step(x), linear(x, layer.weight, layer.bias)), 1e-4);
  }
  expect_same("not rounded");
}

TEST(Quantize, TakesABiasThatIsAView) {
  nn::Linear layer({.in = 8, .out = 4});
  layer.bias.set_data(ones({8}).slice(0, 0, 8, 2));
  const Tensor x = randn({3, 8});
  EXPECT_EQ(quantize(layer, [&] { layer(x); }, {.only_faster = false})[0].why, "");
  const NoGrad scope;
  EXPECT_LT(relative_error(layer(x), linear(x, layer.weight, layer.bias)), 0.03);
}

TEST(Quantize, IsShown) {
  nn::Linear layer({.in = 4, .out = 3});
  EXPECT_EQ(layer.str().find("int8"), std::string::npos);
  const Tensor x = randn({2, 4});
  const auto layers = quantize(layer, [&] { layer(x); }, {.only_faster = false});
  EXPECT_NE(layer.str().find("int8"), std::string::npos);
  const Int8Layers of_file = int8_layers(layers);
  ASSERT_EQ(of_file.size(), 1u);
  use_dense(layer);
  EXPECT_EQ(use_int8(layer, of_file), 1u);
  EXPECT_NE(layer.str().find("int8"), std::string::npos);
}

TEST(Quantize, SaysWhatStaysAsItIs) {
  struct Odd : nn::Module {
    nn::Conv2d& grouped = add<nn::Conv2d>("grouped", {.in = 4, .out = 4, .kernel = 1, .groups = 2});
    nn::Conv2d& one = add<nn::Conv2d>("one", {.in = 4, .out = 4, .kernel = 1});
    nn::Linear& dead = add<nn::Linear>("dead", {.in = 4, .out = 4});
    nn::Linear& unused = add<nn::Linear>("unused", {.in = 4, .out = 4});
    nn::Linear& kept = add<nn::Linear>("kept", {.in = 4, .out = 4});
    Tensor forward(const Tensor& x) override {
      const Tensor y = one(grouped(x)).mean({2, 3});
      return kept(y) + dead(zeros_like(y));
    }
  } net;
  const Tensor x = randn({2, 4, 6, 6});
  const auto layers = quantize(net, [&] { net(x); }, {.only_faster = false, .keep = {"kept"}});
  EXPECT_EQ(layers[0].why, "convolutions with 2 groups are not implemented");
  EXPECT_EQ(layers[1].why, "");
  EXPECT_EQ(layers[2].why, "its inputs are 0 in all of the calibration");
  EXPECT_EQ(layers[3].why, "the calibration did not run it");
  EXPECT_EQ(layers[4].why, "as asked for");
}

TEST(Quantize, RefusesNonsense) {
  Quantised net;
  const Tensor x = randn({2, 3, 8, 8});
  const auto error = [&](const std::function<void()>& run, const QuantizeOptions& o) {
    return message_of<ValueError>([&] { quantize(net, run, o); });
  };
  const auto good = [&] { net(x); };
  EXPECT_NE(error([] {}, {}).find("ran none of the layers"), std::string::npos);
  EXPECT_NE(error({}, {}).find("nothing to run"), std::string::npos);
  EXPECT_NE(error(good, {.percentile = 3}).find("percentile"), std::string::npos);
  EXPECT_NE(error(good, {.keep = {"conv9"}}).find("'conv9' is no"), std::string::npos);
  EXPECT_NE(error(good, {.keep = {"conv1", "conv2", "fc"}}).find("no layer can"),
            std::string::npos);
  EXPECT_NE(error(
                [&] {
                  net(full({1, 3, 8, 8}, NAN));
                },
                {})
                .find("inputs of conv1"),
            std::string::npos);
  EXPECT_NE(error(
                [&] {
                  net(full({1, 3, 8, 8}, 0.5));
                },
                {.keep = {"conv2", "fc"}})
                .find("its inputs are 0.5"),
            std::string::npos);
  EXPECT_TRUE(net.training());
  nn::ReLU nothing;
  EXPECT_THROW(quantize(nothing, [&] { nothing(x); }), ValueError);
  {
    const NoGrad scope;
    net.conv2.weight.fill_(NAN);
  }
  EXPECT_THROW(quantize(net, good), ValueError);

  nn::Conv2d grouped({.in = 4, .out = 4, .kernel = 1, .groups = 2});
  EXPECT_THROW(grouped.use_int8(Int8Weight::quantize(randn({4, 2, 1, 1})), {}), NotImplemented);
  nn::Linear fc({.in = 3, .out = 2});
  EXPECT_THROW(fc.use_int8(Int8Weight::quantize(randn({2, 4})), {}), ValueError);
  EXPECT_THROW(fc.use_int8({}, {}), ValueError);
  EXPECT_THROW(fc.use_int8(Int8Weight::quantize(randn({2, 3})), {.scale = 0}), ValueError);
  EXPECT_THROW(use_int8(fc, {{"fc.weight", {Int8Weight::quantize(randn({2, 3})), {}}}}),
               ValueError);
  EXPECT_THROW(use_int8(fc, {{"weight", {Int8Weight::quantize(randn({2, 4})), {}}}}), ValueError);
  EXPECT_EQ(use_int8(fc, {{"weight", {Int8Weight::quantize(randn({2, 3})), {}}}}), 1u);
}

}  // namespace
}  // namespace brim::compress
