// `brim forecast`: a step, and a whole training.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/run_brim.h"

namespace brim::tests {
namespace {

using nlohmann::json;

class ForecastCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    if (access(brim_path().c_str(), X_OK) != 0) GTEST_SKIP() << brim_path() << " is not built";
    write_tiny_cifar(folder / "data");
  }
  Ran forecast(std::vector<std::string> more) const {
    std::vector<std::string> args = {"forecast", "tutorial-cnn", "--classes", "10", "--batch",
                                     "4",        "--ranks",      "1,2"};
    args.insert(args.end(), more.begin(), more.end());
    return run_brim(args, cache());
  }
  std::string cache() const { return "XDG_CACHE_HOME=" + in_quotes(folder / "cache") + " "; }
  TemporaryFolder folder;
};

TEST_F(ForecastCommand, TellsWhatAWholeTrainingTakes) {
  const std::vector<std::string> options = {"--data", folder / "data", "--price", "36"};
  const Ran text = forecast(options);
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_TRUE(text.out.starts_with("simulated: ")) << text.out;
  EXPECT_NE(text.out.find("of which a core of this machine makes"), std::string::npos) << text.out;
  std::vector<std::string> as_json = options;
  as_json.insert(as_json.end(), {"--json", "-"});
  const Ran ran = forecast(as_json);
  ASSERT_EQ(ran.code, 0) << ran.err;
  const json found = json::parse(ran.out);
  EXPECT_EQ(found["simulated"], true);
  EXPECT_GT(found["samples"], 0);
  EXPECT_GT(found["seconds_per_sample"], 0);
  ASSERT_EQ(found["forecasts"].size(), 3u);  // of two ranks with overlap and without
  for (const json& row : found["forecasts"]) {
    const double ranks = row["ranks"], step = row["seconds_per_step"], seconds = row["seconds"];
    EXPECT_GE(step, row["step_s"]);
    EXPECT_NEAR(seconds, found["samples"].get<double>() / (4 * ranks) * step, 1e-9 * seconds);
    EXPECT_NEAR(row["joules"], row["joules_per_step"].get<double>() * seconds / step, 1e-6);
    EXPECT_NEAR(row["cost"], 36 * ranks * seconds / 3600, 1e-9);
    EXPECT_NEAR(row["input_cores"],
                row["images_per_s"].get<double>() * found["seconds_per_sample"].get<double>(),
                1e-6);
    EXPECT_GT(row["joules_per_step"], 0);
  }
}

TEST_F(ForecastCommand, CountsRoundsOfPruning) {
  const std::string recipe = folder / "rounds.toml";
  std::ofstream(recipe) << run_brim({"recipe", "tutorial-cnn"}).out
                        << "\n[prune]\npattern = 'vector:8'\nschedule = 'iterative'\n"
                           "rounds = 3\nrewind_epoch = 1\n";
  const Ran ran = run_brim({"forecast", recipe, "--classes", "10", "--samples", "1000"}, cache());
  ASSERT_EQ(ran.code, 0) << ran.err;  // 2 epochs, and 3 of one
  EXPECT_NE(ran.out.find("to train on 5000 samples in 5 epochs"), std::string::npos) << ran.out;
}

