// Energy, heat and what is known twice, of a virtual accelerator that warms up within a second.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/run_brim.h"

namespace brim::tests {
namespace {

using nlohmann::json;

constexpr const char* kHotCard = R"toml(
name = "a hot card"
source = "made up"
memory_gb = 1
bandwidth_gb_s = 320
host_link_gb_s = 16
peer_link_gb_s = 16
link_delay_us = 0
launch_us = 0
kernel_us = 500
[peak_tflops]
f32 = 8.1
[thermal]
idle_w = 10
peak_w = 100
ambient_c = 30
warmth_c_per_w = 1
settling_s = 0.2
throttle_c = 500
throttle_clock = 0.5
)toml";

class Heat : public ::testing::Test {
 protected:
  void SetUp() override {
    if (access(brim_path().c_str(), X_OK) != 0) GTEST_SKIP() << brim_path() << " is not built";
    write_tiny_cifar(folder / "data");
    std::ofstream(folder / "hot.toml") << kHotCard;
  }
  Ran train(std::vector<std::string> more, bool paced = true, const std::string& before = "") {
    std::vector<std::string> args = {"train", "tutorial-cnn", "--data", folder / "data"};
    args.insert(args.end(), more.begin(), more.end());
    return run_brim(
        args, (paced ? "export BRIM_SIM_PROFILE=" + (folder / "hot.toml") + ";" : "") + before);
  }
  json result() const { return json::parse(slurp(folder / "out/result.json")); }
  TemporaryFolder folder;
};

TEST_F(Heat, TrainingPausesAndSaysSo) {
  const Ran ran = train({"--device", "sim:0", "--epochs", "10", "--monitor", "0.02",
                         "--max-temperature", "70", "--out", folder / "out"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.err.find("(--max-temperature 70): paused"), std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find(": going on after "), std::string::npos) << ran.err;
  EXPECT_NE(ran.out.find("because of heat (--max-temperature 70)"), std::string::npos) << ran.out;
  const json r = result();
  EXPECT_GE(r["heat"]["pauses"], 1);
  EXPECT_GT(r["heat"]["seconds"], 0);
  EXPECT_GT(r["account"]["throttle"], 0);
  EXPECT_GT(r["energy"]["joules"]["sim:0"], 0);
  EXPECT_GT(r["energy"]["joules_per_sample"], 0);
  EXPECT_GE(r["monitor"]["sim:0"]["power_w"], 10);
  EXPECT_LE(r["monitor"]["sim:0"]["power_w"], 100.1);
  const json& entries = r["reconciliation"]["sim:0"];
  ASSERT_EQ(entries.size(), 3U);
  for (const json& e : entries) {
    ASSERT_TRUE(e["residual"].is_number()) << e;
    EXPECT_LT(std::abs(e["residual"].get<double>()), 0.5) << e;
    EXPECT_EQ(e["reason"].is_null(), std::abs(e["residual"].get<double>()) <= 0.005) << e;
    const bool told = ran.out.find(e["what"].get<std::string>()) != std::string::npos;
    EXPECT_EQ(told, !e["reason"].is_null()) << e << ran.out;
  }
}

TEST_F(Heat, AStopEndsAPause) {
  // It never cools to three degrees below: idle it has 40.
  const Ran ran = train(
      {"--device", "sim:0", "--epochs", "1000", "--monitor", "0.02", "--max-temperature", "41",
       "--out", folder / "out"},
      true,
      signal_when("[ $(cat " + (folder / "out") + "/monitor.jsonl 2>/dev/null | wc -l) -gt 40 ]",
                  "TERM"));
  EXPECT_EQ(ran.code, 143) << ran.out << ran.err;
  EXPECT_NE(ran.err.find("to go on: brim train --resume"), std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find("--max-temperature 41"), std::string::npos) << ran.err;
  EXPECT_EQ(result()["heat"]["pauses"], 1);
}

TEST_F(Heat, WhereNothingTellsOfItIsAnError) {
  const auto fails = [&](const std::vector<std::string>& more, bool paced, int code,
                         const std::string& words) {
    const Ran ran = train(more, paced);
    EXPECT_EQ(ran.code, code) << ran.err;
    EXPECT_NE(ran.err.find(words), std::string::npos) << ran.err;
  };
  fails({"--device", "sim:0", "--max-temperature", "70", "--monitor", "0"}, true, 2,
        "leave --monitor 0 out");
  fails({"--device", "sim:0", "--max-temperature", "70"}, false, 1,
        "no temperature is known of sim:0; leave --max-temperature out");
  fails({"--device", "cpu", "--max-temperature", "70"}, true, 1, "of cpu");
  for (const char* wrong : {"nan", "0", "-3", "1000", "hot"})
    EXPECT_NE(train({"--device", "sim:0", "--max-temperature", wrong}).code, 0) << wrong;
}

TEST_F(Heat, OfTheCpuOneThingIsKnownTwice) {
  ASSERT_EQ(train({"--device", "cpu", "--out", folder / "out"}).code, 0);
  const json r = result();
  EXPECT_TRUE(r["heat"].is_null());
  const json& entries = r["reconciliation"]["cpu"];
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_NEAR(entries[0]["residual"].get<double>(), 0, 0.05) << entries;
  EXPECT_TRUE(entries[1]["other"].is_null());
  EXPECT_TRUE(entries[1]["residual"].is_null());
  EXPECT_TRUE(entries[1]["reason"].is_string());
}

TEST_F(Heat, BenchTellsJoulesWhereTheyAreCounted) {
  const std::string pace = "export BRIM_SIM_PROFILE=" + (folder / "hot.toml") + ";";
  const auto joules = [](const Ran& ran) { return json::parse(ran.out)["joules_per_step"]; };
  const std::vector<std::string> args = {"bench", "relu-16",   "--device", "sim:0",  "--rounds",
                                         "2",     "--seconds", "0.1",      "--json", "-"};
  const json each = joules(run_brim(args, pace));
  ASSERT_TRUE(each.is_number()) << each;
  EXPECT_GT(each.get<double>(), 0.2 * 100 * 500e-6);  // a kernel of 500 us at 100 W, or idling
  EXPECT_LT(each.get<double>(), 5 * 100 * 500e-6);
  EXPECT_TRUE(joules(run_brim(args)).is_null());
}

}  // namespace
}  // namespace brim::tests
