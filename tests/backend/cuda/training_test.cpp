// Training on CUDA beside training on the CPU: the tutorial's network from the same weights on the
// same pictures. 200 steps on a GPU; over the emulation, whose steps are slow, a few.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <vector>

#include <brim/brim.h>

#include "core/runtime.h"

namespace brim {
namespace {

class CudaTraining : public testing::Test {
 protected:
  void SetUp() override {
    if (Device::count(DeviceKind::cuda) == 0) GTEST_SKIP() << "no CUDA device";
    emulated_ = runtime(DeviceKind::cuda).description(0).starts_with("emulated");
    train::Recipe recipe = train::load_recipe("tutorial-cnn");
    data::Epoch epoch = train::make_loader(recipe, data::Split::train, true, 0).epoch(0);
    for (int i = 0; i < (emulated_ ? 3 : 200); ++i) {
      const data::Batch* batch = epoch.next();
      x_.push_back(batch->x.clone());
      y_.push_back(batch->y.clone());
    }
  }

  /// The loss of each step.
  std::vector<double> losses(Device device, bool compiled) const {
    manual_seed(3);
    nn::TutorialCnn net;
    net.to(device);
    optim::SGD optimizer(net.named_parameters(), {.lr = 0.001, .momentum = 0.9});
    const std::function<Tensor(const Tensor&, const Tensor&)> step = [&](const Tensor& x,
                                                                         const Tensor& y) {
      optimizer.zero_grad();
      Tensor loss = cross_entropy(net(x), y);
      loss.backward();
      optimizer.step();
      return loss;
    };
    auto replayed = compile(step);
    std::vector<double> all;
    for (size_t i = 0; i < x_.size(); ++i) {
      const Tensor x = x_[i].to(device), y = y_[i].to(device);
      all.push_back((compiled ? replayed(x, y) : step(x, y)).to(Device::cpu()).item());
    }
    return all;
  }

  std::vector<Tensor> x_, y_;
  bool emulated_ = false;
};

TEST_F(CudaTraining, LossCurvesAreTheCpus) {
  const std::vector<double> expected = losses(Device::cpu(), false);
  for (const bool compiled : {false, true}) {
    const std::vector<double> actual = losses(Device::cuda(), compiled);
    double most = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(actual[i], expected[i], 1e-3) << "step " << i << (compiled ? ", compiled" : "");
      most = std::max(most, std::abs(actual[i] - expected[i]));
    }
    std::printf("%zu steps, %s: losses differ by %.1e at most\n", expected.size(),
                compiled ? "compiled" : "eager", most);
  }
}

}  // namespace
}  // namespace brim
