// What shows a run to others: TensorBoard's events, the history, `brim top`.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/run_brim.h"
#include "io/event_reader.h"

namespace brim::tests {
namespace {

namespace fs = std::filesystem;

class Watching : public ::testing::Test {
 protected:
  void SetUp() override {
    if (access(brim_path().c_str(), X_OK) != 0) GTEST_SKIP() << brim_path() << " is not built";
    write_tiny_cifar(folder / "data");
  }
  Ran train(const std::vector<std::string>& more) const {
    std::vector<std::string> args = {"train", "tutorial-cnn", "--data", folder / "data"};
    args.insert(args.end(), more.begin(), more.end());
    return run_brim(args);
  }
  /// Tags of the values in an event file.
  static std::vector<std::string> tags_of(const std::string& file) {
    std::vector<std::string> tags;
    for (const ProtobufReader& event : read_events(file))
      if (event.has(5)) tags.push_back(event.message(5).message(1).text(1));
    return tags;
  }
  TemporaryFolder folder;
};

TEST_F(Watching, TensorBoardIsToldOfLossWeightsTestAndAccount) {
  const Ran ran = train({"--epochs", "1", "--compile", "off", "--tensorboard", folder / "events"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const std::vector<std::string> tags = tags_of(only_file(folder / "events"));
  for (const char* tag :
       {"recipe", "train/loss", "train/learning_rate", "weights/conv1.weight", "gradients/fc3.bias",
        "host/load", "test/accuracy", "test/most_wrong", "test/most_wrong/00", "account"})
    EXPECT_NE(std::ranges::find(tags, tag), tags.end()) << tag;
}

TEST_F(Watching, CompiledStepsHaveGradientsOnce) {
  const auto gradients = [&](const Ran& ran, const std::string& events) {
    EXPECT_EQ(ran.code, 0) << ran.err;
    return std::ranges::count(tags_of(only_file(events)), "gradients/fc3.bias");
  };
  const std::string host = folder / "host", device = folder / "device", ranks = folder / "ranks";
  EXPECT_EQ(gradients(train({"--epochs", "2", "--tensorboard", host}), host), 2);
  const Ran resident = train({"--epochs", "2", "--data-on-device", "--tensorboard", device});
  EXPECT_EQ(gradients(resident, device), 2);
  const Ran both =
      run_brim({"launch", "-n", "2", "train", "tutorial-cnn", "--data", folder / "data", "--epochs",
                "2", "--device", "cpu", "--tensorboard", ranks});
  EXPECT_EQ(gradients(both, ranks), 2);
}

TEST_F(Watching, ARunThatGoesOnHasOneGraph) {
  const auto graphs = [](const std::string& events) {
    int count = 0;
    for (const fs::directory_entry& file : fs::directory_iterator(events))
      for (const ProtobufReader& event : read_events(file.path().string())) count += event.has(4);
    return count;
  };
  const Ran ran = train({"--steps", "3", "--out", folder / "run", "--tensorboard", folder / "a"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(graphs(folder / "a"), 1);
  const fs::path other = folder / "c/events.out.tfevents.1.other";  // without a graph
  fs::create_directory(folder / "c");
  fs::copy(only_file(folder / "a"), other);
  fs::resize_file(other, 40);  // the record of its version
  for (const char* const events : {"a", "b", "c"}) {
    const Ran more = run_brim(
        {"train", "--resume", folder / "run", "--steps", "1", "--tensorboard", folder / events});
    ASSERT_EQ(more.code, 0) << more.err;
    EXPECT_EQ(graphs(folder / events), 1) << events;
  }
}

TEST_F(Watching, RoundsOfPruningAreShown) {
  const std::string recipe = folder / "rounds.toml";
  std::ofstream(recipe) << run_brim({"recipe", "tutorial-cnn"}).out
                        << "\n[prune]\npattern = 'vector:8'\nschedule = 'iterative'\n"
                           "rounds = 2\nrewind_epoch = 1\n";
  const Ran ran = run_brim({"train", recipe, "--data", folder / "data", "--out", folder / "run",
                            "--tensorboard", folder / "events"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  std::vector<float> rounds;
  for (const ProtobufReader& event : read_events(only_file(folder / "events")))
    if (event.has(5) && event.message(5).message(1).text(1) == "train/round")
      rounds.push_back(event.message(5).message(1).f32(2));
  ASSERT_FALSE(rounds.empty());
  EXPECT_TRUE(std::ranges::is_sorted(rounds));
  EXPECT_EQ(rounds.front(), 0);
  EXPECT_EQ(rounds.back(), 2);
  std::ifstream history(folder / "run/history.jsonl");
  nlohmann::json last;
  for (std::string line; std::getline(history, line);) last = nlohmann::json::parse(line);
  EXPECT_EQ(last["round"], 2);
  EXPECT_EQ(last["rounds"], 2);
}

/// Commands that train what is trained already.
class WatchingCompression : public Watching {
 protected:
  void SetUp() override {
    Watching::SetUp();
    const Ran ran = train({"--steps", "1", "--device", "cpu", "--out", folder / "dense"});
    ASSERT_EQ(ran.code, 0) << ran.err;
  }
  std::vector<std::string> command(const std::string& name,
                                   const std::vector<std::string>& more) const {
    std::vector<std::string> args = {name,     "--weights",     folder / "dense/model.safetensors",
                                     "--data", folder / "data", "--device",
                                     "cpu"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  std::vector<nlohmann::json> history(const std::string& run) const {
    std::ifstream file(folder / (run + "/history.jsonl"));
    std::vector<nlohmann::json> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
    EXPECT_FALSE(lines.empty()) << run;
    return lines;
  }
};

TEST_F(WatchingCompression, PruningInRoundsIsSeenAsARunIs) {
  const Ran ran = run_brim(
      command("prune", {"--pattern", "vector:8", "--schedule", "iterative", "--rounds", "2",
                        "--finetune", "1", "--out", folder / "pruned", "--tensorboard",
                        folder / "events", "--metrics", "0", "--monitor", "0.01"}));
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.out.find("metrics: http://127.0.0.1:"), std::string::npos) << ran.out;
  const nlohmann::json last = history("pruned").back();
  EXPECT_EQ(last["command"], "prune");
  EXPECT_EQ(last["state"], "finished");
  EXPECT_EQ(last["round"], 2);
  EXPECT_GT(last["devices"][0]["account"]["wall"], 0);
  EXPECT_GT(fs::file_size(folder / "pruned/monitor.jsonl"), 0U);
  const std::vector<std::string> tags = tags_of(only_file(folder / "events"));
  for (const char* tag : {"recipe", "train/loss", "train/round", "weights/fc1.weight",
                          "test/accuracy", "account", "host/load"})
    EXPECT_NE(std::ranges::find(tags, tag), tags.end()) << tag;
  const Ran report = run_brim({"report", folder / "pruned", "-o", folder / "page.html"});
  if (report.err.find("Chart.js") != std::string::npos) return;
  ASSERT_EQ(report.code, 0) << report.err;
  EXPECT_NE(slurp(folder / "page.html").find(R"("chart":"loss")"), std::string::npos);
}

TEST_F(WatchingCompression, ASearchIsOneRunWithAllItsTrainings) {
  const auto search = [&](const std::string& points, std::vector<std::string> more = {}) {
    more.insert(more.end(), {"--pattern", "vector:8", "--accuracy", "-100", "--finetune", "1",
                             "--points", points, "--samples", "16", "--out", folder / "small"});
    const Ran ran = run_brim(command("shrink", more));
    EXPECT_EQ(ran.code, 0) << ran.err;
  };
  search("2", {"--tensorboard", folder / "events"});
  const std::vector<nlohmann::json> lines = history("small");
  double steps = 0, wall = 0;
  for (const nlohmann::json& line : lines) {
    const double all = line["step"].get<double>() + line["steps_before"].get<double>();
    EXPECT_GE(all, steps);
    EXPECT_GE(line["devices"][0]["account"]["wall"], wall);
    steps = all, wall = line["devices"][0]["account"]["wall"];
  }
  EXPECT_EQ(lines.front()["point"], 1);
  EXPECT_EQ(lines.back()["points"], 2);
  EXPECT_EQ(lines.back()["state"], "finished");
  for (int64_t point = 1; point <= lines.back()["point"].get<int64_t>(); ++point)
    (void)only_file(folder / ("events/point-" + std::to_string(point)));

  search("3", {"--resume"});  // by another process
  const std::vector<nlohmann::json> both = history("small");
  ASSERT_GT(both.size(), lines.size());
  for (size_t i = lines.size(); i < both.size(); ++i)
    EXPECT_GE(both[i]["steps_before"], steps) << both[i];
  search("1", {"--overwrite"});  // anew, without what the search before has left
  const std::vector<nlohmann::json> anew = history("small");
  EXPECT_EQ(anew.front()["started"], anew.back()["started"]);
}

TEST_F(WatchingCompression, TopShowsThemUntilTheyAreStopped) {
  const std::string seen = in_quotes(folder / "seen.json");
  const std::string is_seen = in_quotes(brim_path()) + " top --json >" + seen +
                              " && grep -q '\"quantize\"' " + seen +
                              " && grep -q '\"state\": *\"training\"' " + seen;
  const Ran ran = run_brim(
      command("quantize", {"--finetune", "1000000", "--out", folder / "int8"}),
      "export BRIM_RUNTIME_DIR=" + in_quotes(folder / "runs") + "; " + signal_when(is_seen, "INT"));
  EXPECT_EQ(ran.code, 128 + SIGINT) << ran.err;
  EXPECT_NE(ran.err.find("stopped"), std::string::npos) << ran.err;
  EXPECT_NE(slurp(folder / "seen.json").find("\"training\""), std::string::npos);
}

TEST_F(WatchingCompression, WhatCannotWriteItsResultHasFailed) {
  fs::create_directories(folder / "int8/result.json");
  const Ran ran = run_brim(command("quantize", {"--finetune", "1", "--out", folder / "int8"}));
  EXPECT_EQ(ran.code, 1);
  EXPECT_NE(ran.err.find("result.json"), std::string::npos) << ran.err;
  EXPECT_EQ(history("int8").back()["state"], "failed");
}

TEST_F(WatchingCompression, WhatCannotBeWatchedIsNotBegun) {
  std::ofstream(folder / "file") << "precious";
  const auto error_of = [&](const std::vector<std::string>& more) {
    const Ran ran = run_brim(command("prune", more));
    EXPECT_NE(ran.code, 0);
    EXPECT_EQ(ran.out.find("dense "), std::string::npos) << ran.out;
    return ran.err;
  };
  const std::string no_folder = error_of({"--tensorboard", folder / "file"});
  EXPECT_NE(no_folder.find(folder / "file"), std::string::npos) << no_folder;
  EXPECT_NE(no_folder.find("choose another --tensorboard"), std::string::npos) << no_folder;
  EXPECT_NE(error_of({"--tensorboard", folder / "events", "--finetune", "0"}).find("--finetune 0"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(folder / "events"));
  EXPECT_NE(error_of({"--metrics", "0.0.0.0:0"}).find("--metrics-token"), std::string::npos);
  EXPECT_NE(error_of({"--metrics-token", "x"}).find("--metrics"), std::string::npos);
  EXPECT_NE(error_of({"--monitor", "0.001"}).find("too often"), std::string::npos);
}

TEST_F(Watching, AFolderThatCannotBeWrittenToEndsTheRunBeforeItBegins) {
  std::ofstream(folder / "file") << "precious";
  const Ran ran = train({"--tensorboard", folder / "file", "--out", folder / "run"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_NE(ran.err.find(folder / "file"), std::string::npos) << ran.err;
  EXPECT_EQ(slurp(folder / "file"), "precious");
  EXPECT_FALSE(fs::exists(folder / "run/model.safetensors"));
  for (const char* own : {"run/model.safetensors", "run/checkpoint-00000015"}) {
    const Ran taken = train({"--tensorboard", folder / own, "--out", folder / "run"});
    EXPECT_EQ(taken.code, 2);
    EXPECT_NE(taken.err.find("in the way of"), std::string::npos) << taken.err;
    EXPECT_FALSE(fs::exists(folder / own));
  }
}

}  // namespace
}  // namespace brim::tests