TEST_F(ForecastCommand, OfAStepAloneNeedsNoData) {
  const Ran ran = forecast({"--device", "l4", "--json", "-"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const json found = json::parse(ran.out);
  EXPECT_EQ(found["device"], "NVIDIA L4");
  EXPECT_TRUE(found["samples"].is_null());
  EXPECT_FALSE(found["forecasts"][0].contains("seconds"));
}

TEST_F(ForecastCommand, CountsStragglersAndWhatOtherSystemsDo) {
  const Ran text = forecast({"--step-spread", "10"});
  EXPECT_NE(text.out.find("2 ranks: "), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("waits for the slowest rank (spread of steps 10 %)"), std::string::npos)
      << text.out;
  const json found = json::parse(forecast({"--step-spread", "10", "--json", "-"}).out);
  EXPECT_DOUBLE_EQ(found["step_spread"], 0.1);
  EXPECT_EQ(found["forecasts"][0]["stragglers_s"], 0);
  const json& two = found["forecasts"][1];
  EXPECT_NEAR(two["stragglers_s"], 0.05 * two["compute_s"].get<double>(), 1e-12);
  const json others =
      json::parse(forecast({"--ring", "--buckets", "filled:0.001", "--json", "-"}).out);
  EXPECT_GT(others["forecasts"][1]["collectives"], two["collectives"]);
  const auto time_on_hosts = [&](const std::vector<std::string>& more) {
    std::vector<std::string> args = {"forecast", "resnet18", "--ranks", "8", "--hosts", "4"};
    args.insert(args.end(), more.begin(), more.end());
    return json::parse(run_brim(args, cache()).out)["forecasts"].back()["communication_s"];
  };
  const double exchanged = time_on_hosts({"--json", "-"});
  const double around = time_on_hosts({"--json", "-", "--ring"});
  EXPECT_GT(std::abs(around / exchanged - 1), 0.01);
}

TEST_F(ForecastCommand, TellsThePriceOfAnEpochWithoutData) {
  const Ran text = forecast({"--samples", "50000", "--price", "3.6"});
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.out.find("to train on 100000 samples in 2 epochs"), std::string::npos) << text.out;
  EXPECT_EQ(text.out.find("cores"), std::string::npos) << text.out;
  const json found =
      json::parse(forecast({"--samples", "50000", "--price", "3.6", "--json", "-"}).out);
  EXPECT_EQ(found["samples"], 100000);
  EXPECT_TRUE(found["seconds_per_sample"].is_null());
  for (const json& row : found["forecasts"]) {
    const double seconds = row["epoch_seconds"];
    EXPECT_NEAR(row["epoch_cost"], 1e-3 * row["ranks"].get<double>() * seconds, 1e-9);
    EXPECT_NEAR(row["cost"], 2 * row["epoch_cost"].get<double>(), 1e-9);
    EXPECT_TRUE(row["input_cores"].is_null());
  }
}

TEST_F(ForecastCommand, TellsHowFarItWasFromTrainings) {
  EXPECT_TRUE(json::parse(forecast({"--json", "-"}).out)["past"].is_null());
  const Ran trained = run_brim(
      {"train", "tutorial-cnn", "--data", "shapes10", "--device", "sim:0", "--steps", "500"},
      cache() + "BRIM_SIM_PROFILE=h100 BRIM_SIM_SLOWDOWN=40 ");
  ASSERT_EQ(trained.code, 0) << trained.err;
  const json found = json::parse(forecast({"--json", "-"}).out);
  EXPECT_EQ(found["past"]["simulated"], true);
  EXPECT_EQ(found["past"]["trainings"], 1);
  EXPECT_LT(std::abs(found["forecasts"][0]["off"].get<double>()), 5);  // others compute, too
  EXPECT_TRUE(found["forecasts"][1]["off"].is_null());                 // of two ranks
  EXPECT_EQ(found["past_memory"]["trainings"], 1);
  EXPECT_FALSE(found["forecasts"][0]["memory_off"].is_null());
  // Beside the numbers: that of this one, and the median for what nobody has trained.
  const std::string table = forecast({}).out;
  EXPECT_NE(table.find(fmt::format(" {:+.1f} %", 100 * found["forecasts"][0]["off"].get<double>())),
            std::string::npos)
      << table;
  EXPECT_NE(table.find(fmt::format(" ~{:.1f} %", 100 * found["past"]["median"].get<double>())),
            std::string::npos)
      << table;
  EXPECT_NE(forecast({}).out.find("of 1 simulated training, at most"), std::string::npos);
}

TEST_F(ForecastCommand, TellsTheErrorOfAllThatATrainingMeasures) {
  const std::vector<std::string> options = {"--samples", "1000", "--price", "2", "--json", "-"};
  EXPECT_EQ(forecast(options).code, 0);
  const auto train = [&](const std::vector<std::string>& more) {
    std::vector<std::string> args = {"train",   "tutorial-cnn", "--data",    "shapes10",
                                     "--steps", "300",          "--monitor", "0.05"};
    args.insert(args.end(), more.begin(), more.end());
    const Ran ran = run_brim(args, cache() +
                                       "BRIM_SIM_DEVICES=2 BRIM_SIM_PROFILE=h100 "
                                       "BRIM_SIM_SLOWDOWN=40 ");
    EXPECT_EQ(ran.code, 0) << ran.err;
  };
  train({"--device", "sim:0"});
  train({"--device", "sim:0,sim:1", "--batch", "8"});
  const json found = json::parse(forecast(options).out);
  for (const char* const off : {"off", "memory_off", "compute_off", "energy_off", "time_off"})
    for (const int row : {0, 1}) EXPECT_TRUE(found["forecasts"][row][off].is_number()) << off;
  EXPECT_TRUE(found["forecasts"][0]["exposed_off"].is_null());  // of one rank
  EXPECT_TRUE(found["forecasts"][1]["exposed_off"].is_number());
  EXPECT_TRUE(found["forecasts"][0]["cores_off"].is_null());  // the data is not at hand
  EXPECT_EQ(found["past_energy"]["trainings"], 2);
  EXPECT_TRUE(found["past_cores"].is_null());
  const std::string table = forecast({"--samples", "1000", "--price", "2"}).out;
  const double off = found["forecasts"][0]["time_off"];
  const std::string error = fmt::format(" {:+.1f} %", 100 * off);  // beside time and cost
  EXPECT_NE(table.find(error), table.rfind(error)) << table;
}

TEST_F(ForecastCommand, MeasuresTheCpu) {
  const auto on_cpu = [&](std::vector<std::string> more) {
    std::vector<std::string> args = {"forecast", "tutorial-cnn", "--device", "cpu", "--batch",
                                     "4",        "--threads",    "1,2"};
    args.insert(args.end(), more.begin(), more.end());
    return run_brim(args, cache());
  };
  const json found = json::parse(on_cpu({"--data", "shapes10", "--json", "-"}).out);
  EXPECT_EQ(found["simulated"], false);
  EXPECT_EQ(found["device_source"], "measured");
  ASSERT_EQ(found["forecasts"].size(), 2u);
  for (int threads : {1, 2}) {
    const json& row = found["forecasts"][static_cast<size_t>(threads - 1)];
    EXPECT_EQ(row["threads"], threads);
    EXPECT_EQ(row["ranks"], 1);
    EXPECT_GT(row["compute_s"], 1e-6);
    EXPECT_GT(row["seconds"], 0);
    EXPECT_TRUE(row["off"].is_null());
  }
  const Ran trained = run_brim({"train", "tutorial-cnn", "--data", "shapes10", "--device", "cpu",
                                "--threads", "2", "--steps", "200"},
                               cache());
  ASSERT_EQ(trained.code, 0) << trained.err;
  const json again = json::parse(on_cpu({"--data", "shapes10", "--json", "-"}).out);
  EXPECT_TRUE(again["forecasts"][0]["off"].is_null());
  EXPECT_FALSE(again["forecasts"][1]["off"].is_null());
  EXPECT_FALSE(again["forecasts"][1]["memory_off"].is_null());
  EXPECT_GT(again["forecasts"][1]["past"]["trainings"], 0);
  EXPECT_TRUE(again["forecasts"][0]["past"].is_null());
  EXPECT_TRUE(again["forecasts"][0]["joules"].is_null());
  const Ran text = on_cpu({"--ranks", "2"});
  EXPECT_TRUE(text.out.starts_with("kernels measured on ")) << text.out;
  EXPECT_NE(text.out.find("2 machines at 100 Gbit/s; exchanges are simulated"), std::string::npos)
      << text.out;
  EXPECT_NE(text.out.find("threads  ranks"), std::string::npos) << text.out;
}

TEST_F(ForecastCommand, BadInput) {
  EXPECT_EQ(forecast({"--device", "sim:0"}).code, 2);
  EXPECT_EQ(forecast({"--device", "cpu:1"}).code, 1);
  EXPECT_EQ(forecast({"--device", "cpu", "--threads", "0"}).code, 2);
  EXPECT_EQ(forecast({"--device", "cpu", "--hosts", "1"}).code, 2);
  const Ran batch = run_brim(
      {"forecast", "tutorial-cnn", "--data", folder / "data", "--batch", "100000"}, cache());
  EXPECT_EQ(batch.code, 2);
  EXPECT_NE(batch.err.find("samples for training"), std::string::npos) << batch.err;
  const Ran threads = forecast({"--threads", "2"});
  EXPECT_EQ(threads.code, 2);
  EXPECT_NE(threads.err.find("--device cpu"), std::string::npos) << threads.err;
  const Ran price = forecast({"--price", "2"});
  EXPECT_EQ(price.code, 2);
  EXPECT_NE(price.err.find("--data"), std::string::npos) << price.err;
  EXPECT_EQ(forecast({"--data", folder / "missing"}).code, 1);
  EXPECT_EQ(forecast({"--data", folder / "data", "--samples", "5"}).code, 2);
  EXPECT_EQ(forecast({"--samples", "0"}).code, 2);
  EXPECT_EQ(forecast({"--step-spread", "101"}).code, 2);
  for (const char* const buckets : {"ready", "ready:", "ready:x", "filled:0", "solved:5"}) {
    const Ran ran = forecast({"--buckets", buckets});
    EXPECT_EQ(ran.code, 2) << buckets;
    EXPECT_NE(ran.err.find("filled:25"), std::string::npos) << ran.err;
  }
  EXPECT_EQ(forecast({"--price", "-1", "--data", folder / "data"}).code, 2);
  EXPECT_EQ(forecast({"--device", "v1000"}).code, 1);
}

}  // namespace
}  // namespace brim::tests
