// `brim doctor`: of a recipe, with --fix, and of a run's folder.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
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
  EXPECT_LE(share, 1.1);  // each is a median over the runs
  EXPECT_GT(share, 0.5);
  EXPECT_FALSE(found.contains("trials"));
}

/// Here brim itself is the program: it takes batches as others do.
class DoctorOfAProgram : public DoctorCommand {
 protected:
  /// Of a virtual device whose steps take a millisecond.
  Ran examine(std::vector<std::string> words, const std::vector<std::string>& options = {}) const {
    std::vector<std::string> args = {"doctor"};
    args.insert(args.end(), options.begin(), options.end());
    args.emplace_back("--");
    args.insert(args.end(), words.begin(), words.end());
    return run_brim(args, "BRIM_SIM_PROFILE=h100 BRIM_SIM_SLOWDOWN=20 ");
  }
  std::vector<std::string> train(const std::string& steps) const {
    return {brim_path(), "train", "tutorial-cnn", "--data", folder / "data", "--device", "sim:0",
            "--steps",   steps,   "--epochs",     "1000",   "--compile",     "off"};
  }
};

TEST_F(DoctorOfAProgram, TellsWhatItsLoopWaitsFor) {
  const Ran ran = examine(train("400"), {"--json", folder / "found.json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.out.find("batches in "), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("us a step; sim:0 computes"), std::string::npos) << ran.out;
  const json found = json::parse(slurp(folder / "found.json"));
  EXPECT_EQ(found["schema"], "brim.doctor/1");
  EXPECT_EQ(found["program"][1], "train");
  EXPECT_EQ(found["device"], "sim:0");
  EXPECT_GT(found["batches"], 100);
  EXPECT_LE(found["batches"], 400);
  EXPECT_GE(found["before"]["runs"], 3);
  // Eager steps, of a device whose launches take longer than its kernels.
  const auto dispatch = std::ranges::find(found["before"]["causes"], "dispatch",
                                          [](const json& cause) { return cause["cause"]; });
  ASSERT_NE(dispatch, found["before"]["causes"].end()) << found["before"];
  EXPECT_NE((*dispatch)["because"].back().get<std::string>().find("compile()"), std::string::npos);
  EXPECT_FALSE(found["waits"].empty());  // it reads the loss at reports
  for (const json& wait : found["waits"]) {
    EXPECT_GT(wait["count"], 0);
    EXPECT_GT(wait["seconds"], 0);
  }
}

TEST_F(DoctorOfAProgram, DataOnTheDeviceIsMeasuredThere) {
  std::vector<std::string> words = train("1000");
  words.back() = "on";
  words.emplace_back("--data-on-device");
  const Ran ran = examine(words, {"--json", "-"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const json found = json::parse(ran.out);  // and nothing that the program prints
  EXPECT_EQ(found["device"], "sim:0");
  EXPECT_LE(found["batches"], 1000);
  EXPECT_NE(ran.err.find("where the time of training went"), std::string::npos) << ran.err;
}

TEST_F(DoctorOfAProgram, OneThatIsKilledHasToldBefore) {
  std::vector<std::string> words = {"timeout", "-s", "KILL", "4"};
  for (const std::string& word : train("1000000")) words.push_back(word);
  const Ran ran = examine(words);
  EXPECT_EQ(ran.code, 137) << ran.err;
  EXPECT_NE(ran.err.find("timeout ended with exit code 137"), std::string::npos) << ran.err;
  EXPECT_NE(ran.out.find("us a step; sim:0 computes"), std::string::npos) << ran.out;
}

TEST_F(DoctorOfAProgram, WhatHasNoLoopIsTold) {
  for (const auto& [words, text] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"true"}, "'true' took no batches"},
           {{"sh", "-c", "exit 3"}, "(exit code 3)"},
           {{"/no/such/program"}, "cannot be started: No such file"},
           {train("3"), "too short"}}) {
    const Ran ran = examine(words);
    EXPECT_EQ(ran.code, 1) << ran.err;
    EXPECT_NE(ran.err.find(text), std::string::npos) << ran.err;
  }
  EXPECT_EQ(examine({"true"}, {"--fix"}).code, 2);
  EXPECT_EQ(examine({"true"}, {"tutorial-cnn"}).code, 2);
  EXPECT_EQ(examine({}).code, 2);  // no recipe either
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
  // What is kept is faster by the interval of 99 %; here stands that of 95 %.
  EXPECT_TRUE(found["kept"].empty() || found["speedup"]["low"] > 1) << found["speedup"];
  const std::string command = found["command"];
  ASSERT_TRUE(command.starts_with("brim train tutorial-cnn --data ")) << command;
  std::vector<std::string> words = {"train",    "tutorial-cnn", "--data",  folder / "data",
                                    "--device", "cpu",          "--steps", "5"};
  for (const json& word : found["options"]) words.push_back(word);
  const Ran trained = run_brim(words);
  EXPECT_EQ(trained.code, 0) << trained.err;
}

/// The recipe that it writes trains as it found best, as does what it says to type.
TEST_F(DoctorCommand, WritesTheRecipeWithWhatItKept) {
  const std::string better = folder / "better.toml";
  const Ran ran = doctor(
      {"--workers", "3", "--compile", "off", "--fix", "--allow", "batch", "--write", better});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.out.find("better.toml has the recipe"), std::string::npos) << ran.out;
  const std::string recipe = slurp(better);
  EXPECT_TRUE(recipe.starts_with("# brim doctor: what was kept is\n#   ")) << recipe;
  EXPECT_NE(recipe.find("\n[speed]\n"), std::string::npos);
  EXPECT_NE(recipe.find("data = '" + (folder / "data") + "'"), std::string::npos) << recipe;

  std::ofstream(better, std::ios::app) << "\n";
  const std::string run = folder / "run";
  ASSERT_EQ(run_brim({"train", better, "--device", "cpu", "--steps", "5", "--workers", "4", "--out",
                      run, "--json", folder / "began.json"})
                .code,
            0);
  ASSERT_EQ(run_brim({"train", better, "--device", "cpu", "--resume", run, "--json",
                      folder / "went_on.json"})
                .code,
            0);
  const json began = json::parse(slurp(folder / "began.json")),
             went_on = json::parse(slurp(folder / "went_on.json"));
  EXPECT_EQ(began["workers"], 4);
  EXPECT_EQ(began["compile"]["mode"], went_on["compile"]["mode"]);
  EXPECT_EQ(began["compile"]["mode"] == "eager",
            recipe.find("compile = false") != std::string::npos);

  // What the recipe says can be taken back.
  const std::string resident = folder / "resident.toml";
  std::ofstream(resident) << "data = '" + (folder / "data") + "'\n[speed]\ndata_on_device = true\n";
  for (const auto& [option, input] : std::vector<std::pair<std::string, std::string>>{
           {"--seed=1", "augmented there"}, {"--data-on-device=false", "augmented on the host"}}) {
    const Ran trained = run_brim({"train", resident, "--device", "cpu", "--steps", "5", option});
    EXPECT_EQ(trained.code, 0) << trained.err;
    EXPECT_NE(trained.out.find(input), std::string::npos) << trained.out;
  }
  fails({"train", resident, "--data-on-device=maybe"}, 2, "maybe not in");
  const Ran otherwise = run_brim({"doctor", resident, "--device", "cpu", "--seconds", "0.03",
                                  "--fix", "--data-on-device=false", "--json", "-"});
  ASSERT_EQ(otherwise.code, 0) << otherwise.err;
  const json kept = json::parse(otherwise.out);
  const bool is_resident = kept["kept"].dump().find("--data-on-device") != std::string::npos;
  EXPECT_EQ(kept["options"].dump().find("--data-on-device=false") == std::string::npos, is_resident)
      << kept["command"];
  fails({"doctor", "tutorial-cnn", "--write", better}, 2, "--write is of --fix");
  fails({"doctor", "tutorial-cnn", "--fix", "--write", folder / "better"}, 2, "ends in .toml");
  fails({"doctor", better, "--fix", "--write", better}, 2, "better.toml");
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

TEST_F(DoctorCommand, WatchesATrainingThatRuns) {
  const std::string found_path = folder / "found.json", text_path = folder / "text";
  const std::string watch = "p=$$; ( for i in $(seq 60); do " + in_quotes(brim_path()) +
                            " doctor $p --json " + in_quotes(found_path) + " >" +
                            in_quotes(text_path) +
                            " 2>/dev/null && break; sleep 0.2; done; "
                            "kill -INT $p ) & ";
  const Ran trained = run_brim({"train", "tutorial-cnn", "--data", folder / "data", "--device",
                                "cpu", "--epochs", "1000000"},
                               watch);
  EXPECT_EQ(trained.code, 130) << trained.err;  // it went on until it was stopped
  const json found = json::parse(slurp(found_path));
  EXPECT_EQ(found["recipe"], "tutorial-cnn");
  EXPECT_EQ(found["device"], "cpu");
  EXPECT_GT(found["process"], 1);
  EXPECT_GE(found["before"]["runs"], 3);
  EXPECT_GE(found["seconds"], 3);
  EXPECT_GT(found["before"]["seconds_per_step"]["value"], 0);
  EXPECT_NE(slurp(text_path).find("tutorial-cnn: watched for "), std::string::npos);
  const std::string process = std::to_string(getpid());  // whose training does not exist
  fails({"doctor", process}, 1, "brim top --once");
  fails({"doctor", process, "--fix"}, 2, "give its recipe");
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
