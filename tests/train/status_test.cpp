// What a training publishes while it runs, and what is on the board in the end.
#include <brim/train/status.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <numeric>
#include <thread>

#include "message_of.h"
#include "temporary_folder.h"
#include "train/tiny_data.h"

namespace brim::train {
namespace {

class StatusTest : public ::testing::Test {
 protected:
  StatusTest() {
    tests::write_tiny_cifar(folder / "data");
    recipe = load_recipe("tutorial-cnn");
    recipe.data = folder / "data";
    recipe.epochs = 2;
    recipe.batch = 6;
  }
  static double sum(const diag::Account& account) {
    return std::accumulate(account.seconds.begin(), account.seconds.end(), 0.0);
  }
  tests::TemporaryFolder folder;
  Recipe recipe;
};

TEST_F(StatusTest, IsWholeInTheEnd) {
  recipe.validation.fraction = 0.2;
  StatusBoard board({Device::cpu()});
  EXPECT_EQ(board.read().phase, RunPhase::starting);
  EXPECT_TRUE(std::isnan(board.read().loss));
  EXPECT_TRUE(std::isnan(board.read().images_per_s));
  const TrainResult result =
      Trainer(recipe, {.out = folder / "out", .checkpoint = {}, .board = &board}).run();
  const RunStatus status = board.read();
  EXPECT_EQ(status.phase, RunPhase::finished);
  EXPECT_EQ(status.stage, nullptr);
  EXPECT_EQ(status.step, result.steps);
  EXPECT_EQ(status.steps, result.steps);
  EXPECT_EQ(status.epochs, 2);
  EXPECT_EQ(status.images, result.images);
  EXPECT_EQ(status.loss, result.final_loss);
  EXPECT_EQ(status.learning_rate, recipe.optimizer.lr);
  EXPECT_EQ(status.checkpoints, result.checkpoints);
  EXPECT_GT(status.updated, 1.5e9);
  ASSERT_NE(status.validation, nullptr);
  EXPECT_EQ(status.validation->loss, result.validation->loss);
  EXPECT_EQ(status.validation_epoch, 1);
  ASSERT_NE(status.ops, nullptr);
  ASSERT_FALSE(result.ops.empty());
  EXPECT_EQ(status.ops->size(), result.ops.size());
  EXPECT_EQ(status.ops->at(0).name, result.ops[0].name);
  EXPECT_LT(result.ops[0].calls, result.steps);  // the step that made the plan is left out
  EXPECT_EQ(static_cast<int64_t>(result.timeline.launches.size()), result.compile.launches);
  ASSERT_EQ(status.devices.size(), 1U);
  const DeviceStatus& device = status.devices[0];
  EXPECT_GT(device.memory.peak_live, 0);
  EXPECT_NEAR(sum(device.account), device.account.wall, 1e-6);
  EXPECT_EQ(device.account.wall, result.account.wall);
  EXPECT_EQ(device.account.seconds, result.account.seconds);
  EXPECT_GT(
      device.account.fraction(diag::Cause::compute) + device.account.fraction(diag::Cause::stolen),
      0);
}

TEST_F(StatusTest, ReadersSeeARunThatGoesOn) {
  StatusBoard board({Device::cpu()});
  std::atomic<bool> done{false};
  std::thread reader([&] {
    RunStatus before = board.read();
    while (!done) {
      const RunStatus now = board.read();
      EXPECT_GE(now.step, before.step);
      EXPECT_GE(now.updated, before.updated);
      EXPECT_GE(now.devices[0].account.wall, before.devices[0].account.wall);
      EXPECT_NEAR(sum(now.devices[0].account), now.devices[0].account.wall, 1e-6);
      before = now;
    }
  });
  Trainer(recipe, {.tick_seconds = 0, .board = &board}).train();
  done = true;
  reader.join();
  EXPECT_EQ(board.read().phase, RunPhase::training) << "train() alone is not all of a run";
}

TEST_F(StatusTest, EachDeviceHasItsAccount) {
  if (Device::count(DeviceKind::sim) < 2) GTEST_SKIP() << "fewer than two virtual accelerators";
  const std::vector<Device> devices = {Device::sim(0), Device(DeviceKind::sim, 1)};
  StatusBoard board(devices);
  const TrainResult result =
      Trainer(recipe, {.devices = devices, .tick_seconds = 0, .board = &board}).run();
  const RunStatus status = board.read();
  ASSERT_EQ(status.devices.size(), 2U);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(status.devices[i].device, devices[i]);
    EXPECT_NEAR(sum(status.devices[i].account), status.devices[i].account.wall, 1e-6);
    EXPECT_GT(status.devices[i].account.fraction(diag::Cause::compute), 0);
    EXPECT_EQ(status.devices[i].account.seconds, result.accounts[i].account.seconds);
  }
}

TEST_F(StatusTest, OthersSeeWhatTheThreadIsDoing) {
  StatusBoard board({Device::cpu()});
  ASSERT_EQ(board.read().doing.size(), 1U);
  EXPECT_FALSE(board.read().doing[0].has_value());
  std::optional<diag::Doing> doing;
  TrainOptions options{.board = &board};
  options.progress = [&](const Progress&) {
    std::thread([&] { doing = board.read().doing[0]; }).join();
  };
  (void)Trainer(recipe, options).train();
  ASSERT_TRUE(doing.has_value());
  EXPECT_EQ(doing->spans, (std::vector<std::string>{"train", "progress"}));
  EXPECT_EQ(doing->cause, diag::Cause::user);
  EXPECT_GE(doing->seconds, 0);
  EXPECT_FALSE(board.read().doing[0].has_value());  // it is over
}

TEST_F(StatusTest, StagesAreTold) {
  StatusBoard board({Device::cpu()});
  const Trainer trainer(
      recipe, {.stage = [&](const char* stage, double) { EXPECT_STREQ(board.read().stage, stage); },
               .board = &board});
  board.set_stage("evaluate", 0.5);
  EXPECT_EQ(board.read().stage_fraction, 0.5);
  board.set_phase(RunPhase::training);
  EXPECT_EQ(board.read().stage, nullptr);
}

TEST_F(StatusTest, ARunThatFailsSaysSo) {
  recipe.optimizer.lr = 1e9;
  StatusBoard board({Device::cpu()});
  EXPECT_THROW(Trainer(recipe, {.board = &board}).run(), ValueError);
  EXPECT_EQ(board.read().phase, RunPhase::failed);
}

TEST_F(StatusTest, ABoardIsClearedForAnotherTraining) {
  StatusBoard board({Device::cpu()});
  (void)Trainer(recipe, {.board = &board}).run();
  ASSERT_GT(board.read().step, 0);
  board.set_stage("evaluate", 0.5);
  board.set_paused(3);
  board.clear();
  const RunStatus status = board.read();
  EXPECT_EQ(status.stage, nullptr);
  EXPECT_FALSE(status.paused);
  EXPECT_EQ(status.step, 0);
  EXPECT_EQ(status.images, 0);
  EXPECT_EQ(status.devices[0].device, Device::cpu());
  EXPECT_EQ(status.devices[0].account.wall, 0);
  EXPECT_TRUE(std::isnan(status.loss));
  EXPECT_EQ(status.validation, nullptr);
  EXPECT_EQ(status.phase, RunPhase::finished);
}

TEST_F(StatusTest, ABoardOfOtherDevicesIsRefused) {
  StatusBoard board({Device::cpu(), Device::cpu()});
  const std::string error =
      tests::message_of<ValueError>([&] { Trainer(recipe, {.board = &board}); });
  EXPECT_NE(error.find("is for 2 devices and the training has 1"), std::string::npos) << error;
}

}  // namespace
}  // namespace brim::train
