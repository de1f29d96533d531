// Layers that infer their input size at the first call.
#include <gtest/gtest.h>

#include <brim/autograd/autograd.h>
#include <brim/nn/nn.h>
#include <brim/ops/create.h>
#include <brim/ops/pool.h>
#include <brim/ops/unary.h>
#include <brim/optim/sgd.h>
#include <brim/plan/compile.h>

#include "message_of.h"

namespace brim {
namespace {

using tests::message_of;

struct InferringNet : nn::Module {
  nn::Conv2d& conv = add<nn::Conv2d>("conv", {.out = 6, .kernel = 5});
  nn::Linear& fc = add<nn::Linear>("fc", {.out = 10});
  nn::Dropout& dropout = add<nn::Dropout>("dropout", {.p = 0.5});
  Tensor forward(const Tensor& x) override {
    return fc(dropout(max_pool2d(relu(conv(x)), 2).flatten(1)));
  }
};

TEST(Deferred, SizesComeFromTheFirstCall) {
  InferringNet net;
  EXPECT_EQ(net.conv.options.in, 0);
  EXPECT_EQ(net.fc.str(), "Linear(in=inferred, out=10)");
  const Tensor y = net(rand({2, 3, 32, 32}));
  EXPECT_EQ(y.shape(), Shape({2, 10}));
  EXPECT_EQ(net.conv.weight.shape(), Shape({6, 3, 5, 5}));
  EXPECT_EQ(net.conv.bias.shape(), Shape({6}));
  EXPECT_EQ(net.fc.weight.shape(), Shape({10, 6 * 14 * 14}));
  EXPECT_EQ(net.conv.options.in, 3);
  EXPECT_EQ(net.fc.options.in, 6 * 14 * 14);
  EXPECT_EQ(net.fc.str(), "Linear(in=1176, out=10)");
  // That call has a gradient already, and the next one keeps the sizes.
  y.sum().backward();
  EXPECT_TRUE(net.conv.weight.grad().defined());
  EXPECT_THROW(net(rand({2, 1, 32, 32})), ShapeError);
}

TEST(Deferred, ParametersBeginAsThoseOfGivenSizes) {
  manual_seed(3);
  nn::Sequential given, inferred;
  given.push<nn::Linear>({.in = 4, .out = 8}).push<nn::Linear>({.in = 8, .out = 2, .bias = false});
  manual_seed(3);
  inferred.push<nn::Linear>({.out = 8}).push<nn::Linear>({.out = 2, .bias = false});
  inferred.initialize(zeros({1, 4}));
  EXPECT_EQ(given.named_parameters().size(), inferred.named_parameters().size());
  for (size_t i = 0; i < given.parameters().size(); ++i) {
    EXPECT_EQ(given.named_parameters()[i].first, inferred.named_parameters()[i].first);
    EXPECT_EQ(given.parameters()[i].to_vector<float>(),
              inferred.parameters()[i].to_vector<float>());
    EXPECT_TRUE(inferred.parameters()[i].requires_grad());
  }
}

/// The layer infers its size from x, says so, and then computes what one of given sizes does.
template <class Layer>
void expect_infers(typename Layer::Options given, typename Layer::Options inferred,
                   const Shape& shape) {
  manual_seed(5);
  Layer expected(given);
  manual_seed(5);
  Layer layer(inferred);
  EXPECT_NE(layer.str().find("inferred"), std::string::npos) << layer.str();
  EXPECT_THROW((void)layer.num_parameters(), ValueError);
  EXPECT_THROW((void)layer.named_buffers(), ValueError);
  layer.initialize(zeros(shape));
  EXPECT_EQ(layer.str(), expected.str());
  const StateDict all = layer.state_dict(), as = expected.state_dict();
  ASSERT_EQ(all.size(), as.size());
  expected.load_state_dict(all);  // names and shapes
  for (const Tensor& p : layer.parameters()) EXPECT_TRUE(p.requires_grad());
  Generator numbers(7);
  const Tensor x = rand(shape, {}, &numbers);
  manual_seed(5);
  Layer fresh(given);
  EXPECT_EQ(layer(x).template to_vector<float>(), fresh(x).template to_vector<float>());
}

TEST(Deferred, EveryLayerWithAnInputSizeInfersIt) {
  expect_infers<nn::Conv1d>({.in = 3, .out = 4, .kernel = 2}, {.out = 4, .kernel = 2}, {2, 3, 8});
  expect_infers<nn::ConvTranspose2d>({.in = 4, .out = 6, .kernel = 2, .groups = 2},
                                     {.out = 6, .kernel = 2, .groups = 2}, {2, 4, 5, 5});
  expect_infers<nn::BatchNorm2d>({.features = 3}, {}, {2, 3, 4, 4});
  expect_infers<nn::GroupNorm>({.groups = 2, .channels = 4}, {.groups = 2}, {2, 4, 5});
  expect_infers<nn::LayerNorm>({.shape = {6}}, {}, {2, 3, 6});
  expect_infers<nn::RMSNorm>({.shape = {6}}, {}, {2, 3, 6});
  expect_infers<nn::LSTM>({.in = 3, .hidden = 4, .layers = 2, .bidirectional = true},
                          {.hidden = 4, .layers = 2, .bidirectional = true}, {5, 2, 3});
  expect_infers<nn::GRU>({.in = 3, .hidden = 4}, {.hidden = 4}, {5, 2, 3});
}

TEST(Deferred, LayersRefuseInputsThatShowNoSize) {
  EXPECT_THROW(nn::Conv1d({.out = 4, .kernel = 2})(zeros({2, 3})), ShapeError);
  EXPECT_THROW(nn::BatchNorm2d({})(zeros({2, 3})), ShapeError);
  EXPECT_THROW(nn::BatchNorm2d({.features = -1}), ValueError);
  EXPECT_THROW(nn::LayerNorm({})(zeros({})), ShapeError);
  EXPECT_THROW(nn::GroupNorm({.groups = 2})(zeros({2})), ShapeError);
  EXPECT_THROW(nn::GRU({.hidden = 4})(zeros({2, 3})), ShapeError);
  nn::GroupNorm norm({.groups = 2});
  EXPECT_THROW(norm(zeros({2, 3, 4})), ValueError);  // 2 groups do not divide 3
  EXPECT_EQ(norm(zeros({2, 4, 4})).shape(), Shape({2, 4, 4}));
}

TEST(Deferred, StatisticsAreMadeWhereToSays) {
  nn::BatchNorm2d norm({});
  norm.to(Device::sim(0)).to(f64);
  norm(zeros({2, 3, 4, 4}, {.dtype = f64, .device = "sim:0"}));
  for (const auto& [name, buffer] : norm.named_buffers())
    EXPECT_EQ(buffer.device(), Device::sim(0)) << name;
  EXPECT_EQ(norm.running_var.dtype(), f64);
  EXPECT_EQ(norm.num_batches_tracked.to(Device::cpu()).to_vector<int64_t>()[0], 1);
}

TEST(Deferred, InitializeLeavesTheModesAlone) {
  InferringNet net;
  net.fc.eval();
  net.initialize(zeros({1, 3, 32, 32}));
  EXPECT_TRUE(net.training());
  EXPECT_TRUE(net.dropout.training());
  EXPECT_FALSE(net.fc.training());
  EXPECT_TRUE(grad_enabled());
  EXPECT_EQ(net.num_parameters(), 6 * 3 * 25 + 6 + 10 * 1176 + 10);
  net.initialize(zeros({1, 3, 32, 32}));  // once more changes nothing
  EXPECT_EQ(net.num_parameters(), 6 * 3 * 25 + 6 + 10 * 1176 + 10);
}

TEST(Deferred, SaysWhatToDoWhereThereAreNoParametersYet) {
  InferringNet net;
  const std::vector<std::function<void()>> all = {
      [&] { optim::SGD optimizer(net.parameters(), {.lr = 0.1}); },
      [&] { optim::SGD optimizer(net.named_parameters(), {.lr = 0.1}); },
      [&] { (void)net.num_parameters(); },
      [&] { (void)net.state_dict(); },
      [&] { net.load_state_dict({}); },
      [&] { net.to(MemoryFormat::nhwc); },
      [&] { net.requires_grad(false); },
      [&] { net.zero_grad(); },
  };
  for (const std::function<void()>& f : all)
    EXPECT_EQ(message_of<ValueError>(f),
              "[Conv2d] 'conv' has no parameters yet: it infers its input size at the first call; "
              "call the network once before, as net.initialize(sample), or give the layer its "
              "input size");
  net.initialize(zeros({1, 3, 32, 32}));
  for (const std::function<void()>& f : all)
    EXPECT_EQ(message_of<ValueError>(f).find("no parameters yet"), std::string::npos);
}

TEST(Deferred, ToSaysWhereTheyWillBeMade) {
  nn::Sequential net;
  net.push<nn::Linear>({.out = 8}).push<nn::Linear>({.in = 8, .out = 2});
  net.to(Device::sim(0)).to(f64);
  net.initialize(zeros({1, 4}, {.dtype = f64, .device = "sim:0"}));
  for (const Tensor& p : net.parameters()) {
    EXPECT_EQ(p.device(), Device::sim(0));
    EXPECT_EQ(p.dtype(), f64);
  }
  nn::Linear elsewhere({.out = 2});
  EXPECT_THROW(elsewhere(zeros({1, 4}, {.device = "sim:0"})), DeviceError);
}

TEST(Deferred, DeviceScopeHoldsWhereTheLayerIsMade) {
  std::unique_ptr<nn::Linear> layer;
  {
    const DeviceScope scope("sim:0");
    layer = std::make_unique<nn::Linear>(nn::Linear::Options{.out = 2});
  }
  (*layer)(zeros({1, 4}, {.device = "sim:0"}));
  EXPECT_EQ(layer->weight.device(), Device::sim(0));
}

TEST(Deferred, AFailedFirstCallMayBeRepeated) {
  nn::Conv2d conv({.out = 4, .kernel = 3, .groups = 2});
  EXPECT_NE(message_of<ShapeError>([&] {
              conv(zeros({3, 8, 8}));
            }).find("(N, C, H, W) is expected"),
            std::string::npos);
  EXPECT_THROW(conv(zeros({1, 3, 8, 8})), ValueError);  // 2 groups do not divide 3
  EXPECT_THROW((void)conv.num_parameters(), ValueError);
  EXPECT_EQ(conv(zeros({1, 6, 8, 8})).shape(), Shape({1, 4, 6, 6}));
  EXPECT_EQ(conv.weight.shape(), Shape({4, 3, 3, 3}));
  EXPECT_THROW(nn::Linear({.out = 2})(Tensor::from({1.f}, {})), ShapeError);
  EXPECT_THROW(nn::Linear({.in = -1, .out = 2}), ValueError);
  EXPECT_THROW(nn::Linear({.in = 3}), ValueError);
}

TEST(Deferred, ACompiledStepMayBeTheFirstCall) {
  manual_seed(1);
  nn::Linear layer({.out = 2});
  const NoGrad guard;
  auto step = compile([&](const Tensor& x) { return layer(x); });
  const Tensor x = rand({3, 4});
  const std::vector<float> first = step(x).to_vector<float>();
  EXPECT_EQ(step(x).to_vector<float>(), first);
  EXPECT_EQ(layer(x).to_vector<float>(), first);
  EXPECT_TRUE(layer.weight.requires_grad());
}

TEST(Deferred, TrainsAfterInitialize) {
  manual_seed(0);
  InferringNet net;
  net.initialize(zeros({1, 3, 32, 32}));
  optim::SGD optimizer(net.named_parameters(), {.lr = 0.05});
  const Tensor x = rand({8, 3, 32, 32}), y = randint(0, 10, {8});
  net.eval();
  double first = 0, last = 0;
  for (int step = 0; step < 10; ++step) {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(net(x), y);
    loss.backward();
    optimizer.step();
    (step == 0 ? first : last) = loss.item();
  }
  EXPECT_LT(last, first);
}

}  // namespace
}  // namespace brim
