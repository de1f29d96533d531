// What shows a run to others: TensorBoard's events.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
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

TEST_F(Watching, AFolderThatCannotBeWrittenToEndsTheRunBeforeItBegins) {
  std::ofstream(folder / "file") << "precious";
  const Ran ran = train({"--tensorboard", folder / "file", "--out", folder / "run"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_NE(ran.err.find(folder / "file"), std::string::npos) << ran.err;
  EXPECT_EQ(slurp(folder / "file"), "precious");
  EXPECT_FALSE(fs::exists(folder / "run/model.safetensors"));
}

}  // namespace
}  // namespace brim::tests
