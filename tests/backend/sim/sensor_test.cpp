// The sensors of virtual accelerators: sums that are right however rarely they are read.
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <thread>

#include <brim/brim.h>

#include "backend/sim/sim_fixture.h"
#include "diag/gpu_sensor.h"

namespace brim::sim {
namespace {

using Clock = std::chrono::steady_clock;

class SimSensors : public SimTest {
 protected:
  static diag::GpuReading read(int device = 0) {
    return diag::gpu_sensor(DeviceKind::sim)->read(device);
  }
  /// Kernels that are paced, one after the other, and waited for.
  static void compute(int kernels) {
    Tensor x = ones({16}, {.device = Device::sim(0)});
    for (int i = 1; i < kernels; ++i) x.add_(1.0);  // ones() was the first
    synchronize(Device::sim(0));
  }
  static void sleep(double seconds) {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  }
};

TEST_F(SimSensors, EnergyIsTheIntegralHoweverRarelyItIsRead) {
  for (const double slowdown : {1.0, 10.0}) {
    use_profile("kernel_us = " + std::to_string(20000 / slowdown), slowdown);
    compute(1);  // memory and streams are there
    const double before = read().energy.value();
    const auto begin = Clock::now();
    compute(5);
    sleep(0.1);
    const diag::GpuReading r = read();
    const double passed = std::chrono::duration<double>(Clock::now() - begin).count();
    // 10 watts, and 90 more for five kernels of 20 ms, of a device that is so much faster.
    const double expected = (10 * passed + 90 * 0.1) / slowdown;
    EXPECT_NEAR(*r.energy - before, expected, 0.3 * expected) << slowdown;
    EXPECT_NEAR(*r.utilisation, 0.1 / passed, 0.3) << slowdown;
    EXPECT_NEAR(*r.power, 10 + 90 * 0.1 / passed, 30) << slowdown;
    EXPECT_EQ(*r.power_limit, 100);
    EXPECT_GT(*r.temperature, 25);
    EXPECT_FALSE(r.throttled);
    EXPECT_FALSE(r.sm_clock) << "the profile does not say";
  }
}

TEST_F(SimSensors, WorkThatIsLateForItsPaceIsWorkAllTheSame) {
  use_profile("");  // a kernel takes nothing by itself
  Tensor m = ones({512, 512}, {.device = Device::sim(0)});
  synchronize(Device::sim(0));
  (void)read();
  // Queued at once: the thread that plays the device need not wait for a core between them.
  for (int i = 0; i < 50; ++i) (void)matmul(m, m);
  synchronize(Device::sim(0));
  EXPECT_GT(*read().utilisation, 0.3);
}

TEST_F(SimSensors, HeatIsToldAndTheClockWhereItIsKnown) {
  use_profile("throttle_c = 20\nclock_mhz = 1000");
  compute(1);
  const diag::GpuReading r = read();
  EXPECT_TRUE(r.throttled);
  EXPECT_EQ(r.clocks_held_by, std::vector<std::string>{"heat"});
  EXPECT_EQ(r.sm_clock, 500);
  EXPECT_EQ(r.max_sm_clock, 1000);
  // Streams charge it to the tick: a monitor must not do it once more.
  EXPECT_TRUE(diag::gpu_sensor(DeviceKind::sim)->charges_throttle());
}

TEST_F(SimSensors, WithoutAPacedProfileThereIsNoPower) {
  for (const bool paced : {true, false}) {
    set_sim_options({.devices = kDevices, .profile = paced ? "" : "t4", .paced = paced});
    const Tensor x = ones({1 << 20}, {.device = Device::sim(0)});
    synchronize(Device::sim(0));
    const diag::GpuReading r = read();
    EXPECT_TRUE(r.error.empty()) << r.error;
    EXPECT_GE(*r.memory_used, 4 << 20);
    EXPECT_GT(*r.memory_total, *r.memory_used);
    EXPECT_GE(*r.utilisation, 0);
    EXPECT_LE(*r.utilisation, 1);
    EXPECT_FALSE(r.power || r.energy || r.temperature || r.power_limit) << paced;
    EXPECT_FALSE(r.throttled);
  }
}

TEST_F(SimSensors, ADeviceThatIsMissingIsAnErrorInTheReading) {
  EXPECT_NE(read(40).error.find("sim:40"), std::string::npos);
}

TEST_F(SimSensors, WhatWorkedIsKnownBesideTheAccount) {
  use_profile("kernel_us = 20000");
  compute(1);
  diag::GpuSensor& sensor = *diag::gpu_sensor(DeviceKind::sim);
  const double before = sensor.worked(0).value();
  const diag::Accountant accountant({Device::sim(0)});
  compute(5);
  const diag::Account account = accountant.read(Device::sim(0));
  EXPECT_NEAR(sensor.worked(0).value() - before, 0.15, 0.1);
  EXPECT_NEAR(account.seconds[static_cast<size_t>(diag::Cause::compute)], 0.1, 0.08);
}

}  // namespace
}  // namespace brim::sim
