// Engines of the zoo and of networks: what the runtime computes is what the network computes.
#include <brim/autograd/autograd.h>
#include <brim/brim.h>
#include <brim/deploy/engine.h>
#include <gtest/gtest.h>
#include <brim_rt.hpp>

#include <functional>
#include <memory>

#include "deploy/computes.h"
#include "deploy/opened_engine.h"
#include "deploy/zoo_inputs.h"
#include "message_of.h"
#include "temporary_folder.h"

namespace brim::tests {
namespace {

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

TEST(Engine, RefusesLongSequences) {
  const TemporaryFolder folder;
  nn::GRU network({.in = 1, .hidden = 2, .batch_first = true});
  const std::string message = message_of<NotImplemented>([&] {
    deploy::save_engine(folder / "model.brim", network, randn({1, 1025, 1}));
  });
  EXPECT_NE(message.find("GRU (sequences of more than 1024 steps)"), std::string::npos) << message;
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
