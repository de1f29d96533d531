// Layers: names and shapes of their parameters, initial values, options, errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include <brim/autograd/autograd.h>
#include <brim/nn/nn.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/reduce.h>
#include <brim/ops/softmax.h>
#include <brim/ops/unary.h>
#include <brim/optim/sgd.h>

#include "message_of.h"

namespace brim {
namespace {

using tests::message_of;

void expect_uniform(const Tensor& t, double bound) {
  const std::vector<float> values = t.to_vector<float>();
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  EXPECT_GE(*low, -bound);
  EXPECT_LE(*high, bound);
  EXPECT_LT(*low, -0.95 * bound);
  EXPECT_GT(*high, 0.95 * bound);
}

TEST(Linear, ParametersAndInitialValues) {
  manual_seed(1);
  nn::Linear fc({.in = 100, .out = 200});
  EXPECT_EQ(fc.weight.shape(), Shape({200, 100}));
  EXPECT_EQ(fc.bias.shape(), Shape({200}));
  expect_uniform(fc.weight, 0.1);
  expect_uniform(fc.bias, 0.1);
  EXPECT_EQ(fc(zeros({7, 100})).shape(), Shape({7, 200}));
  EXPECT_EQ(fc.str(), "Linear(in=100, out=200)");
}

TEST(Linear, OptionsChooseBiasAndDtype) {
  nn::Linear fc({.in = 3, .out = 2, .bias = false, .dtype = f64});
  EXPECT_FALSE(fc.bias.defined());
  EXPECT_EQ(fc.parameters().size(), 1u);
  EXPECT_EQ(fc.weight.dtype(), f64);
  EXPECT_EQ(message_of([] { nn::Linear({.in = 3}); }), "[Linear] out is 0; it must be 1 or more");
  EXPECT_THROW(nn::Linear({.in = 3, .out = 2, .device = "cuda:0"}), DeviceError);
}

TEST(Linear, SameSeedGivesSameValues) {
  manual_seed(5);
  nn::Linear a({.in = 30, .out = 20});
  manual_seed(5);
  nn::Linear b({.in = 30, .out = 20});
  EXPECT_EQ(a.weight.to_vector<float>(), b.weight.to_vector<float>());
  EXPECT_EQ(a.bias.to_vector<float>(), b.bias.to_vector<float>());
}

TEST(Conv2d, ParametersAndInitialValues) {
  manual_seed(1);
  nn::Conv2d conv({.in = 8, .out = 64, .kernel = {3, 5}, .stride = 2, .padding = 1, .groups = 2});
  EXPECT_EQ(conv.weight.shape(), Shape({64, 4, 3, 5}));
  expect_uniform(conv.weight, 1 / std::sqrt(60.0));
  expect_uniform(conv.bias, 1 / std::sqrt(60.0));
  EXPECT_EQ(conv(zeros({2, 8, 9, 9})).shape(), Shape({2, 64, 5, 4}));
  EXPECT_EQ(conv.str(), "Conv2d(in=8, out=64, kernel=(3, 5), stride=2, padding=1, groups=2)");
}

TEST(Conv2d, BadOptionsAreErrors) {
  EXPECT_THROW(nn::Conv2d({.in = 3, .out = 6}), ValueError);
  EXPECT_THROW(nn::Conv2d({.in = 3, .out = 6, .kernel = 3, .stride = 0}), ValueError);
  EXPECT_THROW(nn::Conv2d({.in = 3, .out = 6, .kernel = 3, .padding = -1}), ValueError);
  EXPECT_EQ(message_of([] { nn::Conv2d({.in = 3, .out = 6, .kernel = 3, .groups = 2}); }),
            "[Conv2d] 2 groups do not divide in = 3 and out = 6");
}

TEST(Conv1d, ParametersOptionsAndErrors) {
  manual_seed(1);
  nn::Conv1d conv({.in = 8, .out = 64, .kernel = 5, .stride = 2, .padding = 1, .groups = 2});
  EXPECT_EQ(conv.weight.shape(), Shape({64, 4, 5}));
  expect_uniform(conv.weight, 1 / std::sqrt(20.0));
  EXPECT_EQ(conv(zeros({2, 8, 9})).shape(), Shape({2, 64, 4}));
  EXPECT_EQ(conv.str(), "Conv1d(in=8, out=64, kernel=5, stride=2, padding=1, groups=2)");
  EXPECT_THROW(nn::Conv1d({.in = 3, .out = 6}), ValueError);
  EXPECT_EQ(message_of([] { nn::Conv1d({.in = 3, .out = 6, .kernel = 3, .padding = -1}); }),
            "[Conv1d] padding is -1; it must be 0 or more");
}

TEST(ConvTranspose2d, ParametersOptionsAndErrors) {
  manual_seed(1);
  nn::ConvTranspose2d conv(
      {.in = 8, .out = 64, .kernel = 4, .stride = 2, .padding = 1, .output_padding = 1});
  EXPECT_EQ(conv.weight.shape(), Shape({8, 64, 4, 4}));
  expect_uniform(conv.weight, 1 / std::sqrt(64 * 16.0));
  EXPECT_EQ(conv.bias.shape(), Shape({64}));
  EXPECT_EQ(conv(zeros({2, 8, 5, 3})).shape(), Shape({2, 64, 11, 7}));
  EXPECT_EQ(conv.str(),
            "ConvTranspose2d(in=8, out=64, kernel=4, stride=2, padding=1, output_padding=1)");
  EXPECT_EQ(message_of(
                [] { nn::ConvTranspose2d({.in = 3, .out = 6, .kernel = 3, .output_padding = 1}); }),
            "[ConvTranspose2d] output_padding is 1; it must be 0 or more, and below the stride");
}

TEST(ImageLayers, PassTheirOptionsOn) {
  const Tensor x = rand({1, 4, 6, 6});
  nn::Upsample twice({.scale = 2}), size({.size = {3, 9}, .mode = Interpolation::bilinear});
  EXPECT_EQ(twice(x).shape(), Shape({1, 4, 12, 12}));
  EXPECT_EQ(size(x).shape(), Shape({1, 4, 3, 9}));
  EXPECT_EQ(twice.str(), "Upsample(scale=2)");
  EXPECT_EQ(size.str(), "Upsample(size=(3, 9), bilinear)");
  EXPECT_THROW(nn::Upsample({}), ValueError);
  nn::PixelShuffle shuffle({.factor = 2});
  nn::PixelUnshuffle unshuffle({.factor = 2});
  EXPECT_EQ(shuffle(x).shape(), Shape({1, 1, 12, 12}));
  EXPECT_EQ(unshuffle(shuffle(x)).to_vector<float>(), x.to_vector<float>());
  EXPECT_EQ(shuffle.str(), "PixelShuffle(factor=2)");
  EXPECT_THROW(nn::PixelShuffle({}), ValueError);
  nn::Unfold unfold({.kernel = {3, 2}, .stride = 2});
  EXPECT_EQ(unfold(x).shape(), Shape({1, 24, 6}));
  EXPECT_EQ(unfold.str(), "Unfold(kernel=(3, 2), stride=2)");
}

// As PyTorch's to(memory_format=torch.channels_last).
TEST(Conv2d, LearnsTheSameWithWeightsInNhwc) {
  const Tensor x = randn({3, 4, 6, 5});
  const auto trained = [&](MemoryFormat weights, MemoryFormat input) {
    manual_seed(3);
    nn::Sequential net;
    net.push<nn::Conv2d>({.in = 4, .out = 6, .kernel = 3});
    net.push<nn::ReLU>();
    net.push<nn::Conv2d>({.in = 6, .out = 6, .kernel = {1, 2}, .groups = 3});
    net.push<nn::Flatten>();
    net.push<nn::Linear>({.in = 6 * 4 * 2, .out = 2});
    optim::SGD optimizer(net.named_parameters(), {.lr = 0.1, .momentum = 0.9});
    const Tensor filters = net.parameters()[0], last = net.parameters()[4];
    for (int step = 0; step < 3; ++step) {
      if (step == 1) net.to(weights);  // the optimizer's state stays as it was
      const bool is_turned = step > 0 && weights == MemoryFormat::nhwc;
      EXPECT_EQ(filters.is_contiguous(), !is_turned);
      EXPECT_EQ(filters.is_contiguous(MemoryFormat::nhwc), is_turned);
      EXPECT_TRUE(last.is_contiguous());
      optimizer.zero_grad();
      mean(square(net(x.to(input)))).backward();
      EXPECT_EQ(filters.grad().strides(), filters.strides());
      optimizer.step();
    }
    return net.parameters();
  };
  const auto want = trained(MemoryFormat::nchw, MemoryFormat::nchw);
  for (const MemoryFormat input : {MemoryFormat::nchw, MemoryFormat::nhwc}) {
    const auto got = trained(MemoryFormat::nhwc, input);
    for (size_t i = 0; i < want.size(); ++i)
      EXPECT_LT(max(abs(got[i].detach() - want[i].detach())).item(), 1e-5) << i;
  }
}

TEST(Pools, PassTheirOptionsOn) {
  const Tensor x = rand({1, 2, 7, 7});
  EXPECT_EQ(nn::MaxPool2d({.kernel = 2})(x).shape(), Shape({1, 2, 3, 3}));
  EXPECT_EQ(nn::MaxPool2d({.kernel = 2, .ceil_mode = true})(x).shape(), Shape({1, 2, 4, 4}));
  EXPECT_EQ(nn::AvgPool2d({.kernel = 3, .stride = 1, .padding = 1})(x).shape(), x.shape());
  EXPECT_EQ(nn::AdaptiveAvgPool2d({.output = {1, 2}})(x).shape(), Shape({1, 2, 1, 2}));
  EXPECT_EQ(nn::Flatten()(x).shape(), Shape({1, 98}));
  EXPECT_EQ(nn::MaxPool2d({.kernel = 2, .stride = 1}).str(), "MaxPool2d(kernel=2, stride=1)");
  EXPECT_THROW(nn::MaxPool2d({}), ValueError);
}

TEST(BatchNorm2d, NormalisesWithTheBatchAndTracksIt) {
  manual_seed(2);
  nn::BatchNorm2d norm({.features = 3});
  const Tensor x = randn({8, 3, 5, 5}) * 2 + 1;
  const Tensor y = norm(x);
  for (double m : mean(y, {0, 2, 3}).to(f64).to_vector<double>()) EXPECT_NEAR(m, 0, 1e-6);
  for (double v : var(y, {0, 2, 3}, 0).to(f64).to_vector<double>()) EXPECT_NEAR(v, 1, 1e-4);
  EXPECT_EQ(norm.num_batches_tracked.item<int64_t>(), 1);
  const auto running = norm.running_mean.to_vector<float>();
  const auto batch = mean(x, {0, 2, 3}).to_vector<float>();
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(running[i], 0.1 * batch[i], 1e-6);
  EXPECT_EQ(norm.named_parameters().size(), 2u);
  EXPECT_EQ(norm.state_dict().size(), 5u);
  EXPECT_EQ(norm.str(), "BatchNorm2d(3, eps=1e-05, momentum=0.1)");
}

TEST(BatchNorm2d, EvalUsesTheRunningStatistics) {
  nn::BatchNorm2d norm({.features = 2});
  norm.running_mean.fill_(3);
  norm.running_var.fill_(4);
  norm.eval();
  const Tensor y = norm(full({1, 2, 1, 2}, 7));
  for (float v : y.to_vector<float>()) EXPECT_NEAR(v, 2, 1e-5);
  EXPECT_EQ(norm.num_batches_tracked.item<int64_t>(), 0);

  nn::BatchNorm2d plain({.features = 2, .affine = false, .track_running_stats = false});
  EXPECT_TRUE(plain.state_dict().empty());
  plain.eval();
  EXPECT_EQ(plain(full({2, 2, 1, 2}, 7)).to_vector<float>(), std::vector<float>(8, 0));
  EXPECT_THROW(plain(zeros({2, 2})), ShapeError);
  EXPECT_EQ(
      message_of([] { nn::BatchNorm2d({.features = -1}); }),
      "[BatchNorm2d] features is -1; it must be 1 or more, or 0 to be inferred at the first call");
}

TEST(LayerNorm, NormalisesTheLastAxes) {
  manual_seed(2);
  nn::LayerNorm norm({.shape = {4, 6}});
  EXPECT_EQ(norm.weight.shape(), Shape({4, 6}));
  const Tensor y = norm(randn({3, 4, 6}) * 3 - 2);
  for (double m : mean(y, {1, 2}).to(f64).to_vector<double>()) EXPECT_NEAR(m, 0, 1e-6);
  EXPECT_FALSE(nn::LayerNorm({.shape = {4}, .bias = false}).bias.defined());
  EXPECT_TRUE(nn::LayerNorm({.shape = {4}, .affine = false}).parameters().empty());
  EXPECT_THROW(nn::LayerNorm({.shape = {0}}), ValueError);
  EXPECT_THROW(norm(zeros({3, 6, 4})), ShapeError);
}

TEST(GroupNorm, NormalisesGroupsOfChannels) {
  manual_seed(2);
  nn::GroupNorm norm({.groups = 2, .channels = 4});
  const Tensor y = norm(randn({3, 4, 5, 5}) + 4).reshape({3, 2, 50});
  for (double m : mean(y, {2}).to(f64).to_vector<double>()) EXPECT_NEAR(m, 0, 1e-6);
  EXPECT_THROW(nn::GroupNorm({.groups = 3, .channels = 4}), ValueError);
}

TEST(Dropout, IsActiveInTrainingOnly) {
  manual_seed(2);
  nn::Dropout dropout({.p = 0.25});
  const Tensor x = ones({10000});
  int64_t dropped = 0;
  for (float v : dropout(x).to_vector<float>()) {
    if (v == 0)
      ++dropped;
    else
      EXPECT_FLOAT_EQ(v, 1 / 0.75f);
  }
  EXPECT_NEAR(static_cast<double>(dropped), 2500, 220);  // five standard deviations
  EXPECT_TRUE(dropout.eval()(x).is_same(x));
  EXPECT_THROW(nn::Dropout({.p = 1.5}), ValueError);
}

TEST(Embedding, LooksRowsUpAndKeepsThePaddingRow) {
  manual_seed(2);
  nn::Embedding table({.num = 10, .dim = 3, .padding_idx = -2});
  const Tensor ids = Tensor::from(std::vector<int64_t>{1, 8, 1, 0}, {2, 2});
  const Tensor y = table(ids);
  EXPECT_EQ(y.shape(), Shape({2, 2, 3}));
  EXPECT_EQ(table.weight.select(0, 8).to_vector<float>(), std::vector<float>(3, 0));
  sum(y).backward();
  EXPECT_EQ(table.weight.grad().select(0, 8).to_vector<float>(), std::vector<float>(3, 0));
  EXPECT_EQ(table.weight.grad().select(0, 1).to_vector<float>(), std::vector<float>(3, 2));
  EXPECT_THROW(nn::Embedding({.num = 10, .dim = 3, .padding_idx = 10}), ValueError);
}

TEST(Activations, AreTheOpsOfTheirName) {
  const Tensor x = randn({50});
  const auto same = [&](nn::Module&& module, const Tensor& expected) {
    EXPECT_EQ(module(x).to_vector<float>(), expected.to_vector<float>()) << module.str();
  };
  same(nn::ReLU(), relu(x));
  same(nn::Sigmoid(), sigmoid(x));
  same(nn::Tanh(), tanh(x));
  same(nn::SiLU(), silu(x));
  same(nn::GELU(), gelu(x));
  same(nn::GELU({.form = GeluForm::tanh}), gelu(x, GeluForm::tanh));
  same(nn::LeakyReLU({.slope = 0.2}), leaky_relu(x, 0.2));
  same(nn::ELU({.alpha = 2}), elu(x, 2));
  same(nn::Softmax({.axis = 0}), softmax(x, 0));
  same(nn::Identity(), x);
  EXPECT_EQ(nn::LeakyReLU({.slope = 0.2}).str(), "LeakyReLU(slope=0.2)");
}

TEST(Losses, AreTheOpsOfTheirName) {
  const Tensor x = randn({6, 3}), y = rand({6, 3});
  const Tensor labels = Tensor::from(std::vector<int64_t>{0, 1, 2, 2, 1, 0}, {6});
  const Tensor weight = Tensor::from(std::vector<float>{1, 2, 3}, {3});
  const auto same = [&](nn::Loss&& loss, const Tensor& target, const Tensor& expected) {
    EXPECT_EQ(loss(x, target).to_vector<float>(), expected.to_vector<float>()) << loss.str();
  };
  same(nn::CrossEntropyLoss({.weight = weight}), labels,
       cross_entropy(x, labels, {.weight = weight}));
  same(nn::NLLLoss({.ignore_index = 2}), labels, nll_loss(x, labels, {.ignore_index = 2}));
  same(nn::BCEWithLogitsLoss({.pos_weight = weight}), y,
       bce_with_logits(x, y, {.pos_weight = weight}));
  same(nn::MSELoss({.reduction = Reduction::sum}), y, mse_loss(x, y, Reduction::sum));
  same(nn::L1Loss(), y, l1_loss(x, y));
  EXPECT_EQ(nn::BCEWithLogitsLoss({.pos_weight = weight}).state_dict().count("pos_weight"), 1u);
}

TEST(Sequential, TakesDefaultsInBraces) {
  nn::Sequential net;
  net.push<nn::Conv2d>({.out = 4, .kernel = 3}).push<nn::BatchNorm2d>({}).push<nn::ReLU>();
  EXPECT_EQ(net(randn({2, 3, 5, 5})).shape(), Shape({2, 4, 3, 3}));
}

TEST(Sequential, NumbersItsChildren) {
  nn::Sequential net;
  net.push<nn::Conv2d>({.in = 3, .out = 4, .kernel = 3})
      .push<nn::ReLU>()
      .push<nn::Flatten>()
      .push(std::make_unique<nn::Linear>(nn::Linear::Options{.in = 4 * 36, .out = 5}));
  EXPECT_EQ(net.size(), 4u);
  std::vector<std::string> names;
  for (const auto& [name, value] : net.named_parameters()) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"0.weight", "0.bias", "3.weight", "3.bias"}));
  EXPECT_EQ(net(rand({2, 3, 8, 8})).shape(), Shape({2, 5}));
  EXPECT_EQ(net[1].kind(), "ReLU");
  EXPECT_THROW(net[4], IndexError);
}

