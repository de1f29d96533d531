// Forecasts, and what came of them.
#include "command/forecast_history.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "environment.h"
#include "temporary_folder.h"

namespace brim::command {
namespace {

class ForecastHistory : public ::testing::Test {
 protected:
  tests::TemporaryFolder folder;
  tests::Environment cache{"XDG_CACHE_HOME", folder.path()};
};

TEST_F(ForecastHistory, KnowsItsPastError) {
  EXPECT_EQ(past_error("a card", "a").trainings, 0);
  keep_measured("a card", "a", 1, false);  // nobody has forecast it
  EXPECT_EQ(past_error("a card", "a").trainings, 0);
  keep_forecast("a card", "a", 1);
  keep_forecast("a card", "b", 2);
  keep_forecast("a card", "c", 4);
  EXPECT_EQ(past_error("a card", "a").trainings, 0);
  keep_measured("a card", "a", 1.5, true);
  PastError past = past_error("a card", "a");
  EXPECT_TRUE(past.simulated);
  EXPECT_EQ(past.trainings, 1);
  EXPECT_DOUBLE_EQ(past.of_this_one.value(), 0.5);
  // What a real device took counts more than any simulation.
  keep_measured("a card", "b", 1.8, false);
  keep_measured("a card", "c", 4.04, false);
  past = past_error("a card", "b");
  EXPECT_FALSE(past.simulated);
  EXPECT_EQ(past.trainings, 2);
  EXPECT_NEAR(past.of_this_one.value(), -0.1, 1e-12);
  EXPECT_NEAR(past.worst, 0.1, 1e-12);
  EXPECT_NEAR(past.median, 0.055, 1e-12);  // of 0.1 and 0.01
  EXPECT_FALSE(past_error("a card", "a").of_this_one);
  EXPECT_EQ(past_error("another card", "a").trainings, 0);
  keep_measured("a card", "b", 2, false);  // the newest counts
  EXPECT_DOUBLE_EQ(past_error("a card", "b").of_this_one.value(), 0);
}

TEST_F(ForecastHistory, KeepsMemoryApartFromTime) {
  keep_forecast("a card", "a", 1);
  keep_forecast("a card", "a", 8, Forecasted::memory);
  keep_measured("a card", "a", 10, false, Forecasted::memory);
  EXPECT_EQ(past_error("a card", "a").trainings, 0);
  keep_measured("a card", "a", 1.5, true);
  EXPECT_TRUE(past_error("a card", "a").simulated);
  EXPECT_DOUBLE_EQ(past_error("a card", "a").median, 0.5);
  const PastError memory = past_error("a card", "a", Forecasted::memory);
  EXPECT_FALSE(memory.simulated);
  EXPECT_DOUBLE_EQ(memory.of_this_one.value(), 0.25);
}

TEST_F(ForecastHistory, KeepsEachKindApart) {
  double off = 0.01;
  for (const Forecasted of : kForecasted) {
    keep_forecast("a card", "a", 2, of);
    EXPECT_EQ(past_error("a card", "a", of).trainings, 0) << name_of(of);
    keep_measured("a card", "a", 2 * (1 + off), false, of);
    off += 0.01;
  }
  off = 0.01;
  for (const Forecasted of : kForecasted) {
    const PastError past = past_error("a card", "a", of);
    EXPECT_EQ(past.trainings, 1) << name_of(of);
    EXPECT_NEAR(past.of_this_one.value(), off, 1e-9) << name_of(of);
    off += 0.01;
  }
  keep_forecast("a card", with_data("a", "x"), 2, Forecasted::cores);
  EXPECT_FALSE(past_error("a card", with_data("a", "x"), Forecasted::cores).of_this_one);
  keep_forecast("a card", "a", 700e3, Forecasted::energy);  // of a thousand devices
  keep_measured("a card", "a", 770e3, false, Forecasted::energy);
  EXPECT_NEAR(past_error("a card", "a", Forecasted::energy).of_this_one.value(), 0.1, 1e-9);
}

TEST_F(ForecastHistory, WhatNoFileMayHoldIsNotKept) {
  keep_forecast("a card", "a", 1);
  keep_measured("a card", "a", 1, false);
  for (const double seconds : {0.0, -1.0, 4000.0, std::nan(""), HUGE_VAL})
    keep_forecast("a card", "b", seconds);
  EXPECT_EQ(past_error("a card", "a").trainings, 1);
}

TEST_F(ForecastHistory, ADamagedFileIsNone) {
  keep_forecast("a card", "a", 1);
  std::ofstream(folder / "brim/forecasts.json") << "nonsense";
  EXPECT_EQ(past_error("a card", "a").trainings, 0);
  keep_forecast("a card", "a", 1);
  keep_measured("a card", "a", 1, false);
  EXPECT_EQ(past_error("a card", "a").trainings, 1);
}

TEST_F(ForecastHistory, KnowsGpusByTheirDriversNames) {
  EXPECT_EQ(profile_name_of("NVIDIA H100 80GB HBM3, 81559 MiB, 132 multiprocessors"),
            "NVIDIA H100 SXM");
  EXPECT_EQ(profile_name_of("NVIDIA A100-SXM4-80GB, 81920 MiB"), "NVIDIA A100 SXM 80GB");
  EXPECT_EQ(profile_name_of("Tesla T4, 15360 MiB"), "NVIDIA T4");
  EXPECT_EQ(profile_name_of("Tesla V100-SXM2-32GB"), "NVIDIA V100 SXM2 32GB");
  EXPECT_EQ(profile_name_of("NVIDIA L4"), "NVIDIA L4");
  EXPECT_EQ(profile_name_of("NVIDIA L40S, 46068 MiB"), "");
  EXPECT_EQ(profile_name_of("NVIDIA A100-PCIE-40GB"), "");  // another one
  EXPECT_EQ(profile_name_of("NVIDIA H100 PCIe"), "");
  EXPECT_EQ(profile_name_of("NVIDIA GeForce RTX 4090"), "");
}

}  // namespace
}  // namespace brim::command
