// Layers: names and shapes of their parameters, initial values, options, errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include <brim/nn/nn.h>
#include <brim/ops/create.h>

namespace brim {
namespace {

std::string message(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

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
  EXPECT_EQ(message([] { nn::Linear({.in = 3}); }), "[Linear] out is 0; it must be 1 or more");
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
  EXPECT_EQ(message([] { nn::Conv2d({.in = 3, .out = 6, .kernel = 3, .groups = 2}); }),
            "[Conv2d] 2 groups do not divide in = 3 and out = 6");
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

TEST(Models, TutorialCnnHasTheTutorialsNames) {
  const auto net = nn::make_model("tutorial-cnn");
  std::vector<std::string> names;
  for (const auto& [name, value] : net->named_parameters()) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"conv1.weight", "conv1.bias", "conv2.weight",
                                             "conv2.bias", "fc1.weight", "fc1.bias", "fc2.weight",
                                             "fc2.bias", "fc3.weight", "fc3.bias"}));
  EXPECT_EQ(net->num_parameters(), 62006);
  EXPECT_EQ((*net)(rand({4, 3, 32, 32})).shape(), Shape({4, 10}));
  EXPECT_THROW((*net)(rand({4, 3, 28, 28})), ShapeError);
}

TEST(Models, UnknownNamesGetTheNearest) {
  EXPECT_EQ(message([] {
              nn::make_model("tutorial_cnn");
            }).find("[models] there is no network 'tutorial_cnn'; did you mean 'tutorial-cnn'?"),
            0u);
  EXPECT_THROW(nn::register_model("tutorial-cnn", {}), ValueError);
}

}  // namespace
}  // namespace brim
