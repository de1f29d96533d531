// Engines with layers in 8-bit integers: what the runtime computes is what the network computes in
// integers, to the bit where nothing else is computed, on every instruction set.
#include <brim/autograd/autograd.h>
#include <brim/brim.h>
#include <brim/compress/quantize.h>
#include <brim/deploy/engine.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>

#include "deploy/altered_engine.h"
#include "deploy/counted_memory.h"
#include "deploy/opened_engine.h"
#include "deploy/zoo_inputs.h"
#include "rt/attributes.h"
#include "temporary_folder.h"

namespace brim::tests {
namespace {

struct BesideItsPool : nn::Module {
  Tensor forward(const Tensor& x) override {
    return cat({x, max_pool2d(x, 3, {.stride = 1, .padding = 1})}, 1);
  }
};

struct PlusItsConvolution : nn::Module {
  nn::Conv2d& conv = add<nn::Conv2d>("conv", {.in = 16, .out = 16, .kernel = 3, .padding = 1});
  Tensor forward(const Tensor& x) override { return x + conv(x); }
};

struct Int8Case {
  std::string name;
  std::function<void(nn::Sequential&)> build;
  Shape sample;
  double tolerance = 0;                      ///< from the network
  std::map<std::string, int64_t> operators;  ///< that are looked at
};

std::vector<Int8Case> int8_cases() {
  using nn::Conv2d;
  std::vector<Int8Case> all;
  const auto conv = [&](const std::string& name, Conv2d::Options o, int64_t h, int64_t w) {
    all.push_back({"Conv" + name,
                   [o](nn::Sequential& net) { net.push<Conv2d>(o); },
                   {o.in, h, w},
                   0,
                   {{"int8_convolution", 1}, {"quantize", 1}, {"convolution", 0}}});
  };
  conv("Plain", {.in = 5, .out = 7, .kernel = 3}, 9, 11);
  conv("OfThreeChannels", {.in = 3, .out = 16, .kernel = 7, .stride = 2, .padding = 3}, 17, 19);
  conv("Pointwise", {.in = 24, .out = 40, .kernel = 1, .bias = false}, 10, 10);
  conv("PointwiseOdd", {.in = 23, .out = 33, .kernel = 1}, 3, 5);
  conv("PointwiseOfFewPixels", {.in = 256, .out = 402, .kernel = 1}, 7, 7);  // split by outputs
  conv("PointwiseStrided", {.in = 16, .out = 80, .kernel = 1, .stride = 2}, 9, 8);
  conv("Strided", {.in = 16, .out = 64, .kernel = 3, .stride = 2, .padding = 1}, 15, 14);
  conv("Dilated", {.in = 6, .out = 20, .kernel = {3, 2}, .padding = {2, 1}, .dilation = 2}, 12, 9);
  conv("LargePadding", {.in = 2, .out = 3, .kernel = 3, .padding = 4}, 3, 2);
  conv("Many", {.in = 64, .out = 130, .kernel = 3, .padding = 1}, 7, 7);
  conv("OfOnePixel", {.in = 16, .out = 1, .kernel = 3}, 3, 3);
  conv("OfManyColourImages", {.in = 3, .out = 6, .kernel = 5}, 120, 140);
  conv("PointwiseOddOfManyPixels", {.in = 21, .out = 8, .kernel = 1}, 60, 65);
  // By Winograd's transform: where there are more tiles than channels, and fewer of them; three
  // threads share what they transform where there are few tiles.
  const auto winograd = [&](const std::string& name, Conv2d::Options o, int64_t h, int64_t w) {
    conv(name, o, h, w);
    all.back().operators = {{"int8_winograd", 1}, {"quantize", 1}, {"int8_convolution", 0}};
  };
  winograd("Padded", {.in = 32, .out = 48, .kernel = 3, .padding = 1}, 27, 28);
  winograd("OfManyTiles", {.in = 16, .out = 32, .kernel = 3, .padding = 1, .bias = false}, 31, 34);
  winograd("OfManyChannels", {.in = 80, .out = 144, .kernel = 3, .padding = {0, 2}}, 30, 26);
  winograd("OfTilesThatOneThreadOfTwoTakes", {.in = 16, .out = 32, .kernel = 3, .padding = 1}, 28,
           16);
  winograd("OfSomeMoreTiles", {.in = 80, .out = 144, .kernel = 3, .padding = {0, 2}}, 33, 30);
  // Weights whose sums are too large for it.
  all.push_back({"OfLargeWeights",
                 [](nn::Sequential& net) {
                   auto layer =
                       std::make_unique<Conv2d>(Conv2d::Options{.in = 256, .out = 16, .kernel = 3});
                   layer->weight.fill_(1);
                   net.push(std::move(layer));
                 },
                 {256, 6, 6},
                 0,
                 {{"int8_winograd", 0}, {"int8_convolution", 1}}});
  const auto linear = [&](const std::string& name, nn::Linear::Options o, const Shape& sample) {
    all.push_back({name,
                   [o](nn::Sequential& net) { net.push<nn::Linear>(o); },
                   sample,
                   0,
                   {{"int8_convolution", 1}, {"quantize", 1}, {"convolution", 0}}});
  };
  linear("Linear", {.in = 37, .out = 50}, {37});
  linear("LinearOfRows", {.in = 12, .out = 16}, {5, 12});
  linear("LinearWithoutBias", {.in = 9, .out = 3, .bias = false}, {9});
  // The first one gives integers to the second.
  all.push_back({"Chain",
                 [](nn::Sequential& net) {
                   net.push<Conv2d>({.in = 4, .out = 20, .kernel = 3, .padding = 1});
                   net.push<nn::ReLU>();
                   net.push<Conv2d>({.in = 20, .out = 6, .kernel = 3});
                 },
                 {4, 9, 8},
                 0,
                 {{"int8_convolution", 2}, {"quantize", 1}, {"unary", 0}}});
  // Depthwise ones stay in f32, and give integers.
  all.push_back({"Depthwise",
                 [](nn::Sequential& net) {
                   net.push<Conv2d>({.in = 3, .out = 21, .kernel = 3, .padding = 1});
                   net.push<Conv2d>({.in = 21, .out = 21, .kernel = 3, .padding = 1, .groups = 21});
                   net.push<nn::ReLU>();
                   net.push<Conv2d>({.in = 21, .out = 6, .kernel = 1});
                 },
                 {3, 9, 8},
                 0.02,
                 {{"int8_convolution", 2}, {"quantize", 1}, {"depthwise", 1}, {"unary", 0}}});
  all.push_back({"MaxPool",
                 [](nn::Sequential& net) {
                   net.push<Conv2d>({.in = 3, .out = 37, .kernel = 3, .padding = 1});
                   net.push<nn::MaxPool2d>({.kernel = 3, .stride = 2, .padding = 1});
                   net.push<Conv2d>({.in = 37, .out = 6, .kernel = 3});
                 },
                 {3, 9, 8},
                 0,
                 {{"int8_convolution", 2}, {"quantize", 1}, {"max_pool", 1}}});
  for (const int64_t channels : {1, 2, 3, 6, 9, 29})
    all.push_back({"MaxPoolOf" + std::to_string(channels) + "Channels",
                   [channels](nn::Sequential& net) {
                     net.push<Conv2d>({.in = 3, .out = channels, .kernel = 3, .padding = 1});
                     net.push<nn::MaxPool2d>({.kernel = {2, 3}, .stride = 2, .padding = {0, 1}});
                     net.push<Conv2d>({.in = channels, .out = 6, .kernel = 3});
                   },
                   {3, 9, 11},
                   0,
                   {{"int8_convolution", 2}, {"quantize", 1}, {"max_pool", 1}}});
  all.push_back({"Concatenated",
                 [](nn::Sequential& net) {
                   net.push<Conv2d>({.in = 3, .out = 8, .kernel = 3, .padding = 1});
                   net.push<BesideItsPool>();
                   net.push<Conv2d>({.in = 16, .out = 6, .kernel = 3});
                 },
                 {3, 9, 8},
                 0,
                 {{"int8_convolution", 2}, {"quantize", 1}, {"max_pool", 1}, {"copy", 3}}});
  all.push_back({"Flattened",
                 [](nn::Sequential& net) {
                   net.push<Conv2d>({.in = 3, .out = 5, .kernel = 3});
                   net.push<nn::Flatten>();
                   net.push<nn::Linear>({.in = 5 * 4 * 6, .out = 7});
                 },
                 {3, 6, 8},
                 0,
                 {{"int8_convolution", 2}, {"quantize", 1}}});
  all.push_back({"WinogradWithResidual",
                 [](nn::Sequential& net) {
                   net.push<Conv2d>({.in = 16, .out = 16, .kernel = 1});
                   net.push<PlusItsConvolution>();
                   net.push<nn::ReLU>();
                   net.push<Conv2d>({.in = 16, .out = 4, .kernel = 3});
                 },
                 {16, 17, 15},
                 0,
                 {{"int8_winograd", 1}, {"int8_convolution", 2}, {"binary", 0}, {"unary", 0}}});
  // Folded: rounded otherwise than the network rounds it.
  all.push_back({"BatchNorm",
                 [](nn::Sequential& net) {
                   net.push<Conv2d>({.in = 8, .out = 21, .kernel = 3, .bias = false});
                   net.push<nn::BatchNorm2d>({.features = 21});
                   net.push<nn::ReLU>();
                   net.push<Conv2d>({.in = 21, .out = 12, .kernel = 1});
                 },
                 {8, 7, 9},
                 0.02,
                 {{"int8_convolution", 2}, {"quantize", 1}, {"depthwise", 0}}});
  // Planes of colours become pixels on the way.
  for (Int8Case& tested : all)
    if (tested.sample.rank() == 3 && tested.sample[0] == 3) {
      auto entry = tested.operators.extract("quantize");
      entry.key() = "quantize_colours";
      tested.operators.insert(std::move(entry));
    }
  return all;
}

class EngineInIntegers : public testing::TestWithParam<Int8Case> {};

TEST_P(EngineInIntegers, ComputesTheSame) {
  manual_seed(5);
  const NoGrad no_grad;
  const TemporaryFolder folder;
  nn::Sequential network;
  GetParam().build(network);
  Shape shape = GetParam().sample;
  shape.insert(0, 4);
  network.train();
  (void)network(randn(shape));
  network.eval();
  const std::vector<compress::QuantizedLayer> layers =
      compress::quantize(network, [&] { (void)network(randn(shape)); }, {.only_faster = false});
  ASSERT_FALSE(compress::int8_layers(layers).empty());
  shape[0] = 1;
  const std::string path = folder / "model.brim";
  deploy::EngineSummary made = deploy::save_engine(
      path, network, Tensor::empty(shape, f32, Device::cpu()), {.batches = {1, 3}, .threads = 2});
  for (const auto& [op, count] : GetParam().operators) EXPECT_EQ(made.operators[op], count) << op;
  for (const int64_t batch : {1, 3}) {
    shape[0] = batch;
    const Tensor x = 1.5 * randn(shape), expected = network(x);
    SCOPED_TRACE("batch " + std::to_string(batch));
    for_each_engine(path, batch, [&](const OpenedEngine& engine) {
      EXPECT_LE(relative_difference(engine(x), expected), GetParam().tolerance);
    });
  }
}

/// A layer of one channel that stays in f32 rounds what it makes for the next one.
TEST(EngineInIntegersBeside, ALayerOfOneChannelMayStay) {
  const NoGrad no_grad;
  const TemporaryFolder folder;
  for (const bool has_pool : {false, true}) {
    manual_seed(1);
    nn::Sequential network;
    network.push<nn::Conv2d>({.in = 1, .out = 1, .kernel = 3, .padding = 1});
    if (has_pool) network.push<nn::MaxPool2d>({.kernel = 2});
    network.push<nn::Conv2d>({.in = 1, .out = 16, .kernel = 3, .padding = 1});
    network.eval();
    const Tensor x = randn({1, 1, 40, 64});
    (void)compress::quantize(network, [&] { (void)network(x); },
                             {.only_faster = false, .keep = {"0"}});
    const std::string path = folder / "model.brim";
    (void)deploy::save_engine(path, network, x, {.batches = {1}, .threads = 2});
    for_each_engine(path, 1, [&](const OpenedEngine& engine) {
      EXPECT_LE(relative_difference(engine(x), network(x)), 1e-5);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(All, EngineInIntegers, testing::ValuesIn(int8_cases()),
                         [](const auto& tested) { return tested.param.name; });

TEST(EngineInIntegersMemory, IsTakenBeforeItRuns) {
  manual_seed(5);
  const NoGrad no_grad;
  const TemporaryFolder folder;
  const ZooInput input = zoo_input("resnet18-cifar", false);
  const auto network = nn::make_model("cifar-resnet8");
  warm_up(*network, input);
  compress::quantize(*network, [&] { (void)(*network)(random_input(input, 4)); },
                     {.only_faster = false});
  const std::string path = folder / "model.brim";
  deploy::save_engine(path, *network, random_input(input, 1), {.batches = {4}, .threads = 2});
  CountedMemory counted;
  const brim_rt_allocator allocator = counted.allocator();
  for (const char* isa : kInstructionSets) {
    const auto engine = engine_on({.batch = 4, .own_threads = 2, .isa = isa}, path, &allocator);
    if (!engine) continue;
    const int taken = counted.taken;
    const size_t held = counted.held;
    EXPECT_GE(held, brim_rt_memory(engine->session()));
    const Tensor x = random_input(input, 4);
    for (int i = 0; i < 3; ++i) (void)(*engine)(x);
    EXPECT_EQ(counted.taken, taken) << isa;
    EXPECT_EQ(counted.held, held) << isa;
  }
  EXPECT_EQ(counted.held, 0U);
}

/// A file of a convolution in integers and a linear layer.
std::string small_engine(const TemporaryFolder& folder) {
  manual_seed(5);
  nn::Sequential network;
  network.push<nn::Conv2d>({.in = 4, .out = 16, .kernel = 2}).push<nn::ReLU>();
  network.push<nn::Flatten>().push<nn::Linear>({.in = 16 * 49, .out = 10});
  compress::quantize(network, [&] { (void)network(randn({4, 4, 8, 8})); }, {.only_faster = false});
  const std::string path = folder / "model.brim";
  deploy::save_engine(path, network, randn({1, 4, 8, 8}), {});
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(EngineInIntegersFile, SurvivesAlterations) {
  const TemporaryFolder folder;
  constexpr int kFiles = 300;
  EXPECT_GT(refused_alterations(small_engine(folder), folder / "altered.brim", kFiles), kFiles / 4);
}

TEST(EngineInIntegersFile, IsRefusedWhereWindowsCoverFarMore) {
  const TemporaryFolder folder;
  (void)small_engine(folder);
  EngineBytes file(folder / "model.brim");
  uint64_t i = 0;
  while (i < file.steps() && file.step(i).op != static_cast<uint32_t>(rt::OpCode::int8_convolution))
    ++i;
  ASSERT_LT(i, file.steps());
  auto& a = *reinterpret_cast<rt::Int8ConvolutionAttributes*>(file.words(i));
  a.windows.stride_h = a.windows.dilation_w = int64_t{1} << 15;  // 26 GB
  EXPECT_NE(refusal_of(file.bytes, folder / "altered.brim").find("do not fit"), std::string::npos);
}

/// With BRIM_ENGINE_ZOO=FOLDER the engines stay there, for other CPUs to run.
class EngineZooInIntegers : public testing::TestWithParam<std::string> {};

TEST_P(EngineZooInIntegers, ComputesTheSame) {
  const std::string& name = GetParam();
  manual_seed(7);
  const NoGrad no_grad;
  const TemporaryFolder folder;
  const ZooInput input = zoo_input(name, false);
  const auto network = nn::make_model(name, {.classes = input.classes, .input = input.shape});
  warm_up(*network, input);
  compress::quantize(*network, [&] { (void)(*network)(random_input(input, 4)); },
                     {.only_faster = false});
  const char* const kept = std::getenv("BRIM_ENGINE_ZOO");
  const std::string path = (kept ? std::string(kept) + "/" : folder / "") + name + "-int8.brim";
  deploy::EngineSummary made = deploy::save_engine(path, *network, random_input(input, 1),
                                                   {.metadata = {{"model", name}}, .threads = 2});
  EXPECT_GT(made.operators["int8_convolution"], 0);
  const Tensor x = random_input(input, 1);
  EXPECT_LT(relative_difference(OpenedEngine(path)(x), (*network)(x)), 0.02);
}

INSTANTIATE_TEST_SUITE_P(All, EngineZooInIntegers,
                         testing::Values("tutorial-cnn", "resnet18-cifar", "mlp", "unet-small",
                                         "mobilenet_v2", "transformer-small"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           for (char& c : name)
                             if (c == '-') c = '_';
                           return name;
                         });

}  // namespace
}  // namespace brim::tests
