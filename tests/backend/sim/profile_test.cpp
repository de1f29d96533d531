// Device profiles: the built-in ones, bad files, the roofline, and heat.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

#include <brim/core/error.h>

#include "backend/sim/builtin_profiles.h"
#include "backend/sim/pacer.h"
#include "backend/sim/profile.h"
#include "backend/sim/sim_fixture.h"
#include "message_of.h"

namespace brim::sim {
namespace {

DeviceProfile made(const std::string& text) { return parse_profile(text, "test.toml"); }

class SimProfile : public SimTest {};

TEST_F(SimProfile, BuiltInOnesAreWhole) {
  for (const BuiltinProfile& builtin : kBuiltinProfiles) {
    const DeviceProfile p = load_profile(std::string(builtin.name));
    EXPECT_GT(p.memory, 0) << builtin.name;
    EXPECT_GE(p.peak_of(f16), p.peak_of(f32)) << builtin.name;
    EXPECT_LT(p.peak_of(f64), p.peak_of(f32)) << builtin.name;
    EXPECT_NE(p.source.find("data sheet"), std::string::npos) << builtin.name;
    // At full power the device settles below the point where it throttles.
    EXPECT_LT(p.heated(p.ambient, p.peak_power, 1e6), p.throttle_at) << builtin.name;
  }
  const DeviceProfile t4 = load_profile("t4");
  EXPECT_EQ(t4.memory, 16'000'000'000);
  EXPECT_DOUBLE_EQ(t4.peak_of(f32), 8.1e12);
  EXPECT_DOUBLE_EQ(t4.peak_of(i64), 8.1e12);  // not listed: as f32
}

TEST_F(SimProfile, BadFilesNameLineAndKey) {
  const std::string good = profile("");
  EXPECT_NO_THROW(made(good));
  const auto error = [&](const std::string& text) {
    return tests::message_of<ValueError>([&] { made(text); });
  };
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    return text.replace(text.find(from), from.size(), to);
  };
  EXPECT_NE(error("x = [").find("test.toml:1"), std::string::npos);
  EXPECT_NE(error(changed("memory_gb = 1", "memory_gb = -1")).find("'memory_gb' must be"),
            std::string::npos);
  EXPECT_NE(error(changed("memory_gb = 1", "memory_gb = nan")).find("'memory_gb' must be"),
            std::string::npos);
  EXPECT_NE(error(changed("memory_gb = 1", "memory_gb = \"1\"")).find("'memory_gb' must be"),
            std::string::npos);
  EXPECT_NE(error(changed("memory_gb = 1\n", "")).find("'memory_gb' is missing"),
            std::string::npos);
  EXPECT_NE(error(changed("memory_gb", "memory_gbs")).find("missing"), std::string::npos);
  EXPECT_NE(error(changed("idle_w", "idle_ww")).find("thermal.idle_w"), std::string::npos);
  EXPECT_NE(error(changed("f32 = 1", "f32 = 1\nf23 = 2")).find("did you mean"), std::string::npos);
  EXPECT_NE(error(changed("[thermal]", "[termal]")).find("[thermal] is missing"),
            std::string::npos);
  std::string deep = "a";
  while (deep.size() < 65000) deep += ".a";
  EXPECT_NE(error(deep + " = 1").find("dots, more than the limit"), std::string::npos);
  EXPECT_NE(error(std::string(1 << 17, '#')).find("bytes, more than"), std::string::npos);
  EXPECT_THROW(load_profile("no-such-profile"), FileError);
  EXPECT_THROW(load_profile("/dev/zero"), FileError);
  EXPECT_THROW(load_profile("/"), FileError);
}

double seconds_between(Pacer::Clock::time_point a, Pacer::Clock::time_point b) {
  return std::chrono::duration<double>(b - a).count();
}

TEST_F(SimProfile, WorkTakesTheLongerOfArithmeticAndMemory) {
  Pacer pacer;
  pacer.set(made(profile("kernel_us = 5")), 2);  // 1 TFLOP/s, 100 GB/s, twice as slow
  const auto took = [&](const Work& work) {
    const auto first = pacer.reserve(work).end;  // the engine is busy: the next one starts then
    return seconds_between(first, pacer.reserve(work).end);
  };
  pacer.reserve({.operations = 1e12});
  EXPECT_NEAR(took({.operations = 1e9}), 2e-3, 1e-7);
  EXPECT_NEAR(took({.operations = 1e6, .bytes = 1e8}), 2e-3, 1e-7);
  EXPECT_NEAR(took({.operations = 1}), 10e-6, 1e-7);
  pacer.reserve({.engine = Engine::copy_in, .bytes = 1e10});
  EXPECT_NEAR(took({.engine = Engine::copy_in, .bytes = 1e7}), 2e-3, 1e-7);
}

TEST_F(SimProfile, AThreadThatIsLateMakesNoDeviceLate) {
  using namespace std::chrono_literals;
  const Work work{.operations = 1e9};
  std::optional<Pacer> made_once;
  Pacer::Clock::time_point ready{};
  Pacer::Slot first;  // of a thread that woke up 2 ms later
  do {
    made_once.emplace().set(made(profile("")), 1);  // 1 TFLOP/s
    std::this_thread::sleep_for(2ms);
    ready = Pacer::Clock::now() - 2ms;
    first = made_once->reserve(work, ready);
  } while (first.reserved > ready + kMostLate);  // this one had no core just now
  Pacer& pacer = *made_once;
  EXPECT_EQ(first.begin, ready);
  EXPECT_NEAR(seconds_between(first.begin, first.end), 1e-3, 1e-7);
  EXPECT_GE(pacer.computed(work, first, false), first.end);
  EXPECT_GE(pacer.sums().computed, 1e-3);
  // What it cannot catch up with is told.
  const auto long_ago = Pacer::Clock::now() - 1s;
  const Pacer::Slot late = pacer.reserve({.engine = Engine::copy_in, .bytes = 1e9}, long_ago);
  EXPECT_EQ(late.begin, late.reserved);
}

TEST_F(SimProfile, WhatTakesThisMachineLongerTakesTheDeviceLonger) {
  using namespace std::chrono_literals;
  Pacer pacer;
  pacer.set(made(profile("")), 1);
  const Work work{.operations = 1e6};  // 1 us
  const Pacer::Slot slot = pacer.reserve(work);
  std::this_thread::sleep_for(3ms);
  const auto done = pacer.computed(work, slot, false);
  EXPECT_GE(seconds_between(slot.begin, done), 3e-3);
  EXPECT_GE(pacer.reserve(work).begin, done);
}

TEST_F(SimProfile, WithoutAProfileNothingIsPaced) {
  Pacer pacer;
  pacer.set(std::nullopt, 1);
  const auto end = pacer.reserve({.operations = 1e18}).end;
  EXPECT_LE(end, Pacer::Clock::now());
  EXPECT_EQ(pacer.readings().power, 0);
}

TEST_F(SimProfile, HeatFollowsNewtonsLaw) {
  const DeviceProfile p = made(profile(""));  // 25 degrees, 0.1 per watt, 10 s
  EXPECT_NEAR(p.heated(25, 100, 1e9), 35, 1e-9);
  EXPECT_NEAR(p.heated(25, 100, 10), 25 + 10 * (1 - std::exp(-1.0)), 1e-9);
  EXPECT_NEAR(p.heated(60, 0, 10), 25 + 35 * std::exp(-1.0), 1e-9);
}

TEST_F(SimProfile, AHotDeviceIsSlower) {
  Pacer pacer;
  pacer.set(made(profile("throttle_c = 20")), 1);  // warmer than that from the start
  pacer.reserve({.operations = 1e12});
  const auto first = pacer.reserve({.operations = 1e9});
  const auto second = pacer.reserve({.operations = 1e9});
  EXPECT_NEAR(seconds_between(first.end, second.end), 2e-3, 1e-7);
  EXPECT_NEAR(second.throttled, 1e-3, 1e-7);
  EXPECT_DOUBLE_EQ(pacer.readings().clock, 0.5);
  EXPECT_GT(pacer.readings().temperature, 20);
}

TEST_F(SimProfile, ReadingsComeWithTheProfile) {
  EXPECT_EQ(sim_readings(Device::sim(0)).temperature, 0);
  use_profile("settling_s = 1000");  // warms up slowly, and cools down slowly
  EXPECT_NEAR(sim_readings(Device::sim(0)).power, 10, 1e-9);
  const double before = sim_readings(Device::sim(0)).temperature;
  EXPECT_NEAR(before, 26, 1e-6);  // 25 degrees, and 0.1 for each of 10 watts
  Tensor x = Tensor::empty({100'000'000}, f32, Device::sim(0));
  x.fill_(1);  // 4 ms at 100 GB/s
  synchronize(Device::sim(0));
  EXPECT_GT(sim_readings(Device::sim(0)).temperature, before);
  EXPECT_THROW(sim_readings(Device::cpu()), DeviceError);
  EXPECT_THROW(sim_readings(Device::sim(40)), DeviceError);
}

}  // namespace
}  // namespace brim::sim
