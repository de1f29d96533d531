// The tutorial network trained from PyTorch's initial weights on PyTorch's batches: 200 steps of 4
// and 20 of 128, eager and compiled. The weight changes must agree, per tensor, where a loss curve
// would hide a missing gradient.
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <brim/nn/models.h>
#include <brim/ops/loss.h>
#include <brim/optim/sgd.h>
#include <brim/plan/compile.h>

#include "golden/golden_file.h"
#include "golden/tutorial_batch.h"
#include "sanitized.h"

namespace golden {
namespace {

using brim::DType;
using brim::Tensor;
using Json = nlohmann::json;

struct Trained {
  std::map<std::string, std::vector<double>> change;  ///< weights after less weights before
  std::vector<double> losses;
};

enum class Mode { eager, compiled };

Trained train(const std::string& run, DType dtype, Mode mode) {
  const File start("train"), golden("train_" + run);
  const Json record = Json::parse(golden.metadata.at("run"));
  brim::StateDict weights;
  for (const auto& [key, value] : start.tensors) weights[key.substr(key.find('/') + 1)] = value;
  brim::nn::TutorialCnn net;
  net.load_state_dict(weights);
  net.to(dtype);
  brim::optim::SGD optimizer(net.named_parameters(),
                             {.lr = record.at("lr"), .momentum = record.at("momentum")});
  const auto body = [&](const Tensor& images, const Tensor& labels) {
    optimizer.zero_grad();
    const Tensor loss = brim::cross_entropy(net(images), labels);
    loss.backward();
    optimizer.step();
    return loss;
  };
  auto compiled = brim::compile(body);
  Trained result;
  for (const int64_t number : golden.at("batches").to_vector<int64_t>()) {
    auto [images, labels] = tutorial_batch(record.at("seed"), number, record.at("batch"));
    const Tensor x = images.to(dtype);
    const Tensor loss = mode == Mode::compiled ? compiled(x, labels) : body(x, labels);
    result.losses.push_back(loss.item());
  }
  for (const auto& [name, parameter] : net.named_parameters()) {
    auto after = parameter.to(brim::f64).to_vector<double>();
    const auto before = weights.at(name).to(brim::f64).to_vector<double>();
    for (size_t i = 0; i < after.size(); ++i) after[i] -= before[i];
    result.change[name] = std::move(after);
  }
  return result;
}

/// norm(change - PyTorch's change) / norm(PyTorch's change), both of float32 arithmetic.
void check_against_f32(const std::string& run, Mode mode) {
  const Trained trained = train(run, brim::f32, mode);
  const File golden("train_" + run);
  ASSERT_EQ(trained.change.size(), 10u);
  for (const auto& [name, change] : trained.change) {
    const auto expected = golden.at("change/" + name).to(brim::f64).to_vector<double>();
    ASSERT_EQ(change.size(), expected.size()) << name;
    double error = 0, size = 0;
    for (size_t i = 0; i < change.size(); ++i) {
      error += (change[i] - expected[i]) * (change[i] - expected[i]);
      size += expected[i] * expected[i];
    }
    const double distance = std::sqrt(error / size);
    EXPECT_LE(distance, 1e-4) << run << " " << name;
    testing::Test::RecordProperty(name, std::to_string(distance));
    if (std::getenv("BRIM_GOLDEN_VERBOSE"))
      std::printf("%s %-12s %.2e\n", run.c_str(), name.c_str(), distance);
  }
}

/// In float64 the losses of all steps and the changes' norms and signed sums agree far closer.
void check_against_f64(const std::string& run, Mode mode) {
  const Trained trained = train(run, brim::f64, mode);
  const File golden("train_" + run);
  const auto losses = golden.at("losses64").to_vector<double>();
  ASSERT_EQ(trained.losses.size(), losses.size());
  for (size_t i = 0; i < losses.size(); ++i)
    ASSERT_NEAR(trained.losses[i], losses[i], 1e-10) << "step " << i;
  for (const auto& [name, change] : trained.change) {
    const auto expected = golden.at("summary64/" + name).to_vector<double>();
    double squares = 0, signed_sum = 0;
    for (size_t i = 0; i < change.size(); ++i) {
      squares += change[i] * change[i];
      signed_sum += splitmix64(i) >> 63 ? -change[i] : change[i];
    }
    EXPECT_NEAR(std::sqrt(squares), expected[0], 1e-8 * expected[0]) << run << " " << name;
    EXPECT_NEAR(signed_sum, expected[1], 1e-8 * expected[0]) << run << " " << name;
  }
}

class GoldenTraining : public testing::TestWithParam<Mode> {};

TEST_P(GoldenTraining, Batch4) { check_against_f32("b4", GetParam()); }
TEST_P(GoldenTraining, Batch128) { check_against_f32("b128", GetParam()); }
TEST_P(GoldenTraining, Batch4InF64) { check_against_f64("b4", GetParam()); }
TEST_P(GoldenTraining, Batch128InF64) {
  if (BRIM_SANITIZED) GTEST_SKIP() << "the small batch takes the same ways, in a tenth of the time";
  check_against_f64("b128", GetParam());
}

INSTANTIATE_TEST_SUITE_P(Modes, GoldenTraining, testing::Values(Mode::eager, Mode::compiled),
                         [](const auto& mode) {
                           return mode.param == Mode::eager ? "eager" : "compiled";
                         });

}  // namespace
}  // namespace golden
