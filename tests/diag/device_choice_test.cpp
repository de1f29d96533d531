// Which GPU best_device() takes, by what is known of each: no GPU is needed to say so.
#include "diag/device_choice.h"

#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace brim::diag {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;
constexpr std::nullopt_t kUnknown = std::nullopt;

/// A GPU's free GiB, load and temperature.
struct Gpu {
  std::optional<double> free, load, temperature;
  std::string error = "";
};

DeviceChoice choose(const std::vector<Gpu>& gpus, const std::string& why_none = "") {
  std::vector<GpuFacts> facts;
  for (size_t i = 0; i < gpus.size(); ++i) {
    GpuFacts f{.device = Device::cuda(static_cast<int>(i)),
               .load = gpus[i].load,
               .temperature = gpus[i].temperature,
               .error = gpus[i].error};
    if (gpus[i].free)
      f.free_memory = static_cast<int64_t>(*gpus[i].free * static_cast<double>(kGiB));
    facts.push_back(f);
  }
  return choose_device(facts, why_none);
}

void expect(const std::vector<Gpu>& gpus, int index, const std::string& reason) {
  const DeviceChoice choice = choose(gpus);
  EXPECT_EQ(choice.device, Device::cuda(index)) << reason;
  EXPECT_EQ(choice.reason, reason);
}

TEST(DeviceChoice, WithoutGpusTheCpuAndWhy) {
  const DeviceChoice none = choose({}, "the NVIDIA driver shows no GPU");
  EXPECT_EQ(none.device, Device::cpu());
  EXPECT_EQ(none.reason, "no usable GPU: the NVIDIA driver shows no GPU");
  EXPECT_EQ(choose({}).reason, "no usable GPU");
}

TEST(DeviceChoice, TheOnlyGpuIsTakenWhateverItsState) {
  expect({{10, 0, 40}}, 0, "the only GPU");
  expect({{0, 1, 99}}, 0, "the only GPU");
  expect({{kUnknown, kUnknown, kUnknown}}, 0, "the only GPU");
}

TEST(DeviceChoice, FreeMemoryIsFirst) {
  expect({{10, 0, 30}, {70.1, 1, 90}}, 1, "most free memory of 2 GPUs (70.1 GiB)");
  expect({{24, 0.9, 80}, {22, 0, 30}, {3, 0, 30}}, 0, "most free memory of 3 GPUs (24.0 GiB)");
}

TEST(DeviceChoice, AboutEqualMemoryIsDecidedByLoad) {
  expect({{79.1, 0.97, 30}, {79.0, 0.01, 60}}, 1,
         "least busy (1 %) of 2 GPUs with the most free memory (79.0 GiB)");
  // 5 % of the most is the end of "about equal".
  expect({{100, 0.5, 30}, {95, 0, 30}}, 1,
         "least busy (0 %) of 2 GPUs with the most free memory (95.0 GiB)");
  expect({{100, 0.5, 30}, {94.9, 0, 30}}, 0, "most free memory of 2 GPUs (100.0 GiB)");
  // Not a chain: 92 is within 5 % of 96, but not of 100.
  expect({{92, 0, 30}, {96, 0.5, 30}, {100, 0.9, 30}}, 1,
         "least busy (50 %) of 2 GPUs with the most free memory (96.0 GiB)");
  expect({{0, 0.5, 30}, {0, 0.2, 30}}, 1,
         "least busy (20 %) of 2 GPUs with the most free memory (0.0 GiB)");
}

TEST(DeviceChoice, AboutEqualLoadIsDecidedByHeat) {
  expect({{79, 0.02, 50}, {79, 0, 41}}, 1,
         "coolest (41 C) of 2 GPUs with the most free memory (79.0 GiB), equally busy");
  expect({{79, 0, 50}, {79, 0.02, 41}}, 1,
         "coolest (41 C) of 2 GPUs with the most free memory (79.0 GiB), equally busy");
  expect({{79, 0, 50}, {79, 0.1, 41}}, 0,
         "least busy (0 %) of 2 GPUs with the most free memory (79.0 GiB)");
}

TEST(DeviceChoice, WhatIsAlikeIsDecidedByTheIndex) {
  expect({{79, 0, 40}, {79, 0, 40}, {79, 0, 40}}, 0,
         "first of 3 GPUs with the most free memory (79.0 GiB)");
  expect({{20, 0, 40}, {79, 0, 40}, {79, 0, 40}}, 1,
         "first of 2 GPUs with the most free memory (79.0 GiB)");
  expect({{79, 0.9, 40}, {79, 0, 40}, {79, 0, 40}}, 1,
         "first of the 2 least busy of 3 GPUs with the most free memory (79.0 GiB)");
  expect({{79, 0, 50}, {79, 0, 40}, {79, 0, 40}}, 1,
         "first of the 2 coolest of 3 GPUs with the most free memory (79.0 GiB)");
  expect({{79, 0, 40}, {79, 0, 40}, {79, kUnknown, 30}}, 0,
         "first of the 2 known to be least busy of 3 GPUs with the most free memory (79.0 GiB)");
}

