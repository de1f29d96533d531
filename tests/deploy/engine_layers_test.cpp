// Engines of single layers, on every instruction set: what the runtime computes is what the layer
// computes.
#include <brim/autograd/autograd.h>
#include <brim/brim.h>
#include <brim/deploy/engine.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>

#include "deploy/computes.h"
#include "deploy/opened_engine.h"
#include "temporary_folder.h"

namespace brim::tests {
namespace {

struct EngineCase {
  std::string name;
  std::function<std::unique_ptr<nn::Module>()> network;
  Shape sample;
};

std::unique_ptr<nn::Module> of(std::function<Tensor(const Tensor&)> f) {
  return std::make_unique<Computes>(std::move(f));
}
template <class Layer, class Options>
std::function<std::unique_ptr<nn::Module>()> layer(Options options) {
  return [options] { return std::make_unique<Layer>(options); };
}

std::vector<EngineCase> engine_cases() {
  using nn::Conv2d;
  std::vector<EngineCase> all;
  const auto conv = [&](const std::string& name, Conv2d::Options o, int64_t h, int64_t w) {
    all.push_back({"Conv" + name, layer<Conv2d>(o), {o.in, h, w}});
  };
  conv("Plain", {.in = 5, .out = 7, .kernel = 3}, 9, 11);
  // Few outputs, whose vectors hold columns: tiles of 6 and 3, an odd number of rows, borders.
  conv("Planes", {.in = 3, .out = 6, .kernel = 5}, 32, 32);
  conv("PlanesPadded", {.in = 1, .out = 10, .kernel = 3, .padding = {1, 2}}, 9, 61);
  conv("PlanesWide", {.in = 4, .out = 1, .kernel = {1, 7}, .bias = false}, 5, 70);
  conv("Winograd", {.in = 32, .out = 48, .kernel = 3, .padding = 1}, 14, 13);
  conv("Pointwise", {.in = 24, .out = 40, .kernel = 1, .bias = false}, 10, 10);
  conv("Strided", {.in = 16, .out = 64, .kernel = 3, .stride = 2, .padding = 1}, 15, 14);
  conv("Dilated", {.in = 3, .out = 20, .kernel = {3, 2}, .padding = {2, 1}, .dilation = 2}, 12, 9);
  conv("Grouped", {.in = 12, .out = 18, .kernel = 3, .padding = 1, .groups = 3}, 8, 8);
  conv("Depthwise", {.in = 21, .out = 21, .kernel = 3, .padding = 1, .groups = 21}, 9, 10);
  conv("DepthwiseStrided",
       {.in = 32, .out = 32, .kernel = 3, .stride = 2, .padding = 1, .groups = 32}, 11, 12);
  for (const int64_t stride : {1, 2})
    for (const int64_t padding : {0, 1, 2})
      for (const int64_t width : {1, 2, 3, 4, 7, 8})
        if (width + 2 * padding >= 3)
          conv("DepthwiseStride" + std::to_string(stride) + "Padding" + std::to_string(padding) +
                   "Width" + std::to_string(width),
               {.in = 35,
                .out = 35,
                .kernel = 3,
                .stride = stride,
                .padding = padding,
                .groups = 35},
               width > 2 ? 5 : 3, width);
  conv("DepthwiseLarge", {.in = 16, .out = 16, .kernel = 5, .padding = 2, .groups = 16}, 7, 3);
  conv("LargePadding", {.in = 2, .out = 3, .kernel = 3, .padding = 4}, 3, 2);
  // Rows of outputs in tiles of all sizes, with columns at the borders that have windows of their
  // own.
  for (const int64_t width : {5, 7, 9, 10, 13, 14})
    conv("Width" + std::to_string(width), {.in = 6, .out = 20, .kernel = 3, .padding = 1}, 8,
         width);
  conv("WideWindow", {.in = 3, .out = 40, .kernel = 7, .stride = 2, .padding = 3}, 21, 30);
  conv("DilatedRows", {.in = 5, .out = 24, .kernel = {3, 3}, .padding = {2, 1}, .dilation = {2, 1}},
       9, 11);
  // Products of rows that whole tiles do not divide, and of panels of which half is used.
  for (const int64_t outputs : {6, 24, 72})
    conv("Product" + std::to_string(outputs), {.in = 300, .out = outputs, .kernel = 1}, 7, 7);
  conv("Many", {.in = 64, .out = 130, .kernel = 3, .padding = 1}, 7, 7);
  all.push_back({"Transposed",
                 layer<nn::ConvTranspose2d>(
                     nn::ConvTranspose2d::Options{.in = 6, .out = 5, .kernel = 2, .stride = 2}),
                 {6, 5, 4}});
  all.push_back({"Linear", layer<nn::Linear>(nn::Linear::Options{.in = 37, .out = 50}), {37}});
  all.push_back(
      {"LinearOfRows", layer<nn::Linear>(nn::Linear::Options{.in = 12, .out = 16}), {5, 12}});
  all.push_back({"LinearWithoutBias",
                 layer<nn::Linear>(nn::Linear::Options{.in = 9, .out = 3, .bias = false}),
                 {9}});
  const auto f = [&](const std::string& name, const Shape& sample,
                     std::function<Tensor(const Tensor&)> compute) {
    all.push_back({name, [compute] { return of(compute); }, sample});
  };
  const Shape image = {5, 6, 7}, row = {33};
  for (const auto& [named, compute] :
       std::vector<std::pair<std::string, std::function<Tensor(const Tensor&)>>>{
           {"Relu", [](const Tensor& x) { return relu(x); }},
           {"Sigmoid", [](const Tensor& x) { return sigmoid(x); }},
           {"Silu", [](const Tensor& x) { return silu(x); }},
           {"Tanh", [](const Tensor& x) { return tanh(x); }},
           {"Gelu", [](const Tensor& x) { return gelu(x); }},
           {"LeakyRelu", [](const Tensor& x) { return leaky_relu(x, 0.2); }},
           {"Elu", [](const Tensor& x) { return elu(x, 0.7); }},
           {"Exp", [](const Tensor& x) { return exp(x); }},
           {"Clamp", [](const Tensor& x) { return clamp(x, -0.5, 0.7); }},
           {"Negative", [](const Tensor& x) { return -x; }},
           {"Softplus", [](const Tensor& x) { return softplus(x); }},
           {"Logarithm", [](const Tensor& x) { return log(abs(x) + 1.0); }},
           {"Root", [](const Tensor& x) { return sqrt(x * x + 0.1); }},
           {"Reciprocal", [](const Tensor& x) { return reciprocal(x * x + 1.0); }},
           {"Erf", [](const Tensor& x) { return erf(x); }}}) {
    const std::string name = named;  // of clang 14: bindings are not captured
    const auto activation = compute;
    f(name, row, activation);
    f(name + "OfImages", image,
      [activation](const Tensor& x) { return activation(max_pool2d(x, 2, {.stride = 1})); });
  }
  f("MaxPool", image,
    [](const Tensor& x) { return max_pool2d(x, 3, {.stride = 2, .padding = 1}); });
  f("MaxPoolDilated", image,
    [](const Tensor& x) { return max_pool2d(x, 2, {.stride = 1, .dilation = 2}); });
  f("AveragePool", image,
    [](const Tensor& x) { return avg_pool2d(x, 3, {.stride = 2, .padding = 1}); });
  f("AveragePoolUncounted", image, [](const Tensor& x) {
    return avg_pool2d(x, 3, {.stride = 2, .padding = 1, .count_include_pad = false});
  });
  f("GlobalPool", {37, 6, 7}, [](const Tensor& x) { return adaptive_avg_pool2d(x, 1); });
  f("Broadcast", image, [](const Tensor& x) {
    return x * sigmoid(adaptive_avg_pool2d(x, 1)) + x.slice(2, 1, 2) - 0.5;
  });
  f("BroadcastConstant", {5, 4}, [](const Tensor& x) {
    return (x - arange(0, 4).to(f32)) / (arange(0, 5).to(f32).reshape({5, 1}) + 1.0);
  });
  for (const auto& size : std::vector<Pair>{{10, 14}, {6, 8}, {4, 5}})
    for (const bool corners : {false, true}) {
      InterpolateOptions to = {.size = size, .align_corners = corners};
      const std::string name = std::to_string(size.h) + "x" + std::to_string(size.w);
      if (!corners)
        f("Nearest" + name, image, [to](const Tensor& x) { return interpolate(relu(x), to); });
      to.mode = Interpolation::bilinear;
      f("Bilinear" + name + (corners ? "Corners" : ""), image,
        [to](const Tensor& x) { return interpolate(x, to); });
    }
  f("Larger", image, [](const Tensor& x) { return interpolate(x, {.scale = 1.5}); });
  // Where a place is a pixel but for how it is rounded.
  for (const double scale : {1.1, 1.2, 1.6, 1.7, 3.3})
    f("Larger" + std::to_string(static_cast<int>(10 * scale)) + "Tenths", image,
      [scale](const Tensor& x) { return interpolate(x, {.scale = scale}); });
  f("MuchLarger", {1, 2, 3}, [](const Tensor& x) { return interpolate(x, {.size = {98, 147}}); });
  f("LargerBetweenPixels", image,
    [](const Tensor& x) { return interpolate(x, {.scale = 2, .mode = Interpolation::bilinear}); });
  f("Softmax", {7, 5}, [](const Tensor& x) { return softmax(x, -1); });
  f("SoftmaxOfAxis", {7, 5}, [](const Tensor& x) { return softmax(x, 1); });
  f("SoftmaxOfChannels", image, [](const Tensor& x) { return softmax(x, 1); });
  f("LogSoftmax", row, [](const Tensor& x) { return log_softmax(x, 1); });
  f("Concatenated", image, [](const Tensor& x) {
    return cat({max_pool2d(x, 3, {.stride = 1, .padding = 1}), x, relu(x)}, 1);
  });
  f("ConcatenatedRows", {3, 4}, [](const Tensor& x) { return cat({x, x * 2.0, x}, 2); });
  f("Sliced", {6, 9}, [](const Tensor& x) { return x.slice(2, 1, 8, 3) + x.slice(2, 0, 3); });
  f("Transposed", {3, 4, 5}, [](const Tensor& x) { return x.permute({0, 3, 1, 2}).contiguous(); });
  f("Flattened", image, [](const Tensor& x) {
    return max_pool2d(x, 2).reshape({x.shape()[0], -1}) * 2.0;
  });
  f("Products", {4, 6}, [](const Tensor& x) { return matmul(x, x.transpose(1, 2)); });
  f("Itself", row, [](const Tensor& x) { return x; });
  all.push_back(
      {"BatchNorm",
       [] { return std::make_unique<nn::BatchNorm2d>(nn::BatchNorm2d::Options{.features = 5}); },
       image});
  for (const int64_t hidden : {5, 16, 40})
    for (const bool both : {false, true}) {
      const std::string name = std::to_string(hidden) + (both ? "Both" : "");
      const nn::Recurrent::Options o = {
          .in = 3, .hidden = hidden, .layers = 2, .batch_first = true, .bidirectional = both};
      all.push_back({"Lstm" + name, layer<nn::LSTM>(o), {4, 3}});
      all.push_back({"Gru" + name, layer<nn::GRU>(o), {4, 3}});
    }
  all.push_back({"GroupNorm",
                 layer<nn::GroupNorm>(nn::GroupNorm::Options{.groups = 3, .channels = 6}),
                 {6, 5, 4}});
  all.push_back(
      {"GroupNormWithoutWeights",
       layer<nn::GroupNorm>(nn::GroupNorm::Options{.groups = 2, .channels = 4, .affine = false}),
       {4, 7}});
  all.push_back(
      {"LayerNorm",
       [] { return std::make_unique<nn::LayerNorm>(nn::LayerNorm::Options{.shape = {6}}); },
       {4, 6}});
  for (const int64_t side : {26, 31})
    all.push_back({"PlanesPooled" + std::to_string(side),
                   [] {
                     auto net = std::make_unique<nn::Sequential>();
                     net->push<nn::Conv2d>({.in = 2, .out = 8, .kernel = 3, .padding = 1});
                     net->push<nn::ReLU>().push<nn::MaxPool2d>({.kernel = 2});
                     return net;
                   },
                   {2, side, side + 1}});
  all.push_back({"FlattenedLinear",
                 [] {
                   auto net = std::make_unique<nn::Sequential>();
                   net->push<nn::Conv2d>({.in = 3, .out = 5, .kernel = 3});
                   net->push<nn::Flatten>();
                   net->push<nn::Linear>({.in = 5 * 4 * 6, .out = 7});
                   return net;
                 },
                 {3, 6, 8}});
  return all;
}

class EngineOfLayer : public testing::TestWithParam<EngineCase> {};

TEST_P(EngineOfLayer, ComputesTheSame) {
  manual_seed(3);
  const TemporaryFolder folder;
  const auto network = GetParam().network();
  network->eval();
  Shape shape = GetParam().sample;
  shape.insert(0, 1);
  const std::string path = folder / "model.brim";
  deploy::save_engine(path, *network, Tensor::empty(shape, f32, Device::cpu()),
                      {.batches = {1, 3}, .threads = 2});
  const NoGrad no_grad;
  for (const int64_t batch : {1, 3}) {
    shape[0] = batch;
    const Tensor x = randn(shape), expected = (*network)(x);
    Tensor first;
    for (const char* isa : kInstructionSets) {
      const auto engine = engine_on({.batch = batch, .own_threads = 2, .isa = isa}, path);
      if (!engine) continue;
      EXPECT_LT(relative_difference((*engine)(x), expected), 1e-5) << isa << ", batch " << batch;
    }
    for (const int threads : {1, 3}) {
      const OpenedEngine engine(path, {.batch = batch, .own_threads = threads});
      const Tensor y = engine(x);
      if (threads == 1)
        first = y;
      else
        EXPECT_EQ(relative_difference(y, first), 0) << "threads change bits";
    }
  }
}

/// NaN and infinities where they are expected.
void expect_same(const std::vector<float>& found, const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(found[i])) << i;
    } else if (std::isinf(expected[i])) {
      EXPECT_EQ(found[i], expected[i]) << i;
    } else {
      EXPECT_NEAR(found[i], expected[i], 1e-5) << i;
    }
  }
}

