// `brim bench crossover`: where a GPU begins to pay, by small measurements.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/bench_command.h"

namespace brim::tests {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class Crossover : public BenchCommand {
 protected:
  static Ran crossover(const std::vector<std::string>& more,
                       const std::string& before = "export CUDA_VISIBLE_DEVICES=; ",
                       const std::string& widths = "6,12", const std::string& batches = "4,16") {
    std::vector<std::string> args = {"bench",     "crossover", "--widths",  widths,
                                     "--batches", batches,     "--seconds", "0.001"};
    args.insert(args.end(), more.begin(), more.end());
    return run_brim(args, before);
  }
};

void expect_steps(const json& device, size_t count) {
  ASSERT_EQ(device["steps"].size(), count);
  for (const json& step : device["steps"]) {
    for (const char* key : {"cpu_s", "step_s", "copy_s", "launch_s", "compute_s"})
      EXPECT_GT(step[key], 0) << key << step;
    EXPECT_NEAR(step["gain"], step["cpu_s"].get<double>() / step["step_s"].get<double>(), 1e-9);
    const std::set<std::string> parts = {"copies", "launches", "compute"};
    EXPECT_TRUE(parts.contains(step["decides"])) << step;
  }
}

TEST_F(Crossover, OfProfilesIsMarkedAsSimulated) {
  const TemporaryFolder folder;
  const Ran text = crossover({"--profiles", "t4,h100", "--svg", folder / "grid.svg"});
  ASSERT_EQ(text.code, 0) << text.err;
  for (const char* part : {"NVIDIA T4 (simulated)\n", "decides", "NVIDIA H100", " pays\n",
                           "at batch 4: width ", "simulated: what the plan takes"})
    EXPECT_NE(text.out.find(part), std::string::npos) << part << " in " << text.out;
  const std::string svg = slurp(folder / "grid.svg");
  EXPECT_TRUE(svg.starts_with("<svg "));
  EXPECT_NE(svg.find("(simulated)"), std::string::npos);
  size_t cells = 0;
  for (size_t at = 0; (at = svg.find("<title>", at)) != std::string::npos; ++at) ++cells;
  EXPECT_EQ(cells, 8u);
}

TEST_F(Crossover, OfEagerStepsCountsEachLaunch) {
  const auto found = [&](const char* mode) {
    const Ran ran = crossover({"--profiles", "t4", "--mode", mode, "--json", "-"});
    EXPECT_EQ(ran.code, 0) << ran.err;
    return json::parse(ran.out);
  };
  const json eager = found("eager"), compiled = found("compiled");
  expect_steps(eager["devices"][0], 4);
  expect_steps(compiled["devices"][0], 4);
  EXPECT_TRUE(eager["devices"][0]["simulated"].get<bool>());
  for (size_t i = 0; i < 4; ++i) {
    const json &a = eager["devices"][0]["steps"][i], &b = compiled["devices"][0]["steps"][i];
    EXPECT_GT(a["launch_s"], 10 * b["launch_s"].get<double>());  // a graph is one launch
    EXPECT_GT(a["step_s"], b["step_s"]);
    EXPECT_EQ(a["decides"], "launches");  // of small networks
  }
}

TEST_F(Crossover, OfGpusIsMeasured) {
  const fs::path backend =
      fs::path(brim_path()).parent_path().parent_path() / "emulated/libbrim_cuda_emulated.so";
  if (!fs::exists(backend)) GTEST_SKIP() << "there is no emulation";
  // Eager and a single step: the emulation takes its time.
  const Ran ran = crossover(
      {"--profiles", "none", "--mode", "eager", "--json", "-"},
      "export BRIM_BACKEND_PATH=" + backend.string() + " BRIM_EMULATED_COUNT=1; ", "6", "1");
  ASSERT_EQ(ran.code, 0) << ran.err;
  const json found = json::parse(ran.out);
  ASSERT_EQ(found["devices"].size(), 1u);
  EXPECT_EQ(found["devices"][0]["name"], "cuda:0");
  EXPECT_FALSE(found["devices"][0]["simulated"].get<bool>());
  expect_steps(found["devices"][0], 1);
}

TEST_F(Crossover, RefusesInOneLine) {
  const auto fails = [](const Ran& ran, int code, const std::string& word) {
    EXPECT_EQ(ran.code, code) << ran.err;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
    EXPECT_NE(ran.err.find(word), std::string::npos) << ran.err;
  };
  const std::string no_gpu = "export CUDA_VISIBLE_DEVICES=; ";
  fails(crossover({}, no_gpu, "6,,12"), 2, "--widths");
  fails(crossover({}, no_gpu, "6", "0"), 2, "--batches");
  fails(crossover({"--profiles", "t5"}), 1, "t5");
  fails(crossover({"--profiles", "none"}), 2, "no GPU");
  fails(crossover({"--mode", "lazy"}), 2, "--mode");
}

}  // namespace
}  // namespace brim::tests