TEST(DeviceChoice, TheOrderOfGpusChangesNothing) {
  const Gpu full{10, 0, 30}, busy{79, 0.9, 30}, hot{79, 0, 80}, best{78.5, 0, 40};
  std::vector<Gpu> gpus{full, busy, hot, best};
  for (size_t turn = 0; turn < gpus.size(); ++turn) {
    const int at = static_cast<int>((3 + turn) % gpus.size());
    expect(gpus, at,
           "coolest (40 C) of the 2 least busy of 3 GPUs with the most free memory (78.5 GiB)");
    gpus.insert(gpus.begin(), gpus.back());
    gpus.pop_back();
  }
}

TEST(DeviceChoice, WhatIsUnknownCountsAsTheWorst) {
  expect({{kUnknown, 0, 30}, {1, 1, 90}}, 1,
         "the only one of 2 GPUs whose free memory is known (1.0 GiB)");
  expect({{kUnknown, 0, 30}, {1, 1, 90}, {2, 1, 90}}, 2,
         "most known free memory of 3 GPUs (2.0 GiB)");
  expect({{kUnknown, 0, 30}, {79, 1, 90}, {79, 1, 80}}, 2,
         "coolest (80 C) of 2 GPUs with the most known free memory (79.0 GiB), equally busy");
  expect({{79, kUnknown, 30}, {79, 0.9, 90}}, 1,
         "the only one whose load is known (90 %) of 2 GPUs with the most free memory (79.0 GiB)");
  expect({{79, kUnknown, 30}, {79, 0.9, 90}, {79, 0.5, 90}}, 2,
         "known to be least busy (50 %) of 3 GPUs with the most free memory (79.0 GiB)");
  expect({{79, 0, kUnknown}, {79, 0, 90}}, 1,
         "the only one whose temperature is known (90 C) of 2 GPUs with the most free memory (79.0 "
         "GiB), equally busy");
  expect({{79, kUnknown, 50}, {79, kUnknown, 41}}, 1,
         "coolest (41 C) of 2 GPUs with the most free memory (79.0 GiB), load unknown");
  expect({{79, kUnknown, kUnknown}, {79, kUnknown, kUnknown}}, 0,
         "first of 2 GPUs with the most free memory (79.0 GiB)");
  expect({{kUnknown, 0.5, 30}, {kUnknown, 0.1, 30}}, 1,
         "least busy (10 %) of 2 GPUs whose free memory is unknown");
}

TEST(DeviceChoice, WithoutNvmlTheFirstAndWhy) {
  const Gpu blind{kUnknown, kUnknown, kUnknown, "libnvidia-ml.so.1 was not found"};
  expect({blind, blind}, 0,
         "first of 2 GPUs whose free memory is unknown: libnvidia-ml.so.1 was not found");
  // One that NVML has lost is the last to take.
  expect({{kUnknown, kUnknown, kUnknown, "GPU is lost"}, {3, 0.2, 30}}, 1,
         "the only one of 2 GPUs whose free memory is known (3.0 GiB)");
}

TEST(DeviceChoice, NanAndImpossibleValuesAreUnknown) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double unknown : {nan, -1.0})
    expect(
        {{79, unknown, 30}, {79, 0.9, 30}}, 1,
        "the only one whose load is known (90 %) of 2 GPUs with the most free memory (79.0 GiB)");
  for (const double unknown : {nan, -infinity, infinity})
    expect({{79, 0, unknown}, {79, 0, 50}}, 1,
           "the only one whose temperature is known (50 C) of 2 GPUs with the most free memory "
           "(79.0 GiB), equally busy");
  expect({{-3, 0, 30}, {0, 0, 30}}, 1,
         "the only one of 2 GPUs whose free memory is known (0.0 GiB)");
}

/// Of the machine that runs this test.
TEST(DeviceChoice, TheChosenDeviceIsThere) {
  const DeviceChoice choice = best_device();
  EXPECT_TRUE(choice.device.available());
  EXPECT_NE(choice.device.kind, DeviceKind::sim);
  EXPECT_EQ(choice.device.is_cpu(), Device::count(DeviceKind::cuda) == 0);
  EXPECT_FALSE(choice.reason.empty());
}

}  // namespace
}  // namespace brim::diag
