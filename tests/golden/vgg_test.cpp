// VGGs against torchvision's: names and shapes of the state, logits, loss and gradient norms, all
// in evaluation, where dropout draws nothing. The weights are computed on both sides (vgg.py).
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <brim/nn/models.h>
#include <brim/ops/loss.h>

#include "golden/computed_model.h"

namespace golden {
namespace {

class GoldenVgg : public testing::TestWithParam<std::string> {};

TEST_P(GoldenVgg, IsTorchvisions) {
  const std::string& model = GetParam();
  const File golden("vgg");
  const auto net = brim::nn::make_model(model, {.classes = 10});
  load_computed(*net, golden, model);
  net->eval();
  const Tensor logits = (*net)(computed_pictures(32));
  expect_values(values(logits), golden.at(model + "/eval"), "logits", 1e-4);
  const Tensor loss = brim::cross_entropy(logits, Tensor::from(std::vector<int64_t>{3, 7}, {2}));
  expect_values(values(loss), golden.at(model + "/loss"), "loss", 1e-4);
  loss.backward();
  std::vector<double> grads;
  for (const Tensor& p : net->parameters()) grads.push_back(norm_of(p.grad()));
  expect_values(grads, golden.at(model + "/grad_norms"), "gradient norm", 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenVgg, testing::Values("vgg16", "vgg11_bn"),
                         [](const auto& model) { return model.param; });

}  // namespace
}  // namespace golden