TEST(Sequential, TakesNamesToo) {
  nn::Sequential net;
  nn::Linear& first = net.add<nn::Linear>("first", {.in = 2, .out = 3});
  net.add<nn::ReLU>("act");
  EXPECT_EQ(net(zeros({1, 2})).shape(), Shape({1, 3}));
  EXPECT_TRUE(net.named_parameters()[0].second.is_same(first.weight));
}

TEST(ModuleList, HoldsModulesOfOneKind) {
  nn::ModuleList<nn::Linear> layers;
  for (int i = 0; i < 3; ++i) layers.push({.in = 4, .out = 4});
  Tensor x = zeros({1, 4});
  for (nn::Linear& layer : layers) x = layer(x);
  EXPECT_EQ(x.shape(), Shape({1, 4}));
  EXPECT_EQ(layers.size(), 3u);
  EXPECT_EQ(layers.state_dict().count("2.bias"), 1u);
}

TEST(ModuleList, HoldsModulesWithoutOptions) {
  struct Block : nn::Module {
    explicit Block(int64_t width = 4)
        : linear(add<nn::Linear>("linear", {.in = 4, .out = width})) {}
    Tensor forward(const Tensor& x) override { return relu(linear(x)); }
    nn::Linear& linear;
  };
  struct Net : nn::Module {
    nn::ModuleList<Block>& blocks = add<nn::ModuleList<Block>>("blocks");
    Tensor forward(const Tensor& input) override {
      Tensor x = input;
      for (Block& block : blocks) x = block(x);
      return x;
    }
  } net;
  net.blocks.push();
  net.blocks.push(std::make_unique<Block>(4));
  net.blocks.push(7);
  EXPECT_EQ(net(zeros({1, 4})).shape(), Shape({1, 7}));
  EXPECT_EQ(net.state_dict().count("blocks.2.linear.bias"), 1u);
}

