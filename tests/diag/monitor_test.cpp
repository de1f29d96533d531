// The monitor: the host's load as Linux counts it, means and extremes of a device's sensors, and
// time lost to lowered clocks in the account.
#include <brim/diag/monitor.h>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <brim/brim.h>

#include "diag/device_meter.h"
#include "diag/gpu_sensor.h"
#include "diag/host_load.h"

namespace brim::diag {
namespace {

TEST(HostLoad, IsWhatProcStatSays) {
  const std::vector<CoreTime> before = core_times(
      "cpu  30 0 30 140 0 0 0 0 0 0\n"
      "cpu0 10 0 10 80 0 0 0 0 0 0\n"
      "cpu1 20 0 20 50 10 0 0 0 0 0\n"
      "intr 12345 0\n");
  ASSERT_EQ(before.size(), 2u);
  EXPECT_EQ(before[0].busy, 20u);
  EXPECT_EQ(before[0].all, 100u);
  EXPECT_EQ(before[1].busy, 40u);
  const std::vector<CoreTime> after = core_times(
      "cpu  0\ncpu0 30 5 20 125 10 5 5 0 7 7\ncpu1 20 0 20 50 10 0 0 0 0 0\ncpu2 1 1 1 1\n");
  const std::vector<double> load = loads(before, after);
  ASSERT_EQ(load.size(), 2u);  // of those that both know
  EXPECT_DOUBLE_EQ(load[0], 0.45);
  EXPECT_EQ(load[1], 0);  // no time has passed
  EXPECT_TRUE(core_times("").empty());
}

TEST(HostLoad, OfThisProcess) {
  HostLoad host;
  std::atomic<int64_t> sum{0};
  for (int64_t i = 0; i < 20'000'000; ++i) sum.fetch_add(i, std::memory_order_relaxed);
  const HostReading r = host.read();
  EXPECT_GT(r.process_cores, 0);
  EXPECT_GT(r.resident, 1 << 20);
  for (const double load : r.core_load) {
    EXPECT_GE(load, 0);
    EXPECT_LE(load, 1);
  }
}

/// Says what a test wants, in the place of the kind's own sensors.
class Sensor final : public GpuSensor {
 public:
  GpuReading read(int device) override {
    GpuReading r = next;
    if (device == 1) r = {.error = "no such sensor"};
    return r;
  }
  GpuReading next;
};
Sensor& sensor() {
  static Sensor only;
  set_gpu_sensor(DeviceKind::sim, only);
  return only;
}

MonitorOptions by_hand(std::function<void(const Reading&)> sink = {}) {
  return {.period = 3600, .sink = std::move(sink)};
}

TEST(Monitor, TotalsAreOfWhatTheSinkWasTold) {
  (void)sensor();
  for (int i = 0; i < 20; ++i) {
    int told = 0;
    Monitor monitor({Device::sim(0)}, {.period = 0.01, .sink = [&](const Reading&) { ++told; }});
    std::this_thread::sleep_for(std::chrono::milliseconds(9 + i % 3));
    monitor.stop();
    const int64_t total = monitor.total().readings;
    EXPECT_GE(total, 1);
    std::this_thread::sleep_for(std::chrono::milliseconds(15));
    EXPECT_EQ(told, total);
    monitor.stop();
    EXPECT_EQ(monitor.total().readings, total);
  }
}

/// A driver that answers only when it is let go, or after half a minute.
class HangingSensor final : public GpuSensor {
 public:
  GpuReading read(int) override {
    std::unique_lock lock(mutex_);
    asked_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, std::chrono::seconds(30), [&] { return let_go_; });
    answered_ = true;
    changed_.notify_all();
    return {};
  }
  void wait_until_asked() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return asked_; });
  }
  bool has_answered() {
    const std::lock_guard lock(mutex_);
    return answered_;
  }
  void let_go() {
    std::unique_lock lock(mutex_);
    let_go_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return answered_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool asked_ = false, let_go_ = false, answered_ = false;
};

