// Convolutions in 8-bit integers become one launch with batch norm, a residual, ReLU and rounding
// behind them, and no bit changes.
#include <gtest/gtest.h>

#include <string>

#include <brim/brim.h>

namespace brim {
namespace {

using compress::QuantizeOptions;

/// A block as ResNets have it; its second convolution reads what the first one's ReLU makes.
struct Int8Block : nn::Module {
  explicit Int8Block(int64_t width, bool affine = true, bool bias = false)
      : conv1(add<nn::Conv2d>("conv1",
                              {.in = 8, .out = width, .kernel = 3, .padding = 1, .bias = bias})),
        norm1(add<nn::BatchNorm2d>("norm1", {.features = width, .affine = affine})),
        conv2(add<nn::Conv2d>(
            "conv2",
            {.in = width, .out = width, .kernel = 3, .stride = 2, .padding = 1, .bias = bias})),
        norm2(add<nn::BatchNorm2d>("norm2", {.features = width, .affine = affine})),
        down(add<nn::Conv2d>("down",
                             {.in = 8, .out = width, .kernel = 1, .stride = 2, .bias = bias})),
        norm3(add<nn::BatchNorm2d>("norm3", {.features = width, .affine = affine})) {}
  Tensor forward(const Tensor& x) override {
    return relu(norm2(conv2(relu(norm1(conv1(x))))) + norm3(down(x)));
  }
  nn::Conv2d& conv1;
  nn::BatchNorm2d& norm1;
  nn::Conv2d& conv2;
  nn::BatchNorm2d& norm2;
  nn::Conv2d& down;
  nn::BatchNorm2d& norm3;
};

/// Launches of the plan with this name.
int count_of(const std::string& explain, const std::string& kernel) {
  int count = 0;
  for (size_t at = explain.find(" " + kernel + " "); at != std::string::npos;
       at = explain.find(" " + kernel + " ", at + 1))
    ++count;
  return count;
}

/// The plan of the network in integers, whose compiled passes make what eager ones do.
std::string plan_in_integers(nn::Module& net, const Tensor& x) {
  net.eval();
  const NoGrad scope;
  compress::quantize(net, [&] { (void)net(x); }, {.only_faster = false});
  auto forward = compile([&](const Tensor& in) { return net(in); });
  const std::vector<float> eager = net(x).to_vector<float>();
  EXPECT_EQ(forward(x).to_vector<float>(), eager);
  EXPECT_EQ(forward(x).to_vector<float>(), eager);
  return forward.explain();
}

/// With statistics of its own.
void expect_fused(nn::Module& net, const Tensor& x, int fused, int alone) {
  net.train();
  for (int i = 0; i < 3; ++i) (void)net(randn(x.shape()) * 2 + 0.5);
  const std::string explain = plan_in_integers(net, x);
  EXPECT_EQ(count_of(explain, "int8_conv2d_epilogue"), fused) << explain;
  EXPECT_EQ(count_of(explain, "int8_conv2d"), alone) << explain;
}

TEST(FuseInt8, ABlockIsALaunchForEachConvolution) {
  manual_seed(1);
  for (const int64_t width : {16, 48}) {
    Int8Block net(width);
    expect_fused(net, randn({2, 8, 9, 7}), 3, 0);
  }
}

TEST(FuseInt8, NormsWithoutWeightsAndConvolutionsWithBiases) {
  manual_seed(2);
  Int8Block net(32, /*affine=*/false, /*bias=*/true);
  expect_fused(net, randn({1, 8, 6, 6}), 3, 0);
}

TEST(FuseInt8, OtherNumbersOfOutputsStayAsTheyAre) {
  manual_seed(3);
  Int8Block net(24);
  expect_fused(net, randn({2, 8, 5, 5}), 0, 3);
}

TEST(FuseInt8, ReluWithoutANorm) {
  struct Net : nn::Module {
    nn::Conv2d& conv1 = add<nn::Conv2d>("conv1", {.in = 3, .out = 16, .kernel = 3});
    nn::Conv2d& conv2 = add<nn::Conv2d>("conv2", {.in = 16, .out = 32, .kernel = 3});
    Tensor forward(const Tensor& x) override { return conv2(relu(conv1(x))); }
  } net;
  expect_fused(net, randn({3, 3, 9, 9}), 1, 1);
}

/// The layer's kernel does what a plan of `launches` launches leaves to it, and no bit changes.
void expect_joined(nn::Module& net, const Tensor& x, const std::string& kernel, int launches,
                   int left) {
  SCOPED_TRACE(kernel);
  const std::string explain = plan_in_integers(net, x);
  EXPECT_EQ(count_of(explain, kernel), launches) << explain;
  EXPECT_EQ(count_of(explain, "relu") + count_of(explain, "quantize"), left) << explain;
}

TEST(FuseInt8, LayersWithoutANormRoundForTheNext) {
  manual_seed(5);
  struct Linears : nn::Module {
    nn::Linear& fc1 = add<nn::Linear>("fc1", {.in = 20, .out = 24});
    nn::Linear& fc2 = add<nn::Linear>("fc2", {.in = 24, .out = 32, .bias = false});
    nn::Linear& fc3 = add<nn::Linear>("fc3", {.in = 32, .out = 7});
    Tensor forward(const Tensor& x) override { return relu(fc3(fc2(relu(fc1(x))))); }
  } linears;
  expect_joined(linears, randn({5, 20}), "int8_linear", 3, 1);
  struct Convs : nn::Module {  // of other numbers of outputs than the epilogue takes
    nn::Conv2d& conv1 = add<nn::Conv2d>("conv1", {.in = 3, .out = 12, .kernel = 3});
    nn::Conv2d& conv2 = add<nn::Conv2d>("conv2", {.in = 12, .out = 10, .kernel = 3});
    Tensor forward(const Tensor& x) override { return relu(conv2(relu(conv1(x)))); }
  } convs;
  expect_joined(convs, randn({2, 3, 9, 9}), "int8_conv2d", 2, 1);
}

TEST(FuseInt8, SparseLayersRoundForTheNext) {
  manual_seed(6);
  const NoGrad scope;
  const auto pruned = [](const Shape& shape) {
    const Shape mask{shape[0], shape[1]};
    const Tensor kept = ge(rand({1, shape[1]}), 0.5).to(f32).expand(mask);
    return SparseInt8Weight::quantize(
        randn(shape) * (shape.rank() == 4 ? kept.reshape({shape[0], shape[1], 1, 1}) : kept), 8);
  };
  const QuantParams input{.scale = 0.03F, .zero_point = 128}, next{.scale = 0.1F, .zero_point = 7};
  const SparseInt8Weight fc1 = pruned({16, 32}), fc2 = pruned({8, 16});
  const SparseInt8Weight conv1 = pruned({16, 8, 3, 3}), conv2 = pruned({8, 16, 3, 3});
  const auto linears = [&](const Tensor& x) {
    const Tensor y = relu(sparse_int8_linear(quantize(x, input), input, fc1));
    return sparse_int8_linear(quantize(y, next), next, fc2);
  };
  const auto convs = [&](const Tensor& x) {
    const Tensor y = relu(sparse_int8_conv2d(quantize(x, input), input, conv1));
    return relu(sparse_int8_conv2d(quantize(y, next), next, conv2));
  };
  const auto expect_launches = [](const auto& forward, const Tensor& x, const char* kernel) {
    auto compiled = compile(forward);
    const std::vector<float> eager = forward(x).template to_vector<float>();
    EXPECT_EQ(compiled(x).template to_vector<float>(), eager);
    EXPECT_EQ(compiled(x).template to_vector<float>(), eager);
    const std::string explain = compiled.explain();
    EXPECT_EQ(count_of(explain, kernel), 2) << explain;
    EXPECT_EQ(count_of(explain, "relu"), 0) << explain;
    EXPECT_EQ(count_of(explain, "quantize"), 1) << explain;
  };
  expect_launches(linears, randn({9, 32}), "sparse_int8_linear");
  expect_launches(convs, randn({2, 8, 9, 9}), "sparse_int8_conv2d");
  expect_launches(convs, randn({2, 8, 9, 9}).to(MemoryFormat::nhwc), "sparse_int8_conv2d");
}

TEST(FuseInt8, WhatOthersReadOfALayerIsKept) {
  manual_seed(7);
  struct Net : nn::Module {
    nn::Linear& fc1 = add<nn::Linear>("fc1", {.in = 20, .out = 24});
    nn::Linear& fc2 = add<nn::Linear>("fc2", {.in = 24, .out = 24});
    Tensor forward(const Tensor& x) override {
      const Tensor a = relu(fc1(x));
      return fc2(a) + a;
    }
  } net;
  expect_joined(net, randn({5, 20}), "int8_linear", 2, 2);  // ReLU joins, the rounding stays
}

/// As MobileNets have it.
TEST(FuseInt8, AnInvertedResidual) {
  manual_seed(5);
  struct Net : nn::Module {
    nn::Conv2d& expand = add<nn::Conv2d>("expand", {.in = 16, .out = 32, .kernel = 1});
    nn::BatchNorm2d& norm1 = add<nn::BatchNorm2d>("norm1", {.features = 32});
    nn::Conv2d& depthwise = add<nn::Conv2d>(
        "depthwise", {.in = 32, .out = 32, .kernel = 3, .padding = 1, .groups = 32});
    nn::Conv2d& project = add<nn::Conv2d>("project", {.in = 32, .out = 16, .kernel = 1});
    nn::BatchNorm2d& norm2 = add<nn::BatchNorm2d>("norm2", {.features = 16});
    nn::Conv2d& last = add<nn::Conv2d>("last", {.in = 16, .out = 16, .kernel = 1});
    Tensor forward(const Tensor& x) override {
      const Tensor wide = clamp(norm1(expand(x)), 0, 6);
      const Tensor y = x + norm2(project(clamp(depthwise(wide), 0, 6)));
      return clamp(last(y), -1, 0.25) + y;
    }
  } net;
  expect_fused(net, randn({2, 16, 6, 5}), 3, 0);
}

/// What is rounded is seen by others, too.
TEST(FuseInt8, TheResultIsKeptForThoseWhoReadIt) {
  struct Net : nn::Module {
    nn::Conv2d& conv1 = add<nn::Conv2d>("conv1", {.in = 4, .out = 16, .kernel = 1});
    nn::BatchNorm2d& norm = add<nn::BatchNorm2d>("norm", {.features = 16});
    nn::Conv2d& conv2 = add<nn::Conv2d>("conv2", {.in = 16, .out = 16, .kernel = 1});
    Tensor forward(const Tensor& x) override {
      const Tensor y = relu(norm(conv1(x)));
      return conv2(y) + y * 2;
    }
  } net;
  expect_fused(net, randn({2, 4, 5, 5}), 1, 1);
}

/// What follows in another shape is no pixel of a convolution.
TEST(FuseInt8, OtherShapesAreLeft) {
  manual_seed(6);
  const NoGrad scope;
  const QuantParams params = QuantParams::of_range(-3, 3);
  const Int8Weight w = Int8Weight::quantize(randn({32, 8, 1, 1})),
                   narrow = Int8Weight::quantize(randn({8, 8, 1, 1}));
  const Tensor x = randn({2, 8, 2, 2}), pixel = randn({4, 8, 1, 1});
  auto wide = compile([&](const Tensor& in) {
    return relu(int8_conv2d(quantize(in, params), params, w).reshape({2, 128, 1, 1}));
  });
  auto joined = compile([&](const Tensor& in) {
    const Tensor y = int8_conv2d(quantize(in, params), params, narrow).reshape({2, 16, 1, 1});
    return quantize(relu(y), params).to(f32);
  });
  EXPECT_EQ(wide(x).to_vector<float>(),
            relu(int8_conv2d(quantize(x, params), params, w)).to_vector<float>());
  EXPECT_EQ(count_of(wide.explain(), "int8_conv2d_epilogue"), 0);
  EXPECT_EQ(joined(pixel).to_vector<float>(),
            quantize(relu(int8_conv2d(quantize(pixel, params), params, narrow)), params)
                .to(f32)
                .to_vector<float>());
  EXPECT_EQ(count_of(joined.explain(), "int8_conv2d_epilogue"), 0);
}

/// Statistics and weights are read at each pass.
TEST(FuseInt8, WhatIsWrittenAfterwardsIsSeen) {
  manual_seed(7);
  Int8Block net(16);
  net.eval();
  const NoGrad scope;
  const Tensor x = randn({1, 8, 6, 6});
  compress::quantize(net, [&] { (void)net(x); }, {.only_faster = false});
  auto forward = compile([&](const Tensor& in) { return net(in); });
  (void)forward(x);
  net.norm1.running_var.fill_(4);
  net.norm2.bias.detach().fill_(0.5);
  const std::vector<float> eager = net(x).to_vector<float>();
  EXPECT_EQ(forward(x).to_vector<float>(), eager);
}

/// A batch norm in training has statistics of its own.
TEST(FuseInt8, NormsInTrainingAreLeft) {
  struct Net : nn::Module {
    nn::Conv2d& conv = add<nn::Conv2d>("conv", {.in = 4, .out = 16, .kernel = 1});
    nn::BatchNorm2d& norm = add<nn::BatchNorm2d>("norm", {.features = 16});
    Tensor forward(const Tensor& x) override { return relu(norm(conv(x))); }
  } net;
  net.eval();
  const NoGrad scope;
  const Tensor x = randn({2, 4, 5, 5});
  compress::quantize(net, [&] { (void)net(x); }, {.only_faster = false});
  net.norm.train();
  auto forward = compile([&](const Tensor& in) { return net(in); });
  (void)forward(x);
  EXPECT_EQ(count_of(forward.explain(), "int8_conv2d_epilogue"), 0) << forward.explain();
}

TEST(FuseInt8, NetworksOfTheZooKeepEveryBit) {
  manual_seed(4);
  for (const char* name : {"cifar-resnet8", "tutorial-cnn"}) {
    const auto net = nn::make_model(name, {.classes = 10, .input = {3, 32, 32}});
    net->eval();
    const NoGrad scope;
    const Tensor x = rand({2, 3, 32, 32});
    compress::quantize(*net, [&] { (void)(*net)(x); }, {.only_faster = false});
    auto forward = compile([&](const Tensor& in) { return (*net)(in); });
    EXPECT_EQ(forward(x).to_vector<float>(), (*net)(x).to_vector<float>()) << name;
    const int fused = std::string(name) == "cifar-resnet8" ? 9 : 1;
    EXPECT_EQ(count_of(forward.explain(), "int8_conv2d_epilogue"), fused) << forward.explain();
  }
}

}  // namespace
}  // namespace brim
