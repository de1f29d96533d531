// What a network is made of, recorded and not computed.
#include <brim/deploy/summary.h>
#include <brim/nn/init.h>
#include <brim/nn/models.h>
#include <brim/nn/nn.h>
#include <brim/ops/binary.h>
#include <brim/ops/reduce.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "message_of.h"

namespace brim::tests {
namespace {

using deploy::ModuleSummary;
using deploy::NetworkSummary;

const ModuleSummary& module_of(const NetworkSummary& s, const std::string& name) {
  return *std::ranges::find(s.modules, name, &ModuleSummary::name);
}

NetworkSummary summary_of(const std::string& model, const Shape& x, int64_t classes = 1000) {
  const nn::init::SkipInit no_values;
  const auto network = nn::make_model(model, {.classes = classes});
  return deploy::summarize(*network, Tensor::empty(x, f32, Device::cpu()));
}

TEST(Summary, OfTheTutorialsNetwork) {
  const NetworkSummary s = summary_of("tutorial-cnn", {4, 3, 32, 32}, 10);
  EXPECT_EQ(s.output, (Shape{4, 10}));
  EXPECT_EQ(s.parameters, 62006);
  EXPECT_EQ(s.trained, 62006);
  EXPECT_EQ(s.parameter_bytes, 4 * 62006);
  EXPECT_EQ(s.input_bytes, 4 * 4 * 3 * 32 * 32);
  const ModuleSummary& conv1 = module_of(s, "conv1");
  EXPECT_EQ(conv1.kind, "Conv2d");
  EXPECT_EQ(conv1.options, "in=3, out=6, kernel=5");
  EXPECT_EQ(*conv1.output, (Shape{4, 6, 28, 28}));
  EXPECT_EQ(conv1.flops, 2.0 * 4 * 6 * 28 * 28 * 75);
  EXPECT_EQ(module_of(s, "fc1").flops, 2.0 * 4 * 400 * 120);
  // Products, and an operation for each element that relu and pooling see.
  const double products = 2.0 * 4 * (352800 + 240000 + 48000 + 10080 + 840);
  EXPECT_GT(s.flops, products);
  EXPECT_LT(s.flops, 1.02 * products);
  // The gradients of all weights, and of all inputs but the first one.
  const double gradients = 2 * products - 2.0 * 4 * 352800;
  EXPECT_GT(s.backward_flops, gradients);
  EXPECT_LT(s.backward_flops, 1.05 * gradients);
  double own = 0;
  int64_t kept = 0;
  for (const ModuleSummary& m : s.modules) own += m.own_flops, kept += m.own_activation_bytes;
  EXPECT_DOUBLE_EQ(own, s.flops);
  EXPECT_EQ(kept, s.activation_bytes);
  // relu's results and pooled ones, the argmax beside them.
  EXPECT_GE(s.activation_bytes, 4 * 4 * (6 * 28 * 28 + 16 * 10 * 10 + 6 * 14 * 14 + 400 + 204));
}

TEST(Summary, CountsWhatOthersCount) {  // torchvision's table of operations, in products
  const auto giga_products = [](const std::string& model) {
    return summary_of(model, {1, 3, 224, 224}).flops / 2e9;
  };
  EXPECT_NEAR(giga_products("resnet18"), 1.81, 0.02);
  EXPECT_NEAR(giga_products("resnet50"), 4.09, 0.04);
  EXPECT_NEAR(giga_products("mobilenet_v2"), 0.30, 0.01);
  EXPECT_NEAR(giga_products("vgg16"), 15.47, 0.1);
}

TEST(Summary, KnowsBranches) {
  const NetworkSummary s = summary_of("resnet18", {1, 3, 64, 64});
  EXPECT_EQ(s.parameters, 11689512);
  const auto merges = std::ranges::count_if(s.nodes, [](const auto& node) {
    return node.inputs.size() == 2 && node.ops.front() == "add";
  });
  EXPECT_EQ(merges, 8);  // a block each
  const auto bn1 = std::ranges::find(s.nodes, "bn1", &deploy::SummaryNode::module);
  EXPECT_EQ(bn1->output, (Shape{1, 64, 32, 32}));
  EXPECT_EQ(module_of(s, "layer1").kind, "Sequential");
  EXPECT_EQ(module_of(s, "layer1").own_flops, 0);
  EXPECT_GT(module_of(s, "layer1").flops, 0);
  for (size_t i = 0; i < s.nodes.size(); ++i)
    for (const int from : s.nodes[i].inputs) EXPECT_LT(from, static_cast<int>(i));
}

TEST(Summary, ForwardsOfTheirOwnHaveOutputs) {
  const nn::init::SkipInit no_values;
  const auto network = nn::make_model("transformer-small", {.classes = 256, .input = {128}});
  const NetworkSummary s = deploy::summarize(*network, Tensor::empty({2, 128}, i64, Device::cpu()));
  EXPECT_EQ(module_of(s, "blocks").kind, "ModuleList");
  EXPECT_EQ(*module_of(s, "blocks.0.self_attn").output, (Shape{2, 128, 128}));
  EXPECT_GT(module_of(s, "blocks.0.self_attn").own_flops, 0);
}

TEST(Summary, LeavesTheNetworkAsItIs) {
  nn::Sequential net;
  net.push<nn::Linear>({.in = 3, .out = 2});
  net.push<nn::Dropout>({.p = 0.5});
  const std::vector<float> before = net.parameters()[0].to_vector<float>();
  const NetworkSummary s = deploy::summarize(net, Tensor::empty({1, 3}, f32, Device::cpu()));
  EXPECT_EQ(net.parameters()[0].to_vector<float>(), before);
  EXPECT_FALSE(net.parameters()[0].grad().defined());
  EXPECT_TRUE(net.training());
  EXPECT_EQ(module_of(s, "1").calls, 1);
  net.requires_grad(false);
  const NetworkSummary frozen = deploy::summarize(net, Tensor::empty({1, 3}, f32, Device::cpu()));
  EXPECT_EQ(frozen.trained, 0);
  EXPECT_EQ(frozen.backward_flops, 0);
  EXPECT_EQ(frozen.activation_bytes, 0);
}

struct TwoTowers : nn::Module {
  nn::Linear& left = add<nn::Linear>("left", {.in = 3, .out = 2});
  nn::Linear& right = add<nn::Linear>("right", {.in = 5, .out = 2});
  std::vector<Tensor> both(const Tensor& a, const Tensor& b) { return {left(a), right(b)}; }
};

TEST(Summary, OfSeveralInputsAndResults) {
  TwoTowers net;
  const Tensor examples[] = {Tensor::empty({4, 3}, f32, Device::cpu()),
                             Tensor::empty({4, 5}, f32, Device::cpu())};
  const NetworkSummary s = deploy::summarize(
      net, examples, [&](std::span<const Tensor> x) { return net.both(x[0], x[1]); });
  EXPECT_EQ(s.input, (Shape{4, 3}));
  ASSERT_EQ(s.others.size(), 1U);
  EXPECT_EQ(s.others[0].shape, (Shape{4, 5}));
  EXPECT_EQ(s.input_bytes, 4 * 4 * (3 + 5));
  EXPECT_EQ(s.output, (Shape{4, 2}));
  ASSERT_EQ(s.nodes.size(), 2U);
  EXPECT_EQ(s.nodes[0].inputs, std::vector<int>{-1});
  EXPECT_EQ(s.nodes[1].inputs, std::vector<int>{-2});
  EXPECT_GT(s.backward_flops, 2.0 * 4 * 2 * (3 + 5) - 1);  // of both weights
  EXPECT_THROW(deploy::summarize(net, {}, {}), ValueError);
  EXPECT_THROW(deploy::summarize(net, examples,
                                 [](std::span<const Tensor>) { return std::vector<Tensor>(); }),
               ValueError);
}

struct ReadsOnHost : nn::Module {
  Tensor forward(const Tensor& x) override { return x * sum(x).item(); }
};

TEST(Summary, SaysWhatDoesNotFit) {
  ReadsOnHost reader;
  const Tensor one = Tensor::empty({1}, f32, Device::cpu());
  EXPECT_NE(message_of<CompileError>([&] { deploy::summarize(reader, one); }).find("[summary]"),
            std::string::npos);
  EXPECT_THROW(summary_of("tutorial-cnn", {1, 3, 16}), ShapeError);
  EXPECT_THROW(deploy::summarize(reader, Tensor()), ShapeError);
}

}  // namespace
}  // namespace brim::tests
