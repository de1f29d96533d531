// Eager training where each step has another shape reserves little more than its tensors take.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string>

#include <brim/core/allocator.h>
#include <brim/nn/language_model.h>
#include <brim/nn/models.h>
#include <brim/ops/create.h>
#include <brim/ops/loss.h>
#include <brim/ops/shape.h>
#include <brim/optim/sgd.h>

namespace brim {
namespace {

class ChangingShapes : public ::testing::TestWithParam<const char*> {
 protected:
  using Loss = std::function<Tensor(int step)>;

  void expect_little_more(nn::Module& net, int steps, const Loss& loss) {
    optim::SGD optimizer(net.parameters(), {.lr = 0.001, .momentum = 0.9});
    Allocator& memory = Allocator::of(device);
    memory.release_cached();
    memory.reset_peak();
    for (int step = 0; step < steps; ++step) {
      optimizer.zero_grad();
      loss(step).backward();
      optimizer.step();
    }
    const MemoryStats stats = memory.stats();
    EXPECT_LE(static_cast<double>(stats.peak_reserved),
              1.15 * static_cast<double>(stats.peak_live));
    EXPECT_GT(stats.peak_live, 4 << 20);
  }
  int64_t between(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  }
  Tensor loss_of_images(nn::Module& net, int64_t n, int64_t side) const {
    return cross_entropy(net(rand({n, 3, side, side}, {.device = device})),
                         zeros({n}, {.dtype = i64, .device = device}));
  }

  const Device device{GetParam()};
  std::mt19937 random{1};
};

TEST_P(ChangingShapes, OfALanguageModel) {
  nn::TransformerLanguageModel net(
      {.vocabulary = 64, .window = 64, .dim = 32, .heads = 4, .layers = 2, .device = device});
  expect_little_more(net, 300, [&](int) {
    const int64_t n = between(1, 16), length = between(8, 64);
    const TensorOptions tokens{.dtype = i64, .device = device};
    return cross_entropy(net(zeros({n, length}, tokens)).reshape({n * length, 64}),
                         zeros({n * length}, tokens));
  });
}

TEST_P(ChangingShapes, OfBatchesOfImages) {
  const auto net = nn::make_model("tutorial-cnn", {.device = device});
  expect_little_more(*net, 200, [&](int) { return loss_of_images(*net, between(1, 96), 32); });
}

TEST_P(ChangingShapes, OfImagesOfSeveralSizes) {
  const auto net = nn::make_model("resnet18-cifar", {.device = device});
  expect_little_more(*net, 12, [&](int) {
    const int64_t n = between(2, 5);
    return loss_of_images(*net, n, 8 * between(1, 5));
  });
}

TEST_P(ChangingShapes, OfBatchesThatGrowAndShrink) {
  const auto net = nn::make_model("tutorial-cnn", {.device = device});
  expect_little_more(*net, 120, [&](int step) {
    return loss_of_images(*net, 2 + std::min(step, 120 - step), 32);
  });
}

INSTANTIATE_TEST_SUITE_P(On, ChangingShapes, ::testing::Values("cpu", "sim:0"),
                         [](const auto& test) { return std::string(test.param).substr(0, 3); });

}  // namespace
}  // namespace brim