TEST(EngineOfMaxPool, LetsNaNWinWhereverItIs) {
  const NoGrad no_grad;
  const TemporaryFolder folder;
  const std::string path = folder / "model.brim";
  Computes network([](const Tensor& x) { return max_pool2d(x, 3, {.stride = 2, .padding = 1}); });
  deploy::save_engine(path, network, zeros({1, 20, 9, 9}), {.threads = 2});
  manual_seed(3);
  std::vector<float> numbers = randn({1, 20, 9, 9}).to_vector<float>();
  for (size_t i = 0; i < numbers.size(); i += 23) numbers[i] = std::nanf("");
  for (size_t i = 5 * 81; i < 6 * 81; ++i) numbers[i] = -std::numeric_limits<float>::infinity();
  const Tensor x = Tensor::from<float>(numbers, {1, 20, 9, 9});
  const std::vector<float> expected = network(x).contiguous().to_vector<float>();
  for_each_engine(path, 1, [&](const OpenedEngine& engine) {
    expect_same(engine(x).to_vector<float>(), expected);
  });
}

/// NaN and Inf among other numbers: a unit is not finite where the network's is not.
TEST(EngineOfRecurrentLayer, KeepsWhatIsNotFiniteWhereItIs) {
  const NoGrad no_grad;
  const float infinity = std::numeric_limits<float>::infinity();
  for (const bool is_lstm : {true, false})
    for (const int64_t hidden : {5, 24}) {
      manual_seed(3);
      const TemporaryFolder folder;
      const std::string path = folder / "model.brim";
      const nn::Recurrent::Options o = {.in = 3, .hidden = hidden, .batch_first = true};
      const std::unique_ptr<nn::Module> network =
          is_lstm ? layer<nn::LSTM>(o)() : layer<nn::GRU>(o)();
      network->eval();
      deploy::save_engine(path, *network, zeros({1, 4, 3}), {.batches = {3}, .threads = 2});
      for (const float odd : {infinity, std::nanf("")}) {
        std::vector<float> numbers = randn({3, 4, 3}).to_vector<float>();
        numbers[4] = odd;  // of the first sample's second step
        const Tensor x = Tensor::from<float>(numbers, {3, 4, 3});
        const std::vector<float> expected = (*network)(x).contiguous().to_vector<float>();
        for_each_engine(path, 3, [&](const OpenedEngine& engine) {
          expect_same(engine(x).to_vector<float>(), expected);
        });
      }
    }
}

/// Behind the last pixel it is that one, and not a part of it and none of itself.
TEST(EngineOfResizing, KeepsWhatIsInfiniteAtTheEdge) {
  const NoGrad no_grad;
  const TemporaryFolder folder;
  const std::string path = folder / "model.brim";
  nn::Sequential network;
  network.push<nn::Upsample>({.scale = 2, .mode = Interpolation::bilinear});
  deploy::save_engine(path, network, zeros({1, 1, 2, 2}), {.threads = 2});
  const float infinity = std::numeric_limits<float>::infinity();
  const Tensor x = Tensor::from<float>({1, 2, 3, infinity}, {1, 1, 2, 2});
  for_each_engine(path, 1, [&](const OpenedEngine& engine) {
    expect_same(engine(x).to_vector<float>(), network(x).contiguous().to_vector<float>());
  });
}

INSTANTIATE_TEST_SUITE_P(All, EngineOfLayer, testing::ValuesIn(engine_cases()),
                         [](const auto& tested) {
                           return std::to_string(tested.index) + tested.param.name;
                         });

}  // namespace
}  // namespace brim::tests
