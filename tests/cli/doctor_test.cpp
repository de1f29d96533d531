// `brim doctor`: of a recipe, with --fix, and of a run's folder.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/run_brim.h"

namespace brim::tests {
namespace {

using nlohmann::json;

class DoctorCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    if (access(brim_path().c_str(), X_OK) != 0) GTEST_SKIP() << brim_path() << " is not built";
    write_tiny_cifar(folder / "data");
  }
  Ran doctor(std::vector<std::string> more, const std::string& before = "") const {
    std::vector<std::string> args = {"doctor",   "tutorial-cnn", "--data",    folder / "data",
                                     "--device", "cpu",          "--seconds", "0.02"};
    args.insert(args.end(), more.begin(), more.end());
    return run_brim(args, before);
  }
  void fails(const std::vector<std::string>& args, int code, const std::string& words) const {
    const Ran ran = run_brim(args);
    EXPECT_EQ(ran.code, code) << ran.err;
    EXPECT_NE(ran.err.find(words), std::string::npos) << ran.err;
  }
  TemporaryFolder folder;
};

TEST_F(DoctorCommand, NamesCausesWithTheirIntervals) {
  const Ran ran = doctor({"--json", folder / "found.json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.out.find("tutorial-cnn: batch 4 of " + (folder / "data") + " on cpu in fp32"),
            std::string::npos)
      << ran.out;
  EXPECT_NE(ran.out.find("us a step; cpu computes"), std::string::npos) << ran.out;
  const json found = json::parse(slurp(folder / "found.json"));
  EXPECT_EQ(found["schema"], "brim.doctor/1");
  EXPECT_EQ(found["before"]["runs"], 3);
  double share = found["before"]["busy"]["value"];
  for (const json& cause : found["before"]["causes"]) {
    EXPECT_LE(cause["share"]["low"], cause["share"]["value"]);
    EXPECT_GE(cause["share"]["high"], cause["share"]["value"]);
    EXPECT_GE(cause["share"]["value"], 0.02);
    share += cause["share"]["value"].get<double>();
  }
  EXPECT_LE(share, 1 + 1e-9);
  EXPECT_GT(share, 0.5);
  EXPECT_FALSE(found.contains("trials"));
}

TEST_F(DoctorCommand, WhatItFixesTrains) {
  const Ran ran = doctor({"--workers", "1", "--compile", "off", "--fix", "--json", "-"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const json found = json::parse(ran.out);  // and nothing else
  ASSERT_FALSE(found["trials"].empty());
  for (const json& trial : found["trials"]) {
    EXPECT_FALSE(trial["what"].get<std::string>().empty());
    EXPECT_TRUE(trial["options"].get<std::string>().starts_with("--"));
    EXPECT_TRUE(trial["verdict"] != "faster" || trial["speedup"]["low"] > 1) << trial;
  }
  EXPECT_EQ(found["kept"].empty(), found["speedup"].is_null() || found["speedup"]["low"] <= 1);
  const std::string command = found["command"];
  ASSERT_TRUE(command.starts_with("brim train tutorial-cnn --data ")) << command;
  std::vector<std::string> words = {"train",    "tutorial-cnn", "--data",  folder / "data",
                                    "--device", "cpu",          "--steps", "5"};
  for (const json& word : found["options"]) words.push_back(word);
  const Ran trained = run_brim(words);
  EXPECT_EQ(trained.code, 0) << trained.err;
}

TEST_F(DoctorCommand, ExaminesARunByItsHistory) {
  const std::string run = folder / "run";
  ASSERT_EQ(run_brim({"train", "tutorial-cnn", "--data", folder / "data", "--device", "cpu",
                      "--epochs", "3", "--out", run})
                .code,
            0);
  const Ran ran = run_brim({"doctor", run, "--json", folder / "found.json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.out.find("stretches between reports"), std::string::npos) << ran.out;
  const json found = json::parse(slurp(folder / "found.json"));
  EXPECT_EQ(found["device"], "cpu");
  EXPECT_GE(found["before"]["runs"], 3);
  EXPECT_GT(found["before"]["busy"]["value"], 0);
  fails({"doctor", run, "--fix"}, 2, "give its recipe");
  fails({"doctor", run, "--batch", "8"}, 2, "--batch");
  std::string line;
  std::getline(std::ifstream(run + "/history.jsonl") >> std::ws, line);
  std::ofstream(run + "/history.jsonl") << line << "\n{\"damaged";
  fails({"doctor", run}, 1, "train for longer");
}

TEST_F(DoctorCommand, TrainingGoesOnWithWhatItFound) {
  const auto train = [&](const std::string& out, std::vector<std::string> more) {
    std::vector<std::string> args = {"train",           "tutorial-cnn",
                                     "--data",          folder / "data",
                                     "--device",        "cpu",
                                     "--compile",       "off",
                                     "--epochs",        "1",
                                     "--out",           folder / out,
                                     "--data-on-device"};
    args.insert(args.end(), more.begin(), more.end());
    return run_brim(args);
  };
  const Ran plain = train("plain", {}), ran = train("run", {"--doctor"});
  ASSERT_EQ(plain.code, 0) << plain.err;
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.out.find("us a step; cpu computes"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("compiled steps (exact passes)"), std::string::npos) << ran.out;
  const json result = json::parse(slurp(folder / "run/result.json"));
  EXPECT_EQ(result["doctor"]["schema"], "brim.doctor/1");
  EXPECT_FALSE(result["doctor"]["trials"].empty());
  EXPECT_TRUE(json::parse(slurp(folder / "plain/result.json"))["doctor"].is_null());
  // Each bit of the weights is as without it, and so is where it goes on.
  EXPECT_EQ(slurp(folder / "run/model.safetensors"), slurp(folder / "plain/model.safetensors"));
  const Ran resumed = run_brim({"train", "--resume", folder / "run", "--epochs", "2"});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  fails({"train", "--resume", folder / "run", "--doctor"}, 2, "--doctor begins a run");
}

TEST_F(DoctorCommand, AStopEndsItAtOnce) {
  const Ran ran = run_brim({"doctor", "tutorial-cnn", "--data", folder / "data", "--device", "cpu",
                            "--fix", "--seconds", "3600", "--json", folder / "found.json"},
                           signal_when("sleep 1", "INT"));
  EXPECT_EQ(ran.code, 130) << ran.out << ran.err;
  const json found = json::parse(slurp(folder / "found.json"));
  EXPECT_TRUE(found["kept"].empty());
  EXPECT_TRUE(found["before"].is_null());
}

TEST_F(DoctorCommand, WhatCannotBeMeantIsTold) {
  fails({"doctor"}, 2, "which recipe?");
  fails({"doctor", "tutorial-cn"}, 1, "tutorial-cnn");
  fails({"doctor", "tutorial-cnn", "--allow", "miracles"}, 2, "rounding");
  fails({"doctor", "tutorial-cnn", "--allow", "rounding"}, 2, "--fix");
  fails({"train", "tutorial-cnn", "--doctor", "--max-temperature", "80"}, 2, "--max-temperature");
  fails({"doctor", "tutorial-cnn", "--seconds", "0"}, 2, "--seconds");
  fails({"doctor", "tutorial-cnn", "--data", folder / "none", "--device", "cpu"}, 1, "none");
  fails({"doctor", "tutorial-cnn", "--json", folder / "no/such/folder/x.json"}, 1, "no/such");
}

}  // namespace
}  // namespace brim::tests
