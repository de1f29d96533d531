// Several devices that share each batch: the gradient of one, and runs that go on bit for bit.
#include <brim/autograd/autograd.h>
#include <brim/core/random.h>
#include <brim/nn/models.h>
#include <brim/ops/create.h>
#include <brim/ops/loss.h>
#include <brim/train/trainer.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "temporary_folder.h"
#include "train/replicas.h"
#include "train/tiny_data.h"

namespace brim::train {
namespace {

std::vector<Device> sims(int count) {
  std::vector<Device> devices = Device::all("sim");
  devices.resize(static_cast<size_t>(std::min<int>(count, static_cast<int>(devices.size()))));
  return devices;
}

/// A batch as a DeviceLoader hands it out.
data::Batch spread(const Tensor& x, const Tensor& y, const std::vector<Device>& devices) {
  if (devices.size() == 1) return {.x = x.to(devices[0]), .y = y.to(devices[0])};
  data::Batch batch;
  const int64_t n = y.numel(), count = static_cast<int64_t>(devices.size());
  for (int64_t k = 0, first = 0; k < count && first < n; ++k) {
    const int64_t end = first + n / count + (k < n % count);
    const Device device = devices[static_cast<size_t>(k)];
    batch.parts.push_back(
        {.x = x.slice(0, first, end).to(device), .y = y.slice(0, first, end).to(device)});
    first = end;
  }
  return batch;
}

Tensor mean_loss(nn::Module& network, const data::Batch& part) {
  return cross_entropy(network(part.x), part.y);
}

/// The loss and all gradients, after one batch on `devices`.
std::vector<float> gradients(const std::vector<Device>& devices, int64_t samples) {
  const auto make = [](Device device) {
    return nn::make_model("tutorial-cnn", {.device = device});
  };
  manual_seed(1);
  const auto network = make(devices[0]);
  Replicas replicas(*network, devices, make);
  manual_seed(2);
  const Tensor x = rand({samples, 3, 32, 32});
  Tensor y = zeros({samples}, {.dtype = i64});
  for (int64_t i = 0; i < samples; ++i) y[i].fill_(static_cast<double>(i * 7 % 10));
  const Tensor loss = replicas.forward_backward(spread(x, y, devices), mean_loss);
  EXPECT_EQ(loss.device(), devices[0]);
  std::vector<float> all = {loss.item<float>()};
  for (const Tensor& p : network->parameters()) {
    EXPECT_EQ(p.grad().device(), devices[0]);
    const std::vector<float> g = p.grad().to_vector<float>();
    all.insert(all.end(), g.begin(), g.end());
  }
  return all;
}

TEST(Replicas, GradientsAreThoseOfOneDevice) {
  if (Device::count("sim") < 2) GTEST_SKIP() << "needs two virtual accelerators";
  for (const int64_t samples : {1, 2, 5, 16}) {
    const std::vector<float> one = gradients({Device::cpu()}, samples);
    EXPECT_EQ(gradients(sims(1), samples), one) << samples;
    const std::vector<float> two = gradients(sims(2), samples);
    ASSERT_EQ(one.size(), two.size());
    for (size_t i = 0; i < one.size(); ++i)
      ASSERT_NEAR(two[i], one[i], 1e-6 + 1e-5 * std::abs(one[i])) << samples << " samples, " << i;
  }
}

/// A network of its own on each of two devices.
struct TwoDevices {
  std::vector<Device> devices = sims(2);
  std::unique_ptr<nn::Module> first = make(devices[0]);
  Replicas replicas{*first, devices, make};
  Tensor x = rand({4, 3, 32, 32}), y = zeros({4}, {.dtype = i64});

  data::Batch batch() const { return spread(x, y, devices); }
  static std::unique_ptr<nn::Module> make(Device device) {
    return nn::make_model("tutorial-cnn", {.device = device});
  }
};

TEST(Replicas, AnErrorOnAnyDeviceIsThrown) {
  if (Device::count("sim") < 2) GTEST_SKIP() << "needs two virtual accelerators";
  TwoDevices two;
  two.y[3].fill_(77);  // in the part of the second device
  const Tensor loss = two.replicas.forward_backward(two.batch(), mean_loss);
  EXPECT_THROW((void)loss.item(), IndexError);
  EXPECT_THROW(synchronize(two.devices[1]), IndexError);
}

TEST(Replicas, FrozenParametersStayFrozen) {
  if (Device::count("sim") < 2) GTEST_SKIP() << "needs two virtual accelerators";
  TwoDevices two;
  Tensor frozen = two.first->parameters()[0];
  frozen.set_requires_grad(false);
  (void)two.replicas.forward_backward(two.batch(), mean_loss);
  EXPECT_FALSE(frozen.grad().defined());
  EXPECT_TRUE(two.first->parameters()[1].grad().defined());
}

class SharedTraining : public ::testing::Test {
 protected:
  SharedTraining() {
    tests::write_tiny_cifar(folder / "data");
    recipe = load_recipe("tutorial-cnn");
    recipe.data = folder / "data";
    recipe.batch = 7;  // a part of 4 and one of 3; the last batch is smaller
    recipe.optimizer.lr = 0.01;
  }
  void SetUp() override {
    if (Device::count("sim") < 2) GTEST_SKIP() << "needs two virtual accelerators";
  }
  std::vector<float> weights_of(Trainer& trainer) {
    std::vector<float> all;
    for (const Tensor& p : trainer.model().parameters()) {
      const std::vector<float> v = p.detach().to_vector<float>();
      all.insert(all.end(), v.begin(), v.end());
    }
    return all;
  }
  tests::TemporaryFolder folder;
  Recipe recipe;
};

TEST_F(SharedTraining, OneVirtualAcceleratorEqualsTheCpuBitForBit) {
  Trainer cpu(recipe, {}), sim(recipe, {.devices = sims(1)});
  const TrainResult a = cpu.run(), b = sim.run();
  EXPECT_EQ(weights_of(cpu), weights_of(sim));
  EXPECT_EQ(a.final_loss, b.final_loss);
  ASSERT_TRUE(a.test && b.test);
  EXPECT_EQ(a.test->loss, b.test->loss);
}

TEST_F(SharedTraining, TwoDevicesLearnTheSame) {
  Trainer one(recipe, {}), two(recipe, {.devices = sims(2)});
  const TrainResult a = one.run(), b = two.run();
  EXPECT_NEAR(a.final_loss, b.final_loss, 1e-3);
  ASSERT_EQ(b.accounts.size(), 2u);
  for (const auto& [device, account, recorded] : b.accounts) {
    EXPECT_EQ(recorded, 1);
    EXPECT_EQ(device.kind, DeviceKind::sim);
    EXPECT_GT(account.fraction(diag::Cause::compute), 0) << device.str();
    EXPECT_GT(account.fraction(diag::Cause::communication), 0) << device.str();
  }
}

TEST_F(SharedTraining, ResumedRunsEndBitForBit) {
  Trainer whole(recipe, {.devices = sims(2)});
  whole.train();
  const std::string out = folder / "run";
  { Trainer(recipe, {.devices = sims(2), .max_steps = 5, .out = out}).train(); }
  Trainer rest(recipe, {.devices = sims(2), .resume = out});
  EXPECT_EQ(rest.steps_before(), 5);
  rest.train();
  EXPECT_EQ(weights_of(whole), weights_of(rest));
}

TEST_F(SharedTraining, NoDeviceIsAnError) {
  EXPECT_THROW(Trainer(recipe, {.devices = {}}), ValueError);
}

}  // namespace
}  // namespace brim::train
