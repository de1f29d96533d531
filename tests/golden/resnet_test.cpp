// ResNets against torchvision's: names and shapes of the state, logits in both modes, gradient
// norms. The weights are computed on both sides; the formula is described in resnet.py.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <brim/nn/models.h>
#include <brim/ops/loss.h>

#include "golden/computed_model.h"

namespace golden {
namespace {

/// torchvision computed in f64. In f32 rounding flips a ReLU here and there, which normalisation
/// over two pictures amplifies in the gradients.
void check_resnet(const std::string& model, brim::DType dtype) {
  const int64_t size = model.ends_with("-cifar") ? 32 : 64;
  const bool exact = dtype == brim::f64;
  const double values_within = exact ? 1e-6 : 1e-4, gradients_within = exact ? 1e-6 : 1e-3;
  const File golden("resnet");
  const auto made = brim::nn::make_model(model, {.classes = 10});
  brim::nn::Module& net = *made;
  load_computed(net, golden, model);
  net.to(dtype);
  const Tensor x = computed_pictures(size).to(dtype);
  net.eval();
  expect_values(values(net(x)), golden.at(model + "/eval"), "logits in eval", values_within);
  net.train();
  const Tensor logits = net(x);
  expect_values(values(logits), golden.at(model + "/train"), "logits in training", values_within);
  const Tensor loss = brim::cross_entropy(logits, Tensor::from(std::vector<int64_t>{3, 7}, {2}));
  expect_values(values(loss), golden.at(model + "/loss"), "loss", values_within);
  loss.backward();
  std::vector<double> grads, running;
  for (const Tensor& p : net.parameters()) grads.push_back(norm_of(p.grad()));
  expect_values(grads, golden.at(model + "/grad_norms"), "gradient norm", gradients_within);
  for (const auto& [name, buffer] : net.named_buffers())
    if (name.find("running") != std::string::npos) running.push_back(norm_of(buffer));
  expect_values(running, golden.at(model + "/running_norms"), "running statistics", values_within);
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
