// Engines of layers and of the zoo: what the runtime computes is what the network computes.
#include <brim/autograd/autograd.h>
#include <brim/brim.h>
#include <brim/deploy/engine.h>
#include <gtest/gtest.h>
#include <brim_rt.hpp>

#include <functional>
#include <memory>

#include "deploy/opened_engine.h"
#include "deploy/zoo_inputs.h"
#include "message_of.h"
#include "temporary_folder.h"

namespace brim::tests {
namespace {

/// What a function computes, as a network.
class Computes : public nn::Module {
 public:
  explicit Computes(std::function<Tensor(const Tensor&)> f) : f_(std::move(f)) {}
  Tensor forward(const Tensor& x) override { return f_(x); }

 private:
  std::function<Tensor(const Tensor&)> f_;
};

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

INSTANTIATE_TEST_SUITE_P(All, EngineOfLayer, testing::ValuesIn(engine_cases()),
                         [](const auto& tested) {
                           return std::to_string(tested.index) + tested.param.name;
                         });

/// With BRIM_ENGINE_ZOO=FOLDER the engines stay there, for other CPUs to run.
class EngineZoo : public testing::TestWithParam<std::string> {};

TEST_P(EngineZoo, ComputesTheSame) {
  const std::string& name = GetParam();
  if (is_large_network(name)) GTEST_SKIP() << "hundreds of megabytes";
  manual_seed(7);
  const TemporaryFolder folder;
  const ZooInput input = zoo_input(name, false);
  const auto network = nn::make_model(name, {.classes = input.classes, .input = input.shape});
  warm_up(*network, input);
  const char* const kept = std::getenv("BRIM_ENGINE_ZOO");
  const std::string path = (kept ? std::string(kept) + "/" : folder / "") + name + ".brim";
  const deploy::EngineSummary made = deploy::save_engine(
      path, *network, random_input(input, 1), {.metadata = {{"model", name}}, .threads = 2});
  EXPECT_EQ(made.bytes, static_cast<int64_t>(std::filesystem::file_size(path)));
  EXPECT_FALSE(made.operators.contains("batch_norm"));
  const NoGrad no_grad;
  const Tensor x = random_input(input, 1);
  EXPECT_LT(relative_difference(OpenedEngine(path)(x), (*network)(x)), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(All, EngineZoo, testing::ValuesIn(nn::model_names()),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           for (char& c : name)
                             if (c == '-') c = '_';
                           return name;
                         });

TEST(Engine, FoldsAndJoinsWhatLayersAreFollowedBy) {
  manual_seed(1);
  const TemporaryFolder folder;
  const auto network = nn::make_model("resnet18-cifar");
  warm_up(*network, zoo_input("resnet18-cifar", false));
  deploy::EngineSummary made =
      deploy::save_engine(folder / "model.brim", *network, randn({1, 3, 32, 32}), {.threads = 1});
  // 20 convolutions, the last layer, and nothing of batch norm, ReLU and sums.
  EXPECT_EQ(made.operators["convolution"] + made.operators["winograd"], 21);
  EXPECT_EQ(made.operators.at("average_pool"), 1);
  EXPECT_EQ(made.operators.at("copy"), 1);
  EXPECT_EQ(made.steps, 23);
}

/// What `f` computes, by an engine and by itself.
void expect_same(const std::function<Tensor(const Tensor&)>& f, const Shape& sample) {
  const TemporaryFolder folder;
  Computes network(f);
  Shape shape = sample;
  shape.insert(0, 1);
  const Tensor x = randn(shape);
  deploy::save_engine(folder / "model.brim", network, x, {.threads = 1});
  EXPECT_LT(relative_difference(OpenedEngine(folder / "model.brim")(x), f(x)), 1e-5);
}

TEST(Engine, JoinsNothingToProductsOfManyMatrices) {
  manual_seed(2);
  const Tensor w = randn({3, 4, 4});
  expect_same([&](const Tensor& x) { return relu(matmul(x, w)); }, {3, 5, 4});
  expect_same([&](const Tensor& x) { return matmul(x, w) + x; }, {3, 4, 4});
}

TEST(Engine, HasOutputsThatAreViewsOfEachOther) {
  manual_seed(2);
  const TemporaryFolder folder;
  nn::Conv2d network({.in = 2, .out = 3, .kernel = 3});
  network.eval();
  const deploy::EngineForward forward = [&](std::span<const Tensor> x) {
    const Tensor y = network(x[0]);
    return std::vector<Tensor>{y, y.reshape({y.shape()[0], -1}), y};
  };
  const deploy::EngineSummary made =
      deploy::save_engine(folder / "model.brim", network, forward, {randn({1, 2, 5, 5})},
                          {.outputs = {"a", "b", "c"}, .threads = 1});
  EXPECT_LT(made.difference, 1e-5);
}

TEST(Engine, IsMadeInScopesOfOtherDevices) {
  manual_seed(2);
  const TemporaryFolder folder;
  const auto network = nn::make_model("tutorial-cnn");
  network->eval();
  const Tensor x = randn({1, 3, 32, 32});
  const DeviceScope scope("sim:0");
  deploy::save_engine(folder / "model.brim", *network, x, {.threads = 1});
  EXPECT_TRUE(std::filesystem::exists(folder / "model.brim"));
}

TEST(Engine, SaysWhichInputsItCannotTake) {
  const TemporaryFolder folder;
  Computes flat([](const Tensor& x) { return x.reshape({x.shape()[0], -1}); });
  EXPECT_NE(message_of<NotImplemented>([&] {
              deploy::save_engine(folder / "a.brim", flat, randn({1, 1, 1, 1, 1, 1, 1, 4}));
            }).find("more than 6 axes"),
            std::string::npos);
  EXPECT_NE(message_of<NotImplemented>([&] {
              deploy::save_engine(folder / "a.brim", flat, randn({1, 4}).to(f16));
            }).find("an input of f16"),
            std::string::npos);
}

TEST(Engine, ListsAllThatItCannotHold) {
  const TemporaryFolder folder;
  nn::Sequential network;
  network.push<nn::Linear>({.in = 4, .out = 4});
  network.push(std::make_unique<Computes>([](const Tensor& x) { return cumsum(x, 1); }));
  network.push(std::make_unique<Computes>([](const Tensor& x) { return sin(x) + cumsum(x, 1); }));
  const std::string path = folder / "model.brim";
  const std::string message = message_of<NotImplemented>([&] {
    deploy::save_engine(path, network, randn({1, 4}));
  });
  EXPECT_NE(message.find("CumSum in 1, 2"), std::string::npos) << message;
  EXPECT_NE(message.find("Sin in 2"), std::string::npos) << message;
  EXPECT_NE(message.find("--onnx"), std::string::npos) << message;
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Engine, RefusesBatchesWhoseSamplesMix) {
  const TemporaryFolder folder;
  Computes network([](const Tensor& x) { return x - x.slice(0, 0, 1); });
  const std::string path = folder / "model.brim";
  const std::string message = message_of<ValueError>([&] {
    deploy::save_engine(path, network, randn({1, 4}), {.batches = {2}});
  });
  EXPECT_NE(message.find("differs where a sample is in a batch"), std::string::npos) << message;
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Engine, KeepsNaN) {
  manual_seed(2);
  const TemporaryFolder folder;
  nn::Sequential network;
  network.push<nn::Conv2d>({.in = 3, .out = 20, .kernel = 3, .padding = 1}).push<nn::ReLU>();
  network.push(std::make_unique<Computes>([](const Tensor& x) { return max_pool2d(x, 2); }));
  network.eval();
  deploy::save_engine(folder / "model.brim", network, randn({1, 3, 8, 8}), {.threads = 1});
  Tensor x = randn({1, 3, 8, 8});
  x.slice(2, 3, 4).fill_(std::numeric_limits<double>::quiet_NaN());
  const std::vector<float> expected = network(x).detach().contiguous().to_vector<float>();
  for (const char* isa : kInstructionSets) {
    const auto engine = engine_on({.own_threads = 1, .isa = isa}, folder / "model.brim");
    if (!engine) continue;
    const std::vector<float> found = (*engine)(x).to_vector<float>();
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_EQ(std::isnan(found[i]), std::isnan(expected[i])) << isa << " " << i;
  }
}

TEST(Engine, RefusesWeightsThatAreNoNumbers) {
  const TemporaryFolder folder;
  nn::Linear network({.in = 2, .out = 2});
  {
    const NoGrad no_grad;
    network.weight.fill_(std::numeric_limits<double>::quiet_NaN());
  }
  EXPECT_NE(message_of<ValueError>([&] {
              deploy::save_engine(folder / "model.brim", network, randn({1, 2}));
            }).find("NaN or infinite"),
            std::string::npos);
}

TEST(Engine, LabelsChannelsOfMasks) {
  const TemporaryFolder folder;
  nn::Conv2d network({.in = 3, .out = 2, .kernel = 1});
  const Tensor example = randn({1, 3, 4, 5});
  const std::string path = folder / "model.brim";
  deploy::save_engine(path, network, example, {.labels = {"sky", "road"}});
  EXPECT_EQ(brim_rt::Model(path).label(1), "road");
  EXPECT_NE(message_of<ValueError>([&] {
              deploy::save_engine(path, network, example, {.labels = {"a", "b", "c", "d", "e"}});
            }).find("5 labels for 2 outputs"),
            std::string::npos);
}

TEST(Engine, ChecksItsOptions) {
  nn::Linear network({.in = 2, .out = 2});
  const auto refused = [&](const deploy::EngineOptions& o) {
    return message_of<ValueError>([&] {
      deploy::save_engine("unwritten.brim", network, randn({1, 2}), o);
    });
  };
  EXPECT_NE(refused({.batches = {}}).find("no size of a batch"), std::string::npos);
  EXPECT_NE(refused({.batches = {0}}).find("a batch of 0"), std::string::npos);
  EXPECT_NE(refused({.batches = {2, 2}}).find("each once"), std::string::npos);
  EXPECT_NE(refused({.inputs = {"a", "b"}}).find("2 names for 1 inputs"), std::string::npos);
  EXPECT_NE(refused({.labels = {"a"}}).find("1 labels for 2 outputs"), std::string::npos);
  EXPECT_NE(refused({.proof_samples = 0}).find("0 samples as proof"), std::string::npos);
  EXPECT_NE(refused({.tolerance = 2}).find("a tolerance of 2"), std::string::npos);
}

}  // namespace
}  // namespace brim::tests
