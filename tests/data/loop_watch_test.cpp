// What a program's own loop waits for, told to `brim doctor`: here the program is this one.
#include "data/loader/loop_watch.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include <brim/data/dataset.h>
#include <brim/data/device_loader.h>
#include <brim/diag/account.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>

#include "temporary_folder.h"

namespace brim::data {
namespace {

using diag::Accountant;
using diag::Cause;
using nlohmann::json;

constexpr int64_t kBatches = 20;  // of an epoch
constexpr int kEpochs = 4;

/// What a program does: tests that run where a loop is watched alone.
class LoopWatchProgram : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::getenv(kLoopVariable)) GTEST_SKIP() << "nothing is watched";
  }
  static void go_through(DeviceLoader& feed) {
    Tensor sum = zeros({1}, {.device = feed.devices()[0]});
    for (const Batch& batch : feed) {
      sum.add_(batch["x"].slice(0, 0, 1));
      std::this_thread::sleep_for(std::chrono::milliseconds(15));
    }
  }
  Loader loader{from_tensors({{"x", ones({2 * kBatches})}}), {.batch = 2}};
  const Device device = Device::sim(0);
};

TEST_F(LoopWatchProgram, HasAnAccountantForEachEpoch) {
  DeviceLoader feed(loader, device);
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    const Accountant own({device});
    go_through(feed);
  }
}

TEST_F(LoopWatchProgram, HasAnAccountantForTheFirstEpochAlone) {
  DeviceLoader feed(loader, device);
  {
    const Accountant own({device});
    go_through(feed);
  }
  for (int epoch = 0; epoch < kEpochs; ++epoch) go_through(feed);
}

TEST_F(LoopWatchProgram, MeasuresItsThread) {
  const Accountant own;
  DeviceLoader feed(loader, device);
  for (int epoch = 0; epoch < kEpochs; ++epoch) go_through(feed);
  EXPECT_GT(own.read().seconds[static_cast<size_t>(Cause::dispatch)], 0);  // as without a watch
}

TEST_F(LoopWatchProgram, GoesThroughALoaderAndAnotherDeviceLoaderToo) {
  DeviceLoader feed(loader, device), validation(loader, device);
  for (const Batch& batch : loader.epoch(0)) EXPECT_FALSE(batch.samples.empty());
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    go_through(feed);
    go_through(validation);
  }
}

class LoopWatch : public ::testing::Test {
 protected:
  /// Of this program, as far as the test of that name goes.
  json told(const std::string& name) const {
    const std::string self = std::filesystem::read_symlink("/proc/self/exe");
    const auto begin = std::chrono::steady_clock::now();
    const std::string command = std::string(kLoopVariable) + "='" + (folder / "loop") + "' '" +
                                self + "' --gtest_filter=LoopWatchProgram." + name + " >/dev/null";
    EXPECT_EQ(std::system(command.c_str()), 0);
    const double took =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    json loop;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
      loop = json::parse(std::ifstream(entry.path()));
    double wall = 0;
    for (const json& stretch : loop["stretches"]) {
      EXPECT_GT(stretch["wall"], 0);
      double sum = 0;
      for (const json& seconds : stretch["seconds"]) sum += seconds.get<double>();
      EXPECT_NEAR(sum, stretch["wall"], 0.05 * stretch["wall"].get<double>());
      wall += stretch["wall"].get<double>();
    }
    EXPECT_GT(wall, 0);
    EXPECT_LT(wall, took);
    return loop;
  }
  static int64_t batches(const json& loop) {
    int64_t all = 0;
    for (const json& stretch : loop["stretches"]) all += stretch["batches"].get<int64_t>();
    return all;
  }
  tests::TemporaryFolder folder;
};

TEST_F(LoopWatch, TellsAccountantsApart) {
  const json loop = told("HasAnAccountantForEachEpoch");
  EXPECT_EQ(loop["device"], "sim:0");
  EXPECT_LE(batches(loop), kEpochs * kBatches);
}

TEST_F(LoopWatch, GoesOnBehindAnAccountantsEnd) {
  const json loop = told("HasAnAccountantForTheFirstEpochAlone");
  EXPECT_EQ(loop["device"], "sim:0");
  EXPECT_GT(batches(loop), kBatches);
}

TEST_F(LoopWatch, LeavesTheProgramsNumbersAlone) {
  EXPECT_EQ(told("MeasuresItsThread")["device"], "cpu");  // it is the host's time
}

TEST_F(LoopWatch, CountsTheFirstDeviceLoadersBatches) {
  const json loop = told("GoesThroughALoaderAndAnotherDeviceLoaderToo");
  EXPECT_EQ(loop["device"], "sim:0");
  EXPECT_GT(batches(loop), kBatches);
  EXPECT_LE(batches(loop), kEpochs * kBatches);
}

}  // namespace
}  // namespace brim::data
