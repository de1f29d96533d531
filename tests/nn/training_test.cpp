// Layers with state or a training mode of their own, losses, and a whole small training.
#include <gtest/gtest.h>

#include <cmath>

#include <brim/autograd/autograd.h>
#include <brim/nn/nn.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/reduce.h>
#include <brim/optim/optim.h>

namespace brim {
namespace {

TEST(Losses, WeightsMoveWithTheModule) {
  nn::CrossEntropyLoss weighted({.weight = Tensor::from<float>({1, 3}, {2})});
  EXPECT_EQ(weighted.named_buffers().size(), 1u);
  weighted.to(f64);
  const Tensor logits = Tensor::from<double>({0, 1, 0, 0}, {2, 2});
  const Tensor labels = Tensor::from<int64_t>({0, 1}, {2});
  const double first = std::log(1 + std::exp(1.0)), second = std::log(2);
  EXPECT_NEAR(weighted(logits, labels).item(), (first + 3 * second) / 4, 1e-12);
}

TEST(Training, TheTutorialNetworkLearnsABatch) {
  manual_seed(4);
  const auto net = nn::make_model("tutorial-cnn");
  const Tensor x = rand({8, 3, 32, 32}) * 2 - 1, y = randint(0, 10, {8});
  optim::SGD sgd(net->named_parameters(), {.lr = 0.05, .momentum = 0.9});
  nn::CrossEntropyLoss criterion;
  double first = 0, last = 0;
  for (int step = 0; step < 60; ++step) {
    sgd.zero_grad();
    const Tensor loss = criterion((*net)(x), y);
    loss.backward();
    sgd.step();
    last = loss.item();
    if (step == 0) first = last;
  }
  EXPECT_NEAR(first, std::log(10), 0.1);
  EXPECT_LT(last, 0.5);
}

}  // namespace
}  // namespace brim
