// Pauses for heat: when they begin and end, what is told, and where their time goes.
#include <brim/train/heat_guard.h>
#include <brim/train/status.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "temporary_folder.h"
#include "train/run_folder.h"
#include "train/tiny_data.h"

namespace brim::train {
namespace {

using namespace std::chrono_literals;

diag::Reading reading(std::optional<double> temperature, std::string error = {}) {
  diag::Reading r;
  r.gpus.emplace_back(Device::sim(0),
                      diag::GpuReading{.temperature = temperature, .error = std::move(error)});
  return r;
}

/// Waits in a thread of its own.
class Waiter {
 public:
  explicit Waiter(HeatGuard& guard)
      : thread_([this, &guard] {
          guard.wait({.stop = [this] { return stop.load(); },
                      .paused = [this](double seconds) { so_far = seconds; },
                      .warn = [this](const std::string& line) { lines.push_back(line); }});
          ended = true;
        }) {}
  void join() { thread_.join(); }

  std::atomic<bool> stop{false}, ended{false};
  std::atomic<double> so_far{-1};
  std::vector<std::string> lines;  // once it has ended

 private:
  std::thread thread_;
};

TEST(HeatGuard, PausesFromTheLimitUntilThreeDegreesBelow) {
  HeatGuard guard({.limit = 80});
  EXPECT_FALSE(guard.calls());
  guard.add(reading(79.9));
  EXPECT_FALSE(guard.calls());
  guard.add(reading(81));
  EXPECT_TRUE(guard.calls());
  Waiter waiter(guard);
  while (waiter.so_far < 0) std::this_thread::sleep_for(1ms);
  guard.add(reading(77.1));
  std::this_thread::sleep_for(100ms);
  EXPECT_FALSE(waiter.ended) << "not three degrees yet";
  guard.add(reading(77));
  waiter.join();
  EXPECT_EQ(guard.pauses(), 1);
  EXPECT_GE(guard.seconds(), 0.1);
  ASSERT_EQ(waiter.lines.size(), 2U);
  EXPECT_EQ(waiter.lines[0], "sim:0 is at 81 C (HeatGuardOptions::limit=80): paused");
  EXPECT_TRUE(waiter.lines[1].starts_with("sim:0 is at 77 C: going on after")) << waiter.lines[1];
  EXPECT_FALSE(guard.calls());
  guard.add(reading(79));
  EXPECT_FALSE(guard.calls());
}

TEST(HeatGuard, AStopEndsAPauseAndBeginsNone) {
  HeatGuard guard({.limit = 80});
  guard.add(reading(90));
  Waiter waiter(guard);
  while (waiter.so_far < 0) std::this_thread::sleep_for(1ms);
  waiter.stop = true;
  waiter.join();
  EXPECT_EQ(guard.pauses(), 1);
  guard.wait({.stop = [] { return true; }, .paused = {}, .warn = {}});
  EXPECT_EQ(guard.pauses(), 1);
}

TEST(HeatGuard, ASensorThatNoLongerAnswersIsToldOnceAndNotWaitedFor) {
  HeatGuard guard({.limit = 80});
  guard.add(reading(90));
  Waiter waiter(guard);
  while (waiter.so_far < 0) std::this_thread::sleep_for(1ms);
  guard.add(reading({}, "GPU is lost"));
  waiter.join();
  ASSERT_GE(waiter.lines.size(), 2U);
  EXPECT_NE(waiter.lines[1].find("sim:0 no longer tells its temperature (GPU is lost)"),
            std::string::npos)
      << waiter.lines[1];
  guard.add(reading({}, "GPU is lost"));
  EXPECT_FALSE(guard.calls()) << "it was told";
  guard.add(reading(90));
  EXPECT_TRUE(guard.calls()) << "it answers again";
}

TEST(HeatGuard, WhatHasNoSuchSensorIsNoMatter) {
  HeatGuard guard({.limit = 80});
  guard.add(reading({}));
  EXPECT_FALSE(guard.calls());
  for (const double limit : {0.0, -5.0, 1000.0, double{NAN}})
    EXPECT_THROW(HeatGuard({.limit = limit}), ValueError) << limit;
}

class HeatOfTraining : public ::testing::Test {
 protected:
  HeatOfTraining() {
    tests::write_tiny_cifar(folder / "data");
    recipe = load_recipe("tutorial-cnn");
    recipe.data = folder / "data";
    recipe.epochs = 1;
    recipe.batch = 6;
  }
  TrainOptions options() {
    return {.devices = {device},
            .out = folder / "out",
            .checkpoint = {},
            .first_step = [this] { guard.add(reading(90)); },
            .board = &board,
            .heat = &guard,
            .warn = [](const std::string&) {},
            .stop = &stop};
  }
  void wait_for_pause() const {
    while (!board.read().paused) std::this_thread::sleep_for(1ms);
  }
  const Device device = Device::sim(0);
  tests::TemporaryFolder folder;
  Recipe recipe;
  StatusBoard board{{device}};
  HeatGuard guard{{.limit = 80}};
  std::atomic<int> stop{0};
};

TEST_F(HeatOfTraining, ItsTimeIsThrottle) {
  std::thread cooler([this] {
    wait_for_pause();
    EXPECT_EQ(board.read().step, 0) << "nothing is published but the pause";
    std::this_thread::sleep_for(300ms);
    guard.add(reading(60));
  });
  const TrainResult result = Trainer(recipe, options()).train();
  cooler.join();
  EXPECT_EQ(result.steps, 10);
  EXPECT_EQ(result.heat_pauses, 1);
  EXPECT_GE(result.heat_seconds, 0.3);
  EXPECT_FALSE(board.read().paused);
  const double charged = result.account.seconds[static_cast<size_t>(diag::Cause::throttle)];
  EXPECT_GE(charged, 0.5 * result.heat_seconds) << result.account.table();
  EXPECT_LE(charged, 1.5 * result.heat_seconds + 0.1) << result.account.table();
}

TEST_F(HeatOfTraining, AStopEndsItWithItsCheckpoint) {
  std::thread stopper([this] {
    wait_for_pause();
    stop = 15;
  });
  const TrainResult result = Trainer(recipe, options()).train();
  stopper.join();
  EXPECT_TRUE(result.stopped);
  EXPECT_EQ(result.steps, 1);
  EXPECT_EQ(list_checkpoints(folder / "out").size(), 1U);
}

/// Longer than the groups wait for a rank: nobody takes the one that cools down for dead.
TEST_F(HeatOfTraining, RanksPauseTogether) {
  StatusBoard boards[] = {StatusBoard{{Device::cpu()}}, StatusBoard{{Device::cpu()}}};
  std::thread cooler([&] {
    for (const StatusBoard& one : boards)
      while (!one.read().paused) std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(2500ms);
    guard.add(reading(60));
  });
  TrainResult results[2];
  dist::run_ranks(dist::local_groups(2, {.timeout = 1}), [&](dist::ProcessGroup& group) {
    const bool is_hot = group.rank() == 1;
    TrainOptions o = options();
    o.devices = {Device::cpu()};
    o.out.clear();
    o.group = group.shared_from_this();
    o.board = &boards[group.rank()];
    o.heat = is_hot ? &guard : nullptr;
    if (!is_hot) o.first_step = nullptr;
    results[group.rank()] = Trainer(recipe, std::move(o)).train();
  });
  cooler.join();
  EXPECT_EQ(results[0].steps, results[1].steps);
  EXPECT_FALSE(results[0].stopped);
  for (const TrainResult& result : results) {
    EXPECT_EQ(result.heat_pauses, 1);
    EXPECT_GE(result.heat_seconds, 2.5);
  }
  for (const TrainResult& result : results)
    EXPECT_GE(result.account.seconds[static_cast<size_t>(diag::Cause::throttle)], 2);
}

}  // namespace
}  // namespace brim::train
