// `brim prune`, and fine-tuning by `brim train --weights`.
#include <gtest/gtest.h>

#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/run_brim.h"

namespace brim::tests {
namespace {

using nlohmann::json;

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Prune : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder() = std::make_unique<TemporaryFolder>();
    write_tiny_cifar(*folder() / "data", 48);
    const Ran ran = run_brim({"train", "tutorial-cnn", "--device", "cpu", "--data", data(), "--out",
                              *folder() / "dense", "--epochs", "1"});
    ASSERT_EQ(ran.code, 0) << ran.err;
  }
  static void TearDownTestSuite() { folder().reset(); }
  static std::unique_ptr<TemporaryFolder>& folder() {
    static std::unique_ptr<TemporaryFolder> one;
    return one;
  }
  static std::string data() { return *folder() / "data"; }
  static std::string weights() { return *folder() / "dense/model.safetensors"; }
  /// With these options instead of, and besides, some that are always there.
  static Ran prune(const std::vector<std::string>& more) {
    std::vector<std::string> args = {"prune", "--data", data(), "--device", "cpu"};
    const auto by_default = [&](const char* name, const std::string& value) {
      if (std::ranges::find(more, name) == more.end()) args.insert(args.end(), {name, value});
    };
    by_default("--weights", weights());
    by_default("--pattern", "vector:8");
    args.insert(args.end(), more.begin(), more.end());
    return run_brim(args);
  }
};

TEST_F(Prune, KeepsItsZerosAndTellsWhatTheyBring) {
  const std::string out = *folder() / "sparse";
  const Ran ran = prune({"--finetune", "2", "--out", out, "--json", out + ".json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  for (const char* part :
       {"dense ", "pruned ", "fine-tuned ", "dense: it has 6 outputs", "% zeros", "batches of 16:"})
    EXPECT_NE(ran.out.find(part), std::string::npos) << ran.out;
  std::ifstream file(out + ".json");
  const json found = json::parse(file);
  EXPECT_EQ(found["layers"].size(), 5u);
  EXPECT_NEAR(found["zeros"].get<double>(), 0.75, 0.01);
  EXPECT_EQ(found["layers"][0]["dense_because"], "it has 6 outputs, fewer than a vector");
  EXPECT_TRUE(found["fine-tuned"]["metrics"].contains("accuracy"));
  EXPECT_GT(found["times"][0]["sparse_s"], 0);

  // What was saved knows that it is pruned, has the same zeros, and does as well.
  const Ran eval = run_brim({"eval", "--weights", out + "/model.safetensors", "--data", data(),
                             "--device", "cpu", "--json", out + "-eval.json"});
  ASSERT_EQ(eval.code, 0) << eval.err;
  EXPECT_NE(eval.out.find("layers have columns of zeros"), std::string::npos) << eval.out;
  std::ifstream eval_file(out + "-eval.json");
  EXPECT_NEAR(json::parse(eval_file)["loss"].get<double>(),
              found["fine-tuned"]["loss"].get<double>(), 1e-4);
}

TEST_F(Prune, IsTheSameWhereItGoesOn) {
  const std::string whole = *folder() / "whole", parts = *folder() / "parts";
  const std::string recipe = *folder() / "prune.toml";
  std::ofstream(recipe) << "model = \"tutorial-cnn\"\nepochs = 3\nbatch = 8\n[prune]\npattern = "
                           "\"vector:8\"\nsparsity = 0.8\nepochs = 2\ndense = [\"fc3\"]\n";
  const auto train = [&](std::vector<std::string> more) {
    std::vector<std::string> args = {"train", recipe, "--device", "cpu", "--data", data()};
    args.insert(args.end(), more.begin(), more.end());
    const Ran ran = run_brim(args);
    EXPECT_EQ(ran.code, 0) << ran.err;
  };
  train({"--weights", weights(), "--out", whole});
  train({"--weights", weights(), "--out", parts, "--steps", "8"});  // amid the second epoch
  train({"--resume", parts, "--out", parts});
  EXPECT_TRUE(bytes_of(whole + "/model.safetensors") == bytes_of(parts + "/model.safetensors"));
}

TEST_F(Prune, RefusesNonsense) {
  const auto fails = [&](const std::vector<std::string>& more, const char* why) {
    const Ran ran = prune(more);
    EXPECT_NE(ran.code, 0) << why;
    EXPECT_NE(ran.err.find(why), std::string::npos) << ran.err;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
  };
  fails({"--pattern", "vector:7"}, "'vector:7' is no pattern");
  fails({"--sparsity", "1"}, "sparsity");
  fails({"--sparsity", "0"}, "sparsity");
  fails({"--dense", "conv9", "--finetune", "0"}, "did you mean");
  fails({"--pattern", "vector:64", "--dense", "fc1", "--dense", "fc2"}, "no layer");
  fails({"--weights", *folder() / "none.safetensors"}, "none.safetensors");
}

}  // namespace
}  // namespace brim::tests
