// Whole channels: what goes together, which go, and that the network without them is what it was
// with zeros in their place.
#include <brim/autograd/autograd.h>
#include <brim/compress/channels.h>
#include <brim/core/random.h>
#include <brim/nn/activation.h>
#include <brim/nn/conv.h>
#include <brim/nn/embedding.h>
#include <brim/nn/linear.h>
#include <brim/nn/models.h>
#include <brim/nn/norm.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/pool.h>
#include <brim/ops/reduce.h>
#include <brim/ops/shape.h>
#include <brim/ops/unary.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "message_of.h"

namespace brim::compress {
namespace {

using tests::message_of;

std::unique_ptr<nn::Module> network_of(const std::string& name, const Shape& input) {
  return nn::make_model(name, {.classes = 7, .input = input});
}

Tensor outputs_of(nn::Module& network, const Tensor& x) {
  const NoGrad scope;
  network.eval();
  return network(x);
}

const ShrunkLayer& layer_of(const ShrunkNetwork& shrunk, const std::string& name) {
  for (const ShrunkLayer& layer : shrunk.layers)
    if (layer.name == name) return layer;
  throw IndexError(name);
}

TEST(Channels, ShrinkTheZooAndLoad) {
  struct Case {
    const char* name;
    Shape input;
    double sparsity, of_parameters;  // at most so many are left
  };
  for (const Case& c :
       {Case{"tutorial-cnn", {3, 32, 32}, 0.5, 0.45}, Case{"cifar-resnet8", {3, 32, 32}, 0.5, 0.35},
        Case{"resnet18", {3, 64, 64}, 0.5, 0.3}, Case{"mobilenet_v2", {3, 64, 64}, 0.3, 0.65}}) {
    SCOPED_TRACE(c.name);
    manual_seed(21);
    const auto net = network_of(c.name, c.input);
    const int64_t before = net->num_parameters();
    Tensor x = randn({4, c.input[0], c.input[1], c.input[2]});
    net->train();
    (void)(*net)(x);  // some running statistics
    const ShrunkNetwork shrunk =
        shrink_channels(*net, x, [&] { (*net)(x); }, {.sparsity = c.sparsity, .multiple = 4});
    EXPECT_LT(static_cast<double>(net->num_parameters()),
              c.of_parameters * static_cast<double>(before));
    EXPECT_TRUE(net->training());
    const Tensor y = outputs_of(*net, x);
    EXPECT_EQ(y.shape(), (Shape{4, 7}));

    const auto other = network_of(c.name, c.input);
    resize_channels(*other, shrunk.channels);
    other->load_state_dict(net->state_dict());
    EXPECT_EQ(other->str(), [&] { return net->train().str(); }());
    EXPECT_EQ(outputs_of(*other, x).to_vector<float>(), y.to_vector<float>());
  }
}

/// Two branches that are added up, one of them by a depthwise convolution, and a concatenation.
struct Branches : nn::Module {
  nn::Conv2d& stem = add<nn::Conv2d>("stem", {.in = 3, .out = 8, .kernel = 3, .padding = 1});
  nn::Conv2d& left = add<nn::Conv2d>("left", {.in = 8, .out = 16, .kernel = 1});
  nn::BatchNorm2d& norm = add<nn::BatchNorm2d>("norm", {.features = 16});
  nn::Conv2d& depthwise =
      add<nn::Conv2d>("depthwise", {.in = 16, .out = 16, .kernel = 3, .padding = 1, .groups = 16});
  nn::Conv2d& right = add<nn::Conv2d>("right", {.in = 8, .out = 16, .kernel = 1, .bias = false});
  nn::Conv2d& grouped = add<nn::Conv2d>("grouped", {.in = 8, .out = 8, .kernel = 1, .groups = 2});
  nn::Linear& fc = add<nn::Linear>("fc", {.in = 24, .out = 5});
  Tensor forward(const Tensor& x) override {
    const Tensor a = relu(stem(x));
    const Tensor b = relu(depthwise(norm(left(a)))) + right(a);
    return fc(cat({b, grouped(a)}, 1).mean({2, 3}));
  }
};

TEST(Channels, FollowResiduals) {
  manual_seed(22);
  Branches net;
  const Tensor x = randn({2, 3, 6, 6});
  {  // some outputs that matter little, in both branches
    const NoGrad scope;
    for (const int64_t c : {1, 2, 5, 11})
      for (nn::Conv2d* conv : {&net.left, &net.right}) {
        Tensor row = conv->weight.detach().slice(0, c, c + 1);
        row.copy_(row * 0.01);
      }
  }
  const std::vector<float> right = net.right.weight.to_vector<float>();
  const ShrunkNetwork shrunk = shrink_channels(
      net, x, {}, {.sparsity = 0.25, .criterion = ChannelCriterion::magnitude, .multiple = 1});
  EXPECT_EQ(net.left.weight.shape(), (Shape{12, 8, 1, 1}));
  EXPECT_EQ(net.right.weight.shape(), (Shape{12, 8, 1, 1}));
  EXPECT_EQ(net.depthwise.weight.shape(), (Shape{12, 1, 3, 3}));
  EXPECT_EQ(net.depthwise.options.groups, 12);
  EXPECT_EQ(net.norm.options.features, 12);
  EXPECT_EQ(net.fc.weight.shape(), (Shape{5, 20}));
  EXPECT_EQ(net.stem.weight.size(0), 8);  // the convolution in groups reads it
  EXPECT_NE(layer_of(shrunk, "stem").why, "");
  EXPECT_NE(layer_of(shrunk, "fc").why, "");
  EXPECT_EQ(layer_of(shrunk, "left").why, "");
  EXPECT_EQ(layer_of(shrunk, "left").before, (Shape{16, 8, 1, 1}));
  EXPECT_EQ(layer_of(shrunk, "left").after, (Shape{12, 8, 1, 1}));
  EXPECT_TRUE(net.left.weight.requires_grad());
  std::vector<float> kept;
  for (int64_t c = 0; c < 16; ++c)
    if (c != 1 && c != 2 && c != 5 && c != 11)
      kept.insert(kept.end(), right.begin() + c * 8, right.begin() + c * 8 + 8);
  EXPECT_EQ(net.right.weight.to_vector<float>(), kept);
  EXPECT_EQ(outputs_of(net, x).shape(), (Shape{2, 5}));
}

TEST(Channels, GoByWhatReadersMakeOfThem) {
  manual_seed(23);
  struct Two : nn::Module {
    nn::Linear& first = add<nn::Linear>("first", {.in = 4, .out = 6});
    nn::Linear& second = add<nn::Linear>("second", {.in = 6, .out = 3});
    Tensor forward(const Tensor& x) override { return second(relu(first(x))); }
  };
  Two net;
  {  // large weights whose outputs are never above 0, and an output that is hardly read
    const NoGrad scope;
    Tensor bias = net.first.bias.detach().slice(0, 2, 3);
    bias.copy_(full({1}, -1e6));
    Tensor column = net.second.weight.detach().slice(1, 4, 5);
    column.copy_(column * 1e-4);
  }
  const Tensor x = randn({16, 4});
  const Tensor y = outputs_of(net, x);
  (void)shrink_channels(net, x, [&] { net(x); }, {.sparsity = 0.33, .multiple = 1});
  EXPECT_EQ(net.first.weight.shape(), (Shape{4, 4}));
  const std::vector<float> got = outputs_of(net, x).to_vector<float>(), want = y.to_vector<float>();
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-3);
}

TEST(Channels, GoBehindEmbeddings) {
  manual_seed(26);
  const auto net = nn::make_model("transformer-small", {.classes = 11, .input = {8}});
  std::vector<int64_t> tokens;
  for (int64_t i = 0; i < 16; ++i) tokens.push_back(i * 7 % 11);
  const Tensor x = Tensor::from<int64_t>(tokens, {2, 8});
  const ShrunkNetwork shrunk =
      shrink_channels(*net, x, {}, {.criterion = ChannelCriterion::magnitude});
  int shrunk_layers = 0;
  for (const ShrunkLayer& layer : shrunk.layers) {
    if (layer.after[0] == layer.before[0]) continue;
    ++shrunk_layers;
    EXPECT_EQ(2 * layer.after[0], layer.before[0]) << layer.name;
    EXPECT_NE(layer.name.find("linear1"), std::string::npos) << layer.name;
  }
  EXPECT_GT(shrunk_layers, 1);
  const auto other = nn::make_model("transformer-small", {.classes = 11, .input = {8}});
  resize_channels(*other, shrunk.channels);
  other->load_state_dict(net->state_dict());
  EXPECT_EQ(outputs_of(*other, x).to_vector<float>(), outputs_of(*net, x).to_vector<float>());
}

/// Which row of its table an embedding reads is computed from the outputs of a layer.
TEST(Channels, StayWhereIntegersAreMadeOfThem) {
  struct Routed : nn::Module {
    nn::Linear& gate = add<nn::Linear>("gate", {.in = 4, .out = 6});
    nn::Embedding& table = add<nn::Embedding>("table", {.num = 6, .dim = 3});
    Tensor forward(const Tensor& x) override { return table(argmax(gate(x), 1)); }
  };
  manual_seed(27);
  Routed net;
  EXPECT_NE(message_of([&] {
              shrink_channels(net, randn({4, 4}), {}, {.criterion = ChannelCriterion::magnitude});
            }).find("no channel can go"),
            std::string::npos);
}

TEST(Channels, StayWhereTheyAreAskedTo) {
  manual_seed(24);
  const auto net = network_of("cifar-resnet8", {3, 32, 32});
  const Tensor x = randn({2, 3, 32, 32});
  const ShrunkNetwork shrunk =
      shrink_channels(*net, x, {},
                      {.sparsity = 0.5,
                       .criterion = ChannelCriterion::magnitude,
                       .dense = {"layer1.0.conv1"},
                       .layers = {{"layer2.0.conv1", 0.25}, {"layer3.0.conv1", 0.4}}});
  EXPECT_EQ(layer_of(shrunk, "layer1.0.conv1").why, "asked for");
  EXPECT_EQ(layer_of(shrunk, "layer1.0.conv1").after[0],
            layer_of(shrunk, "layer1.0.conv1").before[0]);
  EXPECT_EQ(layer_of(shrunk, "layer2.0.conv1").after[0], 32);  // whole multiples of 16
  EXPECT_EQ(layer_of(shrunk, "layer3.0.conv1").after[0], 48);
}

TEST(Channels, RefuseNonsense) {
  manual_seed(25);
  const auto net = network_of("cifar-resnet8", {3, 32, 32});
  const Tensor x = randn({2, 3, 32, 32});
  const auto before = net->str();
  const auto why = [&](const ChannelOptions& options, const std::function<void()>& run = {}) {
    return message_of([&] { shrink_channels(*net, x, run, options); });
  };
  EXPECT_NE(why({.sparsity = 1}).find("above 0 and below 1"), std::string::npos);
  EXPECT_NE(why({.dense = {"conv9"}}).find("'conv9'"), std::string::npos);
  EXPECT_NE(why({.layers = {{"conv9", 0.5}}}).find("'conv9'"), std::string::npos);
  EXPECT_NE(why({.multiple = 0}).find("multiple"), std::string::npos);
  EXPECT_NE(why({}).find("needs data"), std::string::npos);
  EXPECT_NE(why({}, [] {}).find("ran no layer"), std::string::npos);
  EXPECT_NE(message_of([&] { parse_channel_criterion("taste"); }).find("'taste'"),
            std::string::npos);
  EXPECT_NE(message_of([&] {
              resize_channels(*net, {.inputs = {}, .outputs = {{"conv9", 1}}});
            }).find("'conv9'"),
            std::string::npos);
  EXPECT_NE(message_of([&] {
              resize_channels(*net, {.inputs = {}, .outputs = {{"conv1", 99}}});
            }).find("99"),
            std::string::npos);
  EXPECT_EQ(net->str(), before);

  struct Fixed : nn::Module {  // a size in its code
    nn::Conv2d& conv = add<nn::Conv2d>("conv", {.in = 3, .out = 8, .kernel = 1});
    nn::Linear& fc = add<nn::Linear>("fc", {.in = 8 * 16, .out = 2});
    Tensor forward(const Tensor& in) override { return fc(conv(in).reshape({-1, 8 * 16})); }
  };
  Fixed fixed;
  const Tensor small = randn({2, 3, 4, 4});
  const auto y = outputs_of(fixed, small).to_vector<float>();
  const std::string text = message_of(
      [&] { shrink_channels(fixed, small, {}, {.criterion = ChannelCriterion::magnitude}); });
  EXPECT_NE(text.find("as before"), std::string::npos) << text;
  EXPECT_EQ(outputs_of(fixed, small).to_vector<float>(), y);

  struct One : nn::Module {
    nn::Linear& fc = add<nn::Linear>("fc", {.in = 4, .out = 2});
    Tensor forward(const Tensor& in) override { return fc(in); }
  };
  One one;
  EXPECT_NE(message_of([&] {
              shrink_channels(one, randn({1, 4}), {}, {.criterion = ChannelCriterion::magnitude});
            }).find("no channel can go"),
            std::string::npos);
}

}  // namespace
}  // namespace brim::compress