TEST(Init, BoundsFollowTheFans) {
  manual_seed(3);
  Tensor w = zeros({50, 20, 2, 2});
  EXPECT_EQ(nn::init::fans(w).in, 80);
  EXPECT_EQ(nn::init::fans(w).out, 200);
  expect_uniform(nn::init::kaiming_uniform_(w, {.a = std::sqrt(5.0)}), 1 / std::sqrt(80.0));
  expect_uniform(nn::init::kaiming_uniform_(w, {.mode = nn::init::FanMode::fan_out,
                                                .nonlinearity = nn::init::Nonlinearity::relu}),
                 std::sqrt(6.0 / 200));
  expect_uniform(nn::init::xavier_uniform_(w, 2), 2 * std::sqrt(6.0 / 280));
  nn::init::kaiming_normal_(w);
  double square = 0;
  for (float v : w.to_vector<float>()) square += v * v / 4000.0;
  EXPECT_NEAR(std::sqrt(square), std::sqrt(2.0 / 80), 0.005);
  EXPECT_THROW(nn::init::xavier_normal_(zeros({3})), ShapeError);
  EXPECT_EQ(nn::init::constant_(zeros({2}), 3).to_vector<float>(), (std::vector<float>{3, 3}));
  EXPECT_TRUE(nn::init::ones_(zeros({2}).set_requires_grad()).requires_grad());
}

}  // namespace
}  // namespace brim
