// The command as a user types it: training, JSON, resume, signals, evaluation, prediction.
#include <brim/io/safetensors.h>
#include <brim/nn/models.h>
#include <brim/train/trainer.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "backend/cpu/runtime/isa.h"
#include "cli/run_brim.h"

namespace brim::tests {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class Command : public ::testing::Test {
 protected:
  void SetUp() override {
    if (access(brim_path().c_str(), X_OK) != 0) GTEST_SKIP() << brim_path() << " is not built";
    write_tiny_cifar(folder / "data");
  }
  std::vector<std::string> train(std::vector<std::string> more) const {
    std::vector<std::string> args = {"train", "tutorial-cnn", "--data", folder / "data"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  TemporaryFolder folder;
};

TEST_F(Command, HelpAndVersion) {
  EXPECT_EQ(run_brim({"--version"}).out.substr(0, 5), "brim ");
  const Ran help = run_brim({"--help"});
  EXPECT_EQ(help.code, 0);
  for (const char* name : {"train", "eval", "predict", "convert", "env", "data"})
    EXPECT_NE(help.out.find(name), std::string::npos) << name;
  EXPECT_NE(run_brim({"train", "--help"}).out.find("--memory-limit"), std::string::npos);
  EXPECT_EQ(run_brim({}).code, 2);
}

TEST_F(Command, Env) {
  const Ran ran = run_brim({"env", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const json env = json::parse(ran.out);
  EXPECT_GE(env["cpu"]["available"], 1);
  EXPECT_GT(env["memory"]["total"], 0);
  EXPECT_EQ(env["devices"][0]["name"], "cpu");
  for (const json& library : env["libraries"])
    EXPECT_TRUE(library.contains(library["found"].get<bool>() ? "version" : "install"));
  EXPECT_EQ(env["gpu"].size(), 8U);
  for (const json& part : env["gpu"])
    EXPECT_TRUE(part["state"] == "found" || part.contains("advice")) << part;
  EXPECT_NE(run_brim({"env"}).out.find("gpu      NVIDIA driver"), std::string::npos);
}

TEST_F(Command, TrainWritesOneJsonObject) {
  const std::string path = folder / "r.json";
  const Ran ran = run_brim(train({"--seed", "3", "--epochs", "2", "--json", path}));
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  EXPECT_NE(ran.out.find("100.0 %"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("accuracy on 20 test images"), std::string::npos) << ran.out;
  const json r = json::parse(slurp(path));
  EXPECT_EQ(r["recipe"], "tutorial-cnn");
  EXPECT_EQ(r["device"], "cpu");
  EXPECT_EQ(r["steps"], 30);
  EXPECT_EQ(r["batch"], 4);
  EXPECT_EQ(r["seed"], 3);
  for (const char* key : {"images_per_s", "us_per_step", "final_loss", "peak_memory", "startup_ms"})
    EXPECT_GT(r[key], 0) << key;
  EXPECT_EQ(r["per_class"].size(), 10U);
  double sum = 0;
  for (const auto& [cause, fraction] : r["account"].items()) sum += fraction.get<double>();
  EXPECT_NEAR(sum, 1, 1e-9);
  double phases = 0;
  for (const auto& [phase, seconds] : r["phases"].items())
    if (phase != "wall") phases += seconds.get<double>();
  EXPECT_NEAR(phases, r["phases"]["wall"].get<double>(), 1e-9);
  EXPECT_TRUE(r["versions"].contains("brim"));
  EXPECT_EQ(r["versions"]["isa"], cpu::arithmetic());
}

TEST_F(Command, JsonOnStandardOutputIsAlone) {
  const Ran ran = run_brim(train({"--steps", "3", "--json", "-"}));
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(json::parse(ran.out)["steps"], 3);
  EXPECT_EQ(json::parse(run_brim(train({"--steps", "3", "--json", "/dev/stdout"})).out)["steps"],
            3);
  EXPECT_EQ(run_brim(train({"--steps", "3", "--json", "/dev/null"})).code, 0);
}

TEST_F(Command, FailedEvaluationStillTellsWhatTheTrainingCost) {
  for (const char* name : {"train/a/0.png", "train/b/0.png", "test/a/0.png", "test/b/0.png"}) {
    const fs::path path = fs::path(folder / "set") / name;
    fs::create_directories(path.parent_path());
    write_pixel_png(path);
  }
  std::ofstream(folder / "set/test/b/0.png") << "no picture";
  const Ran ran = run_brim({"train", "tutorial-cnn", "--data", folder / "set", "--out",
                            folder / "run", "--json", folder / "r.json"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_NE(ran.err.find("test/b/0.png"), std::string::npos) << ran.err;
  EXPECT_NE(ran.out.find("where the time of training went"), std::string::npos) << ran.out;
  const json r = json::parse(slurp(folder / "r.json"));
  EXPECT_EQ(r["steps"], 2);
  EXPECT_TRUE(r["accuracy"].is_null());
  EXPECT_TRUE(fs::exists(folder / "run/model.safetensors"));
}

TEST_F(Command, OptionsOverrideTheRecipe) {
  std::ofstream(folder / "mine.toml") << "epochs = 9\nbatch = 5\n[optimizer]\nlr = 0.5\n";
  const Ran ran =
      run_brim({"train", folder / "mine.toml", "--data", folder / "data", "--epochs", "01", "--lr",
                "0.01", "--batch", "010", "--threads", "1", "--workers", "00", "--json", "-"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const json r = json::parse(ran.out);
  EXPECT_EQ(r["batch"], 10) << "decimal";
  EXPECT_EQ(r["steps"], 6);
  EXPECT_EQ(r["threads"], 1);
  EXPECT_EQ(r["workers"], 0);
}

TEST_F(Command, TrainEvalPredictAndResume) {
  const std::string out = folder / "run";
  Ran ran = run_brim(train({"--epochs", "2", "--out", out, "--json", folder / "t.json"}));
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(fs::exists(out + "/checkpoint-00000030"));
  const std::string weights = out + "/model.safetensors";

  ran = run_brim(
      {"eval", "tutorial-cnn", "--weights", weights, "--data", folder / "data", "--json", "-"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const json trained = json::parse(slurp(folder / "t.json")), evaluated = json::parse(ran.out);
  EXPECT_EQ(evaluated["accuracy"], trained["accuracy"]);
  EXPECT_EQ(evaluated["per_class"], trained["per_class"]);

  // A picture of one pixel: resized.
  const std::string png = folder / "p.png";
  write_pixel_png(png);
  ran = run_brim({"predict", "--weights", weights, "--top", "10", "--json", "-", png, png});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const json predicted = json::parse(ran.out);
  ASSERT_EQ(predicted["images"].size(), 2U);
  double sum = 0;
  for (const json& c : predicted["images"][0]["classes"]) sum += c["probability"].get<double>();
  EXPECT_NEAR(sum, 1, 1e-5);

  ran = run_brim({"train", "--resume", out, "--epochs", "3", "--json", "-"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(json::parse(ran.out)["steps"], 15);
  EXPECT_TRUE(fs::exists(out + "/checkpoint-00000045"));

  ran = run_brim({"train", "--resume", out, "--epochs", "3"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.out.find("all 3 epochs were trained before"), std::string::npos) << ran.out;
}

TEST_F(Command, ConvertsWeightsToPyTorchAndBack) {
  const std::string run = folder / "run", weights = run + "/model.safetensors";
  ASSERT_EQ(run_brim(train({"--epochs", "1", "--out", run})).code, 0);
  const std::string pth = folder / "m.pth", back = folder / "m.safetensors";
  Ran ran = run_brim({"convert", weights, pth});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.out.find("10 tensors"), std::string::npos) << ran.out;
  ran = run_brim({"convert", pth, back});
  ASSERT_EQ(ran.code, 0) << ran.err;
  json first;
  for (const std::string& file : {weights, pth, back}) {
    ran = run_brim(
        {"eval", "tutorial-cnn", "--weights", file, "--data", folder / "data", "--json", "-"});
    ASSERT_EQ(ran.code, 0) << ran.err;
    const json r = json::parse(ran.out);
    if (first.is_null()) first = r;
    EXPECT_EQ(r["loss"], first["loss"]) << file;
    EXPECT_EQ(r["per_class"], first["per_class"]) << file;
  }
  write_pixel_png(folder / "p.png");
  ran = run_brim({"predict", "--weights", pth, "--recipe", "tutorial-cnn", folder / "p.png"});
  EXPECT_EQ(ran.code, 0) << ran.err;

  EXPECT_EQ(run_brim({"convert", pth, back}).code, 1) << "it exists";
  EXPECT_EQ(run_brim({"convert", pth, back, "--overwrite"}).code, 0);
}

TEST_F(Command, ConvertsResNet18BothWays) {
  const auto net = nn::make_model("resnet18");
  const std::string weights = folder / "a.safetensors", pth = folder / "a.pth";
  io::save_safetensors(weights, net->state_dict(), {{"format", "pt"}});
  Ran ran = run_brim({"convert", weights, pth});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.out.find("122 tensors"), std::string::npos) << ran.out;
  ran = run_brim({"convert", pth, folder / "b.safetensors"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(slurp(weights), slurp(folder / "b.safetensors"));
}

TEST_F(Command, ConvertLimitsWhatSharedTensorsGrowTo) {
  const char* root = std::getenv("BRIM_SOURCE_DIR");
  const std::string pth = std::string(root ? root : ".") + "/tests/fuzz/corpus/pth/shared.pth";
  const std::string out = folder / "a.safetensors";
  Ran ran = run_brim({"convert", pth, out});
  EXPECT_EQ(ran.code, 1);
  EXPECT_NE(ran.err.find("share memory"), std::string::npos) << ran.err;
  const size_t flag = ran.err.find("--max-growth ");
  ASSERT_NE(flag, std::string::npos) << ran.err;
  ran = run_brim(
      {"convert", pth, out, "--max-growth", std::to_string(std::stoi(ran.err.substr(flag + 13)))});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.out.find("300 tensors"), std::string::npos) << ran.out;
}

TEST_F(Command, PredictFindsTheNumberOfClasses) {
  const auto net = nn::make_model("resnet18-cifar", {.classes = 7});
  const std::string weights = folder / "a.safetensors", pth = folder / "a.pth";
  io::save_safetensors(weights, net->state_dict(), {{"format", "pt"}});
  ASSERT_EQ(run_brim({"convert", weights, pth}).code, 0);
  write_pixel_png(folder / "p.png");
  for (const std::string& file : {weights, pth}) {
    const Ran ran = run_brim({"predict", "--weights", file, "--recipe", "resnet18-cifar", "--top",
                              "1000", "--json", "-", folder / "p.png"});
    ASSERT_EQ(ran.code, 0) << ran.err;
    EXPECT_EQ(json::parse(ran.out)["images"][0]["classes"].size(), 7U) << file;
  }
  const Ran ran = run_brim({"predict", "--weights", pth, "--recipe", "tutorial-cnn", "p.png"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_NE(ran.err.find("a.pth holds no fc3."), std::string::npos) << ran.err;
}

TEST_F(Command, SignalsWriteACheckpointAndTellHowToGoOn) {
  for (const auto& [signal, code] :
       {std::pair("INT", 130), std::pair("TERM", 143), std::pair("HUP", 129)}) {
    const std::string out = folder / (std::string(signal) + " run"), other = folder / signal;
    Ran ran = run_brim(train({"--epochs", "100000", "--workers", "1", "--out", out}),
                       signal_when("ls " + in_quotes(out) + " 2>/dev/null | grep -q ^ch", signal));
    ASSERT_EQ(ran.code, code) << ran.err;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
    EXPECT_NE(ran.err.find("; to go on: brim train --resume " + in_quotes(out) + " --data " +
                           (folder / "data --epochs 100000 --workers 1\n")),
              std::string::npos)
        << ran.err;
    EXPECT_FALSE(fs::exists(out + "/model.safetensors"));
    int stopped_at = 0;
    ASSERT_EQ(std::sscanf(ran.err.c_str(), "brim: stopped at step %d; ", &stopped_at), 1);
    // What it prints, cut short, equals the run that was not stopped.
    ran = run_brim({"train", "--resume", out, "--steps", "7"});
    ASSERT_EQ(ran.code, 0) << ran.err;
    ran = run_brim(
        train({"--epochs", "100000", "--steps", std::to_string(stopped_at + 7), "--out", other}));
    ASSERT_EQ(ran.code, 0) << ran.err;
    EXPECT_EQ(slurp(out + "/model.safetensors"), slurp(other + "/model.safetensors"));
  }
}

TEST_F(Command, SecondSignalEndsAtOnceWithoutHarm) {
  const std::string out = folder / "run";
  const std::string begun = "ls " + in_quotes(out) + " 2>/dev/null | grep -q ^ch";
  const Ran ran = run_brim(train({"--epochs", "100000", "--checkpoint-every", "1", "--out", out}),
                           signal_when(begun, "INT $p; kill -INT"));
  EXPECT_EQ(ran.code, 130) << ran.err;
  EXPECT_EQ(run_brim({"train", "--resume", out, "--steps", "1"}).err, "") << "nothing is damaged";
}

TEST_F(Command, ClosedTerminalsHangUpTwice) {
  const std::string out = folder / "run";
  const std::string begun = "ls " + in_quotes(out) + " 2>/dev/null | grep -q ^ch";
  const Ran ran = run_brim(train({"--epochs", "100000", "--out", out}),
                           signal_when(begun, "HUP $p; kill -HUP"));
  EXPECT_EQ(ran.code, 129) << ran.err;
  EXPECT_NE(ran.err.find("to go on: brim train --resume " + out), std::string::npos) << ran.err;
}

TEST_F(Command, NohupIsRespected) {
  const std::string out = folder / "run";
  const std::string begun = "ls " + in_quotes(out) + " 2>/dev/null | grep -q ^ch";
  const Ran ran = run_brim(train({"--epochs", "100000", "--out", out}),
                           "trap '' HUP; " + signal_when(begun, "HUP $p; sleep 0.2; kill -INT"));
  EXPECT_EQ(ran.code, 130) << ran.err;
}

/// Shell text that makes a pipe whose reader ends after one byte.
std::string short_reader(const std::string& pipe) {
  return "mkfifo " + in_quotes(pipe) + "; ( head -c 1 <" + in_quotes(pipe) + " >/dev/null ) & ";
}

TEST_F(Command, TrainingGoesOnWithoutAReader) {
  const std::string pipe = folder / "pipe";
  Ran ran = run_brim(train({"--epochs", "9", "--json", folder / "r.json"}), short_reader(pipe),
                     ">" + in_quotes(pipe));
  EXPECT_EQ(ran.code, 1);
  EXPECT_NE(ran.err.find("standard output cannot be written"), std::string::npos) << ran.err;
  EXPECT_EQ(json::parse(slurp(folder / "r.json"))["epochs"], 9);

  const std::string out = folder / "run", ended = folder / "ended";
  const std::string begun = "ls " + in_quotes(out) + " 2>/dev/null | grep -q ^ch";
  ran = run_brim(train({"--epochs", "100000", "--out", out}),
                 short_reader(ended) + signal_when(begun, "INT"), ">" + in_quotes(ended));
  EXPECT_EQ(ran.code, 130) << ran.err;
  EXPECT_NE(ran.err.find("to go on: brim train --resume " + out), std::string::npos) << ran.err;
}

TEST_F(Command, StopTellsHowToGoOnThoughTheResultCannotBeWritten) {
  const std::string out = folder / "run";
  const Ran ran = run_brim(
      train({"--epochs", "100000", "--steps", "900000", "--out", out, "--json", "/dev/full"}),
      signal_when("ls " + in_quotes(out) + " 2>/dev/null | grep -q ^ch", "INT"));
  EXPECT_EQ(ran.code, 1) << ran.err;
  EXPECT_NE(ran.err.find("brim: error: "), std::string::npos) << ran.err;
  int stopped_at = 0;
  ASSERT_EQ(std::sscanf(ran.err.c_str(), "brim: stopped at step %d; ", &stopped_at), 1) << ran.err;
  EXPECT_NE(ran.err.find("to go on: brim train --resume " + out + " --steps " +
                         std::to_string(900000 - stopped_at) + " --data "),
            std::string::npos)
      << ran.err;
}

TEST_F(Command, EpochIsToldOnceItsCheckpointIsKept) {
  train::Recipe recipe = train::load_recipe("tutorial-cnn");
  recipe.data = folder / "data";
  recipe.epochs = 2;
  const std::string out = folder / "run";
  std::vector<bool> kept;
  const auto look = [&](const train::Progress& p) {
    if (p.report && p.epoch_step == 15)
      kept.push_back(
          fs::exists(out + (p.epoch == 0 ? "/checkpoint-00000015" : "/checkpoint-00000030")));
  };
  train::Trainer(recipe, {.workers = 0, .out = out, .progress = look}).train();
  EXPECT_EQ(kept, (std::vector<bool>{true, true}));
}

TEST_F(Command, WarningThatThrowsDoesNotEndTheTraining) {
  train::Recipe recipe = train::load_recipe("tutorial-cnn");
  recipe.data = folder / "data";
  recipe.epochs = 2;
  const std::string out = folder / "run";
  int warnings = 0;
  const auto lose_the_folder = [&](const train::Progress&) {
    fs::remove_all(out);
    std::ofstream(out) << "a file";
  };
  const auto warn = [&](const std::string&) {
    ++warnings;
    throw std::runtime_error("nobody listens");
  };
  train::Trainer trainer(recipe,
                         {.workers = 0, .out = out, .progress = lose_the_folder, .warn = warn});
  EXPECT_EQ(trainer.train().steps, 30);
  EXPECT_EQ(warnings, 1);
}

TEST_F(Command, StopWithoutAFolderKeepsNothingAndSaysSo) {
  const Ran ran = run_brim(train({"--epochs", "100000"}), signal_when("sleep 1", "TERM"));
  EXPECT_EQ(ran.code, 143) << ran.err;
  EXPECT_NE(ran.err.find("nothing was kept; with --out DIR"), std::string::npos) << ran.err;
}

TEST_F(Command, StopBeforeTheFirstStepNamesTheFolderThatHasACheckpoint) {
  const std::string old = folder / "old run", out = folder / "out";
  ASSERT_EQ(run_brim(train({"--epochs", "1", "--out", old})).code, 0);
  const std::string before = signal_when("[ -d " + in_quotes(out) + " ]", "INT");
  const Ran ran = run_brim({"train", "--resume", old, "--epochs", "9999", "--out", out}, before);
  EXPECT_EQ(ran.code, 130) << ran.err;
  const bool begun = ran.err.find("--resume " + out + " ") != std::string::npos;
  EXPECT_NE(ran.err.find(begun ? "to go on: brim train --resume " + out + " --epochs 9999"
                               : "to go on: brim train --resume " + in_quotes(old) + " --out " +
                                     out + " --epochs 9999"),
            std::string::npos)
      << ran.err;
}

TEST_F(Command, ReadingsOfSensorsFollowNoLink) {
  const std::string out = folder / "run", victim = folder / "victim";
  fs::create_directory(out);
  std::ofstream(victim) << "precious";
  fs::create_symlink(victim, out + "/monitor.jsonl");
  const Ran ran = run_brim(train({"--steps", "1", "--out", out}));
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.err.find("monitor.jsonl cannot be written"), std::string::npos) << ran.err;
  EXPECT_EQ(slurp(victim), "precious");
}

TEST_F(Command, DamagedCheckpointIsTold) {
  const std::string out = folder / "run";
  ASSERT_EQ(run_brim(train({"--epochs", "2", "--out", out})).code, 0);
  fs::remove(out + "/checkpoint-00000030/manifest.json");
  const Ran ran = run_brim({"train", "--resume", out, "--json", folder / "r.json"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.err.find("brim: warning: " + out + "/checkpoint-00000030 is damaged"),
            std::string::npos)
      << ran.err;
  EXPECT_NE(ran.out.find("going on from " + out + "/checkpoint-00000015, after step 15"),
            std::string::npos)
      << ran.out;
  const json r = json::parse(slurp(folder / "r.json"));
  EXPECT_EQ(r["resumed_from"], out + "/checkpoint-00000015");
  EXPECT_EQ(r["steps"], 15);
  EXPECT_EQ(r["total_steps"], 30);
  EXPECT_EQ(r["checkpoint_failures"], 0);
}

TEST_F(Command, ReadmeIsRight) {
  const char* root = std::getenv("BRIM_SOURCE_DIR");
  for (const char* page : {"README.md", "README.ko.md", "docs/RECIPES.md", "docs/DATA.md",
                           "docs/DEVICES.md", "docs/BENCHMARKS.md"}) {
    std::ifstream in(std::string(root ? root : ".") + "/" + page);
    ASSERT_TRUE(in) << page;
    bool code = false;
    for (std::string line; std::getline(in, line);) {
      if (line.starts_with("```")) code = line == "```sh";
      if (!code || !line.starts_with("brim ")) continue;
      std::istringstream words(line.substr(5, line.find(" #") - 5));
      std::vector<std::string> args{std::istream_iterator<std::string>(words), {}};
      // Valid, but nothing to spend time on.
      if ((args[0] == "train" || args[0] == "bench") && line.find("--json") == std::string::npos)
        args.insert(args.end(), {"--json", "/no/such/folder/r.json"});
      // Nobody answers at port 1, so nothing is downloaded.
      const Ran ran = run_brim(args,
                               "export http_proxy=http://127.0.0.1:1 "
                               "https_proxy=http://127.0.0.1:1; cd " +
                                   in_quotes(folder.path()) + ";");
      EXPECT_NE(ran.code, 2) << page << ": " << line << "\n" << ran.err;
    }
  }
}

}  // namespace
}  // namespace brim::tests