TEST(Monitor, ADriverThatHangsHoldsNobodyUp) {
  static HangingSensor hanging;
  set_gpu_sensor(DeviceKind::sim, hanging);
  std::atomic<int> taken{0};
  {
    Monitor monitor({Device::sim(0)}, {.period = 0.01, .sink = [&](const Reading&) { ++taken; }});
    hanging.wait_until_asked();
    monitor.stop();
    EXPECT_EQ(monitor.total().readings, 0);
  }
  EXPECT_FALSE(hanging.has_answered());
  hanging.let_go();
  EXPECT_EQ(taken, 0);
  set_gpu_sensor(DeviceKind::sim, sensor());
}

TEST(Monitor, KeepsMeansAndExtremes) {
  Sensor& gpu = sensor();
  int told = 0;
  Monitor monitor({Device::cpu(), Device::sim(0), Device::sim(1)},
                  by_hand([&](const Reading&) { ++told; }));
  gpu.next = {
      .utilisation = 0.5, .memory_used = 100, .temperature = 60, .power = 300, .energy = 1000};
  monitor.read_now();
  gpu.next = {.utilisation = 1,
              .tensor_active = 0.4,
              .memory_used = 50,
              .temperature = 70,
              .power = 500,
              .energy = 1250,
              .clocks_held_by = {"power cap"},
              .throttled = true};
  monitor.read_now();
  const MonitorSummary first = monitor.summary();
  EXPECT_EQ(first.readings, 2);
  EXPECT_EQ(told, 2);
  ASSERT_EQ(first.mean.gpus.size(), 2u);
  const auto& [device, r] = first.mean.gpus[0];
  EXPECT_EQ(device, Device::sim(0));
  EXPECT_DOUBLE_EQ(*r.utilisation, 0.75);
  EXPECT_DOUBLE_EQ(*r.tensor_active, 0.4);  // of those readings that have it
  EXPECT_FALSE(r.sm_active.has_value());
  EXPECT_EQ(*r.memory_used, 100);
  EXPECT_EQ(*r.temperature, 70);
  EXPECT_EQ(*r.power, 400);
  EXPECT_EQ(*r.energy, 250) << "of the stretch";
  EXPECT_EQ(r.clocks_held_by, std::vector<std::string>{"power cap"});
  EXPECT_TRUE(r.throttled);
  EXPECT_EQ(first.throttled_share[0], 0.5);
  EXPECT_EQ(first.mean.gpus[1].second.error, "no such sensor");
  gpu.next = {.utilisation = 0.1};
  monitor.read_now();
  EXPECT_DOUBLE_EQ(*monitor.summary().mean.gpus[0].second.utilisation, 0.1);
  EXPECT_EQ(monitor.summary().readings, 0);
  EXPECT_EQ(monitor.total().readings, 3);
}

TEST(Monitor, ReadsByItself) {
  std::atomic<int> told{0};
  const Monitor monitor({}, {.period = 0.01, .sink = [&](const Reading& r) {
                               EXPECT_TRUE(r.gpus.empty());
                               ++told;
                               told.notify_all();
                             }});
  for (int n = 0; n < 3; n = told) told.wait(n);
  EXPECT_GE(monitor.total().readings, 2);
  for (const double period : {0.0, -1.0, double{NAN}, double{INFINITY}})
    EXPECT_THROW(Monitor({}, {.period = period}), ValueError) << period;
}

TEST(Monitor, LoweredClocksAreChargedToTheAccount) {
  EXPECT_EQ(GpuReading().slowdown(), 0);
  const GpuReading slow = {.sm_clock = 1500, .max_sm_clock = 2000, .throttled = true};
  EXPECT_EQ(slow.slowdown(), 0.25);
  GpuReading chosen = slow;
  chosen.throttled = false;  // somebody wanted it
  EXPECT_EQ(chosen.slowdown(), 0);

  sensor().next = slow;
  DeviceMeter& meter = DeviceMeter::of(Device::sim(0));
  const Shares before = meter.start();
  Monitor monitor({Device::sim(0)}, by_hand());
  const uint64_t begin = meter.idle_since();
  meter.begin_at(begin + 1000, Cause::compute, {});
  meter.end_at(begin + 5000, Cause::compute);
  monitor.read_now();
  const Shares after = meter.read();
  meter.stop();
  const auto spent = [&](Cause c) {
    return after[static_cast<size_t>(c)] - before[static_cast<size_t>(c)];
  };
  EXPECT_EQ(spent(Cause::compute), 3000u);
  EXPECT_EQ(spent(Cause::throttle), 1000u);
}

}  // namespace
}  // namespace brim::diag
