// ResNets against torchvision's: names and shapes of the state, logits in both modes, gradient
// norms. The weights are computed on both sides; the formula is described in resnet.py.
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <brim/nn/models.h>
#include <brim/ops/loss.h>

#include "golden/golden_file.h"
#include "golden/tutorial_batch.h"

namespace golden {
namespace {

using brim::Tensor;
using Json = nlohmann::json;

constexpr uint64_t kPictures = 1000;

/// (u(number, i) - shift) * scale in float64, rounded to float32.
Tensor computed(uint64_t number, const brim::Shape& shape, double shift, double scale) {
  std::vector<float> values(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < values.size(); ++i) {
    const double u = static_cast<double>(splitmix64((number << 32) + i) >> 40) / (1 << 24);
    values[i] = static_cast<float>((u - shift) * scale);
  }
  return Tensor::from(values, shape);
}

Tensor computed_weight(uint64_t number, const std::string& name, const brim::Shape& shape) {
  if (shape.rank() > 1)
    return computed(
        number, shape, 0.5,
        std::sqrt(24.0 * static_cast<double>(shape[0]) / static_cast<double>(shape.numel())));
  const bool norm =
      name.find("bn") != std::string::npos || name.find("downsample.1") != std::string::npos;
  if (name.ends_with("running_var") || (norm && name.ends_with("weight")))
    return computed(number, shape, -0.5, 1);
  return computed(number, shape, 0.5, 0.2);
}

void expect_near(const std::vector<double>& got, const Tensor& golden, const std::string& what,
                 double tolerance) {
  const auto expected = golden.to_vector<double>();
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i])))
        << what << " " << i;
}

std::vector<double> values(const Tensor& x) { return x.to(brim::f64).to_vector<double>(); }

double norm_of(const Tensor& x) {
  double sum = 0;
  for (const double v : values(x)) sum += v * v;
  return std::sqrt(sum);
}

/// torchvision computed in f64. In f32 rounding flips a ReLU here and there, which normalisation
/// over two pictures amplifies in the gradients.
void check_resnet(const std::string& model, brim::DType dtype) {
  const int64_t size = model.ends_with("-cifar") ? 32 : 64;
  const bool exact = dtype == brim::f64;
  const double values_within = exact ? 1e-6 : 1e-4, gradients_within = exact ? 1e-6 : 1e-3;
  const File golden("resnet");
  const auto made = brim::nn::make_model(model, {.classes = 10});
  brim::nn::Module& net = *made;
  const Json names = Json::parse(golden.metadata.at("state/" + model));
  brim::StateDict state = net.state_dict();
  ASSERT_EQ(state.size(), names.size());
  uint64_t number = 0;
  for (const Json& entry : names) {
    const std::string name = entry[0];
    const auto shape = entry[1].get<std::vector<int64_t>>();
    ASSERT_TRUE(state.contains(name)) << name;
    ASSERT_EQ(state[name].shape(), brim::Shape(std::span(shape))) << name;
    if (state[name].dtype() == brim::f32)
      state[name] = computed_weight(number, name, state[name].shape());
    ++number;
  }
  net.load_state_dict(state);
  net.to(dtype);
  const Tensor x = computed(kPictures, {2, 3, size, size}, 0.5, 4).to(dtype);
  net.eval();
  expect_near(values(net(x)), golden.at(model + "/eval"), "logits in eval", values_within);
  net.train();
  const Tensor logits = net(x);
  expect_near(values(logits), golden.at(model + "/train"), "logits in training", values_within);
  const Tensor loss = brim::cross_entropy(logits, Tensor::from(std::vector<int64_t>{3, 7}, {2}));
  expect_near(values(loss), golden.at(model + "/loss"), "loss", values_within);
  loss.backward();
  std::vector<double> grads, running;
  for (const Tensor& p : net.parameters()) grads.push_back(norm_of(p.grad()));
  expect_near(grads, golden.at(model + "/grad_norms"), "gradient norm", gradients_within);
  for (const auto& [name, buffer] : net.named_buffers())
    if (name.find("running") != std::string::npos) running.push_back(norm_of(buffer));
  expect_near(running, golden.at(model + "/running_norms"), "running statistics", values_within);
}

class GoldenResNet : public testing::TestWithParam<brim::DType> {};

TEST_P(GoldenResNet, ImageNetStem) { check_resnet("resnet18", GetParam()); }
TEST_P(GoldenResNet, SmallStem) { check_resnet("resnet18-cifar", GetParam()); }
INSTANTIATE_TEST_SUITE_P(DTypes, GoldenResNet, testing::Values(brim::f32, brim::f64),
                         [](const auto& dtype) { return std::string(brim::name(dtype.param)); });

// In f64 alone: fifty layers of f32 roundings are no longer told from an error by a tolerance.
TEST(GoldenResNet50, Bottlenecks) { check_resnet("resnet50", brim::f64); }

}  // namespace
}  // namespace golden
