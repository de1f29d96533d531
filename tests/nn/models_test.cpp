// The networks of the zoo: their parameters, shapes and blocks, beside those they are named after.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <brim/autograd/autograd.h>
#include <brim/nn/nn.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>

#include "message_of.h"

namespace brim {
namespace {

using tests::message_of;

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

TEST(Models, ResNet18BeginsAsTorchvisions) {
  const auto net = nn::make_model("resnet18", {.classes = 1000});
  EXPECT_EQ(net->num_parameters(), 11689512);
  for (const auto& [name, value] : net->named_parameters()) {
    const auto v = value.to_vector<float>();
    double square = 0;
    for (const float w : v) square += double{w} * w / static_cast<double>(v.size());
    if (value.rank() == 4) {
      const int64_t elements = value.numel() / value.size(1);
      const auto fan_out = static_cast<double>(elements);
      EXPECT_NEAR(std::sqrt(square), std::sqrt(2 / fan_out), 0.05 * std::sqrt(2 / fan_out)) << name;
    } else if (name.starts_with("fc")) {
      EXPECT_LE(*std::max_element(v.begin(), v.end()), 1 / std::sqrt(512.0F)) << name;
    } else {
      EXPECT_EQ(v, std::vector<float>(v.size(), name.ends_with("weight") ? 1 : 0)) << name;
    }
  }
  net->eval();
  const NoGrad guard;
  EXPECT_EQ((*net)(rand({1, 3, 40, 33})).shape(), Shape({1, 1000}));
  EXPECT_THROW((*net)(rand({1, 1, 32, 32})), ShapeError);
  EXPECT_EQ(nn::make_model("resnet18-cifar")->state_dict().at("conv1.weight").shape(),
            Shape({64, 3, 3, 3}));
}

TEST(Models, ResNetsHaveTheParametersOfTorchvisions) {
  for (const auto& [depth, count] : {std::pair{34, 21797672}, {50, 25557032}}) {
    const auto net = nn::make_model(fmt::format("resnet{}", depth), {.classes = 1000});
    EXPECT_EQ(net->num_parameters(), count) << depth;
  }
  const auto small = nn::make_model("resnet50-cifar", {.classes = 1000});
  EXPECT_EQ(small->num_parameters(), 25557032 - 64 * 3 * (49 - 9));  // 7x7 becomes 3x3
  EXPECT_EQ(nn::ResNet::blocks(101), (std::array<int64_t, 4>{3, 4, 23, 3}));
  EXPECT_EQ(nn::ResNet::blocks(152), (std::array<int64_t, 4>{3, 8, 36, 3}));
  for (const char* name : {"resnet101", "resnet101-cifar", "resnet152", "resnet152-cifar"})
    EXPECT_EQ(std::ranges::count(nn::model_names(), name), 1) << name;
  EXPECT_EQ(message_of([] { nn::ResNet({.depth = 20}); }),
            "[ResNet] there is none of depth 20; use one of 18, 34, 50, 101, 152");
}

TEST(Models, VggIsTorchvisions) {
  EXPECT_EQ(nn::Vgg::convolutions(16), (std::vector<int>{2, 2, 3, 3, 3}));
  EXPECT_EQ(message_of([] { nn::Vgg({.depth = 12}); }),
            "[Vgg] there is none of depth 12; use one of 11, 13, 16, 19");
  const auto small = nn::make_model("vgg11_bn", {.classes = 10});
  const auto state = small->state_dict();
  EXPECT_EQ(state.at("features.1.running_mean").shape(), Shape({64}));
  EXPECT_EQ(state.at("features.25.weight").shape(), Shape({512, 512, 3, 3}));
  EXPECT_EQ(state.at("classifier.6.bias").shape(), Shape({10}));
  EXPECT_EQ(small->num_parameters(), 132868840 - 990 * 4097);  // torchvision's has 1000 classes
  small->eval();
  const NoGrad guard;
  EXPECT_EQ((*small)(rand({2, 3, 32, 40})).shape(), Shape({2, 10}));
  EXPECT_THROW((*small)(rand({2, 3, 32, 31})), ShapeError);
  for (const char* name : {"vgg13", "vgg16", "vgg16_bn", "vgg19"})
    EXPECT_EQ(std::ranges::count(nn::model_names(), name), 1) << name;
}

TEST(Models, MobileNetIsTorchvisions) {
  const auto net = nn::make_model("mobilenet_v2", {.classes = 1000});
  EXPECT_EQ(net->num_parameters(), 3504872);
  const auto state = net->state_dict();
  EXPECT_EQ(state.size(), 314u);
  EXPECT_EQ(state.at("features.0.0.weight").shape(), Shape({32, 3, 3, 3}));
  EXPECT_EQ(state.at("features.1.conv.0.0.weight").shape(), Shape({32, 1, 3, 3}));
  EXPECT_EQ(state.at("features.1.conv.2.running_var").shape(), Shape({16}));
  EXPECT_EQ(state.at("features.17.conv.1.0.weight").shape(), Shape({960, 1, 3, 3}));
  EXPECT_EQ(state.at("features.17.conv.3.bias").shape(), Shape({320}));
  EXPECT_EQ(state.at("features.18.1.weight").shape(), Shape({1280}));
  EXPECT_EQ(state.at("classifier.1.weight").shape(), Shape({1000, 1280}));
  net->eval();
  {
    const NoGrad guard;
    EXPECT_EQ((*net)(rand({2, 3, 64, 40})).shape(), Shape({2, 1000}));
    EXPECT_EQ(nn::ReLU6()(Tensor::from<float>({-1, 2, 7}, {3})).to_vector<float>(),
              (std::vector<float>{0, 2, 6}));
    // x is added where sizes do not change.
    nn::InvertedResidual block({.in = 8, .out = 8});
    block.eval();
    const Tensor x = rand({1, 8, 5, 5});
    EXPECT_EQ(block(x).to_vector<float>(), (x + block.conv(x)).to_vector<float>());
    nn::InvertedResidual strides({.in = 8, .out = 8, .stride = 2});
    EXPECT_EQ(strides(x).shape(), Shape({1, 8, 3, 3}));
  }
  EXPECT_EQ(nn::MobileNetV2({.width = 0.35}).state_dict().at("features.18.0.weight").shape(),
            Shape({1280, 112, 1, 1}));
  EXPECT_THROW(nn::MobileNetV2({.width = 0}), ValueError);
  EXPECT_THROW(nn::InvertedResidual({.in = 8, .out = 8, .stride = 3}), ValueError);
}

TEST(Models, CifarResNetsAreSmall) {
  const auto net = nn::make_model("cifar-resnet8");
  EXPECT_EQ(net->num_parameters(), 78042);
  EXPECT_EQ(nn::make_model("cifar-resnet20")->num_parameters(), 272474);
  EXPECT_EQ(net->state_dict().at("layer3.0.downsample.0.weight").shape(), Shape({64, 32, 1, 1}));
  net->eval();
  const NoGrad guard;
  EXPECT_EQ((*net)(rand({2, 3, 32, 32})).shape(), Shape({2, 10}));
  EXPECT_EQ(message_of([] { nn::CifarResNet({.depth = 18}); }),
            "[CifarResNet] there is none of depth 18; use 6 n + 2, as 8, 20 or 56");
}

TEST(Models, ABottleneckStridesInItsMiddle) {
  nn::Bottleneck block({.in = 16, .channels = 8, .stride = 2});
  EXPECT_EQ(block.conv1(rand({1, 16, 6, 6})).shape(), Shape({1, 8, 6, 6}));
  EXPECT_EQ(block.conv2(rand({1, 8, 6, 6})).shape(), Shape({1, 8, 3, 3}));
  EXPECT_EQ(block(rand({1, 16, 6, 6})).shape(), Shape({1, 32, 3, 3}));
  EXPECT_NE(block.downsample, nullptr);
  EXPECT_EQ(nn::Bottleneck({.in = 32, .channels = 8}).downsample, nullptr);
}

TEST(Models, UnknownNamesGetTheNearest) {
  EXPECT_EQ(message_of([] {
              nn::make_model("tutorial_cnn");
            }).find("[models] there is no network 'tutorial_cnn'; did you mean 'tutorial-cnn'?"),
            0u);
  EXPECT_THROW(nn::register_model("tutorial-cnn", {}), ValueError);
}

}  // namespace
}  // namespace brim
