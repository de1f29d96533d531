// DeviceScope: where tensors and parameters are made that name no device.
#include <gtest/gtest.h>

#include <thread>

#include <brim/autograd/autograd.h>
#include <brim/data/dataset.h>
#include <brim/data/loader.h>
#include <brim/dist/process_group.h>
#include <brim/nn/linear.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/optim/sgd.h>
#include <brim/plan/compile.h>

#include "message_of.h"

namespace brim {
namespace {

using tests::message_of;

const Device kFirst = Device::sim(0), kSecond = Device::sim(1);

TEST(DeviceScope, CreationOpsUseItsDevice) {
  const DeviceScope scope(kFirst);
  EXPECT_EQ(default_device(), kFirst);
  EXPECT_EQ(zeros({2}).device(), kFirst);
  EXPECT_EQ(ones({2}, {.dtype = f64}).device(), kFirst);
  EXPECT_EQ(full({2}, 3).device(), kFirst);
  EXPECT_EQ(empty({2}).device(), kFirst);
  EXPECT_EQ(Tensor::empty({2}).device(), kFirst);
  EXPECT_EQ(arange(3).device(), kFirst);
  EXPECT_EQ(arange(0, 3).dtype(), i64);
  EXPECT_EQ(linspace(0, 1, 3).device(), kFirst);
  EXPECT_EQ(eye(2).device(), kFirst);
  EXPECT_EQ(rand({2}).device(), kFirst);
  EXPECT_EQ(randn({2}).device(), kFirst);
  EXPECT_EQ(randint(0, 3, {2}).device(), kFirst);
  EXPECT_EQ(randperm(3).device(), kFirst);
  EXPECT_EQ(Tensor::from({1.f, 2.f}, {2}).device(), kFirst);
  EXPECT_EQ(Tensor::from(std::vector<bool>{true, false}, {2}).device(), kFirst);
}

TEST(Creators, KeepTheirDTypeWhereOnlyADeviceIsGiven) {
  for (const Tensor& t :
       {arange(3, {.device = kFirst}), arange(0, 6, 2, {.device = kFirst}),
        randint(0, 3, {2}, {.device = kFirst}), randperm(3, {.device = kFirst})}) {
    EXPECT_EQ(t.dtype(), i64);
    EXPECT_EQ(t.device(), kFirst);
  }
  EXPECT_EQ(arange(3.0, {.device = kFirst}).dtype(), f32);
  EXPECT_EQ(arange(0, 1, 0.5, {.device = kFirst}).dtype(), f32);
  EXPECT_EQ(arange(3, {.dtype = f64}).dtype(), f64);
  EXPECT_EQ(randperm(3, {.dtype = i32}).dtype(), i32);
  const TensorOptions options{.device = kFirst};  // has a dtype, f32, which holds
  EXPECT_EQ(arange(3, options).dtype(), f32);
  EXPECT_EQ(randint(0, 3, {2}, options).dtype(), f32);
}

TEST(DeviceScope, NestsAndEnds) {
  EXPECT_EQ(default_device(), Device::cpu());
  {
    const DeviceScope outer(kFirst);
    {
      const DeviceScope inner(kSecond);
      EXPECT_EQ(zeros({2}).device(), kSecond);
      const DeviceScope innermost(Device::cpu());
      EXPECT_EQ(zeros({2}).device(), Device::cpu());
    }
    EXPECT_EQ(zeros({2}).device(), kFirst);
  }
  EXPECT_EQ(zeros({2}).device(), Device::cpu());
}

TEST(DeviceScope, ADeviceThatIsNamedWins) {
  const DeviceScope scope(kFirst);
  EXPECT_EQ(zeros({2}, {.device = kSecond}).device(), kSecond);
  EXPECT_EQ(Tensor::from({1.f}, {1}, Device::cpu()).device(), Device::cpu());
  const Tensor x = ones({2}, {.device = kSecond});
  EXPECT_EQ(zeros_like(x).device(), kSecond);
  EXPECT_EQ((x + 1).device(), kSecond);
}

TEST(DeviceScope, IsOfItsThread) {
  const DeviceScope scope(kFirst);
  Device other = kFirst;
  std::thread([&] { other = default_device(); }).join();
  EXPECT_EQ(other, Device::cpu());
}

TEST(DeviceScope, ThreadsOfRanksHaveIt) {
  const std::vector<dist::GroupPtr> groups = dist::local_groups(2);
  const DeviceScope scope(kFirst);
  std::vector<Device> seen(2);
  dist::run_ranks(groups, [&](dist::ProcessGroup& group) {
    seen[static_cast<size_t>(group.rank())] = default_device();
  });
  EXPECT_EQ(seen, std::vector<Device>(2, kFirst));
}

TEST(DeviceScope, ModulesAndOptimizersTrainThere) {
  const DeviceScope scope(kFirst);
  nn::Linear layer({.in = 3, .out = 1});
  EXPECT_EQ(layer.weight.device(), kFirst);
  optim::SGD optimizer(layer.named_parameters(), {.lr = 0.1, .momentum = 0.9});
  const double before = layer.weight.cpu().sum().item();
  layer(ones({2, 3})).sum().backward();
  optimizer.step();
  EXPECT_LT(layer.weight.cpu().sum().item(), before);
  // What is kept of them is where it was: parameters there, numbers on the host.
  const StateDict state = optimizer.state_dict();
  EXPECT_EQ(state.at("group.0.lr").device(), Device::cpu());
  EXPECT_EQ(state.at("state.weight.momentum_buffer").device(), kFirst);
  optimizer.load_state_dict(state);
}

TEST(DeviceScope, GradientsOfOtherDevicesStayThere) {
  const DeviceScope scope(kFirst);
  const Tensor x = ones({3}, {.device = kSecond, .requires_grad = true});
  (x * 2).sum().backward();
  EXPECT_EQ(x.grad().device(), kSecond);
}

TEST(DeviceScope, PlansAreOfTheScopeTheyAreCalledIn) {
  auto step = compile([] { return zeros({2}) + 1; });
  EXPECT_EQ(step().device(), Device::cpu());
  const DeviceScope scope(kFirst);
  EXPECT_EQ(step().device(), kFirst);
  EXPECT_EQ(step().device(), kFirst);
  EXPECT_EQ(step.stats().plans, 2);
}

struct PlainNumbers final : data::Dataset {
  int64_t size() const override { return 8; }
  void get(int64_t i, data::Sample& out) const override {
    out.set("x", Tensor::from({static_cast<float>(i), 1.f}, {2}));
  }
};

TEST(DeviceScope, LoadersMakeSamplesOnTheHost) {
  const DeviceScope scope(kFirst);
  for (const int workers : {0, 2}) {
    const data::Loader loader(std::make_shared<PlainNumbers>(), {.batch = 4, .workers = workers});
    for (const data::Batch& batch : loader) EXPECT_EQ(batch.x.device(), Device::cpu());
  }
}

TEST(DeviceScope, SaysWhichDeviceThereIsNot) {
  const std::string message = message_of<DeviceError>([] { const DeviceScope scope("sim:99"); });
  EXPECT_NE(message.find("sim:99 is not available"), std::string::npos) << message;
  EXPECT_EQ(default_device(), Device::cpu());
}

}  // namespace
}  // namespace brim
