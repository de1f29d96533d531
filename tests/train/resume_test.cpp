// Runs that are stopped, killed, damaged or out of disk: what goes on from a checkpoint equals the
// run that was never stopped, bit for bit, and what went wrong is told.
#include <brim/nn/dropout.h>
#include <brim/nn/models.h>
#include <brim/nn/norm.h>
#include <brim/ops/pool.h>
#include <brim/ops/unary.h>
#include <brim/train/trainer.h>
#include <brim/train/weights.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "message_of.h"
#include "temporary_folder.h"
#include "train/full_disk.h"
#include "train/run_folder.h"
#include "train/tiny_data.h"

namespace brim::train {
namespace {

namespace fs = std::filesystem;
using tests::FullDisk;
using tests::slurp;

/// Random numbers in every step, and buffers that change in every step.
struct NoisyNet : nn::Module {
  explicit NoisyNet(const nn::ModelOptions& o)
      : conv(add<nn::Conv2d>("conv", {.in = 3, .out = 4, .kernel = 5})),
        norm(add<nn::BatchNorm2d>("norm", {.features = 4})),
        fc(add<nn::Linear>("fc", {.in = 4 * 14 * 14, .out = o.classes})) {}
  Tensor forward(const Tensor& x) override {
    return fc(drop(max_pool2d(relu(norm(conv(x))), 2)).flatten(1));
  }
  nn::Conv2d& conv;
  nn::BatchNorm2d& norm;
  nn::Linear& fc;
  nn::Dropout& drop = add<nn::Dropout>("drop", {.p = 0.5});
};
const bool registered = nn::register_model(
    "noisy-net", [](const nn::ModelOptions& o) { return std::make_unique<NoisyNet>(o); });

class ResumeTest : public ::testing::Test {
 protected:
  ResumeTest() {
    tests::write_tiny_cifar(folder / "data");
    recipe.model = "noisy-net";
    recipe.data = folder / "data";
    recipe.epochs = 3;
    recipe.batch = 7;  // 9 steps an epoch; the last batch is smaller
    recipe.optimizer.lr = 0.01;
    recipe.optimizer.momentum = 0.9;
    recipe.input = {.size = 32, .crop_padding = 4, .flip = true};
    recipe.schedule.name = "cosine";
  }
  TrainOptions options(const std::string& out) {
    return {.out = out, .reports_per_epoch = 2, .warn = [this](const std::string& line) {
              warnings.push_back(line);
            }};
  }
  TrainResult train(TrainOptions o) { return Trainer(recipe, std::move(o)).run(); }
  /// Trains `steps` steps in the folder, from where it is.
  TrainResult train_part(const std::string& out, int64_t steps, int workers = -1) {
    TrainOptions o = options(out);
    o.resume = out;
    o.max_steps = steps;
    o.workers = workers;
    return train(o);
  }
  std::string error_of(const TrainOptions& o) {
    return tests::message_of([&] { train(o); });
  }
  void expect_same_end(const std::string& a, const std::string& b) {
    EXPECT_FALSE(slurp(a + "/model.safetensors").empty());
    EXPECT_EQ(slurp(a + "/model.safetensors"), slurp(b + "/model.safetensors"));
    for (const char* file : {"model", "optimizer", "schedule"})
      EXPECT_EQ(slurp(list_checkpoints(a)[0] + "/" + file + ".safetensors"),
                slurp(list_checkpoints(b)[0] + "/" + file + ".safetensors"))
          << file;
    EXPECT_EQ(slurp(list_checkpoints(a)[0] + "/state.json"),
              slurp(list_checkpoints(b)[0] + "/state.json"));
  }
  static std::vector<std::string> names_in(const std::string& path) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path)) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }
  /// Damages the newest checkpoint.
  static std::string damage(const std::string& run) {
    const std::string path = list_checkpoints(run)[0], file = path + "/optimizer.safetensors";
    std::string bytes = slurp(file);
    bytes[bytes.size() / 2] ^= 4;
    std::ofstream(file, std::ios::binary) << bytes;
    return path;
  }

  tests::TemporaryFolder folder;
  Recipe recipe;
  std::vector<std::string> warnings;
};

TEST_F(ResumeTest, ResumedRunEqualsTheUninterruptedOne) {
  for (const std::string name : {"sgd", "adamw", "rmsprop"}) {
    SCOPED_TRACE(name);
    recipe.optimizer.name = name;
    recipe.optimizer.momentum = name == "sgd" ? 0.9 : 0;
    const std::string whole = folder / ("whole-" + name), parts = folder / ("parts-" + name);
    fs::create_directories(parts);
    const TrainResult a = train(options(whole));
    EXPECT_EQ(a.steps, 27);
    EXPECT_EQ(a.epochs_done, 3);
    // Stopped within reports, at a report, at the end of an epoch, and after one step.
    int64_t done = 0;
    int workers = 0;
    TrainResult b;
    for (const int64_t steps : {2, 2, 5, 1, 10, 9}) {
      b = train_part(parts, steps, workers++ % 3);
      done = std::min<int64_t>(done + steps, 27);
      EXPECT_EQ(b.total_steps, done);
    }
    EXPECT_EQ(b.epochs_done, 3);
    EXPECT_EQ(b.total_images, 180);
    EXPECT_EQ(b.final_loss, a.final_loss);
    EXPECT_EQ(b.test->loss, a.test->loss);
    expect_same_end(whole, parts);
  }
  EXPECT_TRUE(warnings.empty());
}

TEST_F(ResumeTest, CheckpointsChangeNoBit) {
  TrainOptions often = options(folder / "often");
  often.checkpoint = {.every_steps = 1, .keep = 1};
  EXPECT_EQ(train(often).checkpoints, 27);
  EXPECT_EQ(train(options(folder / "run")).checkpoints, 3);
  expect_same_end(folder / "often", folder / "run");
}

TEST_F(ResumeTest, SkippedSamplesAreCountedOverAllRuns) {
  recipe.data = folder / "pictures";
  recipe.batch = 2;
  recipe.input.on_corrupt = "skip";
  // 24 pictures of which 8 are none: some batches lose one sample, some both.
  const auto picture = [&](const std::string& name, bool good) {
    const fs::path path = folder / ("pictures/" + name + ".png");
    fs::create_directories(path.parent_path());
    fs::copy_file(fs::path(std::getenv("BRIM_SOURCE_DIR") ? std::getenv("BRIM_SOURCE_DIR") : ".") /
                      "tests/fuzz/corpus/image/rgb.png",
                  path);
    if (!good) fs::resize_file(path, 20);
  };
  for (int i = 0; i < 24; ++i)
    picture(std::string("train/") + (i % 2 ? "a/" : "b/") + std::to_string(i), i % 3 != 0);
  picture("test/a/0", true);
  picture("test/b/0", true);
  const TrainResult a = train(options(folder / "whole"));
  EXPECT_EQ(a.skipped, 24);
  EXPECT_EQ(a.images, 48);
  fs::create_directories(folder / "parts");
  TrainResult b;
  int64_t steps = 0;
  for (int i = 0; i < 40 && b.epochs_done < 3; ++i) {
    b = train_part(folder / "parts", 1, i % 3);
    EXPECT_EQ(b.total_steps, steps += b.steps);
  }
  EXPECT_EQ(b.skipped, 24);
  EXPECT_EQ(b.total_images, 48);
  EXPECT_EQ(b.final_loss, a.final_loss);
  EXPECT_EQ(slurp(folder / "whole/model.safetensors"), slurp(folder / "parts/model.safetensors"));
}

TEST_F(ResumeTest, IntervalInStepsAndNumberKept) {
  TrainOptions o = options(folder / "run");
  o.checkpoint = {.every_steps = 4, .keep = 3};
  const TrainResult r = train(o);
  // After 4, 8, 9 (an epoch), 12, 16, 18, 20, 24, 27.
  EXPECT_EQ(r.checkpoints, 9);
  EXPECT_EQ(list_checkpoints(folder / "run")[0], folder / "run/checkpoint-00000027");
  EXPECT_TRUE(fs::exists(folder / "run/checkpoint-00000020"));
  EXPECT_FALSE(fs::exists(folder / "run/checkpoint-00000016"));
  EXPECT_GT(r.account.seconds[static_cast<size_t>(diag::Cause::checkpoint)], 0);
}

TEST_F(ResumeTest, IntervalInSeconds) {
  TrainOptions o = options(folder / "run");
  o.checkpoint = {.every_seconds = 1e-9};
  EXPECT_EQ(train(o).checkpoints, 27) << "after every step";
}

TEST_F(ResumeTest, BestIsTheEpochOfTheLowestLoss) {
  // The rate rises until the network breaks.
  recipe.schedule = {.name = "one-cycle", .max_lr = 300, .pct_start = 0.99};
  recipe.optimizer.momentum = 0;
  recipe.epochs = 4;
  TrainOptions o = options(folder / "run");
  o.checkpoint.keep = 1;
  std::vector<double> sums(4, 0);
  o.reports_per_epoch = 9;
  o.progress = [&](const Progress& p) { sums[static_cast<size_t>(p.epoch)] += p.loss; };
  train(o);
  const auto best = std::min_element(sums.begin(), sums.end()) - sums.begin();
  ASSERT_LT(best, 3) << "the last epoch would stay in any case";
  const RunState c = load_checkpoint(folder / "run/best");
  EXPECT_EQ(c.at.epoch, best + 1);
  EXPECT_NEAR(c.best.score, sums[static_cast<size_t>(best)] / 9, 1e-6);
  EXPECT_EQ(WeightsFile(folder / "run/best/model.safetensors").metadata().count("brim.recipe"), 1U);
  // Another run in the folder knows it.
  recipe.epochs = 5;
  o.resume = folder / "run";
  o.progress = {};
  train(o);
  EXPECT_EQ(load_checkpoint(folder / "run/best").at.epoch, best + 1);
}

TEST_F(ResumeTest, RestartLoopBeginsAndEnds) {
  const std::string run = folder / "a/run";
  TrainOptions o = options(run);
  o.resume = run + "/";
  o.max_steps = 20;
  EXPECT_EQ(train(o).total_steps, 20) << "the folder was not there";
  EXPECT_EQ(train(o).total_steps, 27);
  EXPECT_EQ(train(o).steps, 0);
  fs::create_directories(folder / "empty");
  o = {.resume = folder / "empty"};
  Trainer trainer(recipe, o);
  EXPECT_EQ(trainer.resumed_from(), "");
  EXPECT_NE(error_of({.out = run, .resume = folder / "absent"}).find("there is no folder"),
            std::string::npos);
  std::ofstream(folder / "file") << "x";
  EXPECT_NE(error_of({.out = folder / "file", .resume = folder / "file"}).find("file"),
            std::string::npos);
}

TEST_F(ResumeTest, TrainedNetworkWithoutCheckpointIsNotOverwritten) {
  fs::create_directories(folder / "run");
  std::ofstream(folder / "run/model.safetensors") << "precious";
  const std::string text = error_of({.out = folder / "run", .resume = folder / "run"});
  EXPECT_NE(text.find("holds a trained network already"), std::string::npos) << text;
}

TEST_F(ResumeTest, WeightsReplaceALink) {
  const std::string run = folder / "run";
  train_part((fs::create_directories(run), run), 3);
  fs::remove(run + "/model.safetensors");
  std::ofstream(folder / "victim") << "precious";
  fs::create_symlink(folder / "victim", run + "/model.safetensors");
  train_part(run, 1);
  EXPECT_EQ(slurp(folder / "victim"), "precious");
  EXPECT_NO_THROW(WeightsFile{run + "/model.safetensors"});
}

TEST_F(ResumeTest, WhatAKilledRunLeftIsRemoved) {
  const std::string run = folder / "run";
  train_part((fs::create_directories(run), run), 3);
  fs::create_directories(run + "/.checkpoint-00000005.brim-99-1.tmp/x");
  std::ofstream(run + "/.model.safetensors.brim-99-2.tmp") << "x";
  train_part(run, 1);
  EXPECT_EQ(names_in(run), (std::vector<std::string>{"checkpoint-00000003", "checkpoint-00000004",
                                                     "model.safetensors"}));
}

TEST_F(ResumeTest, TwoRunsInOneFolder) {
  Trainer first(recipe, options(folder / "run"));
  const std::string text = error_of({.out = folder / "run", .resume = folder / "run"});
  EXPECT_NE(text.find("is training in"), std::string::npos) << text;
}

TEST_F(ResumeTest, DamagedCheckpointIsToldAndAnOlderOneTaken) {
  const std::string run = folder / "run";
  train(options(folder / "whole"));
  fs::create_directories(run);
  train_part(run, 5);
  train_part(run, 5);
  const std::string damaged = damage(run);
  const TrainResult r = train_part(run, 0);
  EXPECT_EQ(r.steps, 27 - 9) << "5 and the end of the epoch at 9 stay, 10 is damaged";
  ASSERT_EQ(warnings.size(), 2U);
  EXPECT_NE(warnings[0].find(damaged + " is damaged and not used"), std::string::npos);
  EXPECT_NE(warnings[0].find("optimizer.safetensors differs"), std::string::npos) << warnings[0];
  EXPECT_NE(warnings[1].find("going on from the older checkpoint " + run + "/checkpoint-00000009"),
            std::string::npos)
      << warnings[1];
  EXPECT_TRUE(fs::exists(damaged + ".damaged"));
  expect_same_end(folder / "whole", run);
}

TEST_F(ResumeTest, NoSoundCheckpointIsAnError) {
  const std::string run = folder / "run";
  train_part((fs::create_directories(run), run), 5);
  const std::string damaged = damage(run);
  const std::vector<std::string> before = names_in(run);
  for (const std::string& text : {error_of({.resume = run}), error_of({.out = run, .resume = run})})
    EXPECT_NE(text.find("no checkpoint is sound (the newest: "), std::string::npos) << text;
  EXPECT_EQ(names_in(run), before) << "nothing was changed";
  EXPECT_THROW((void)checkpoint_recipe(run), FileError);
}

TEST_F(ResumeTest, AmidAnEpochTheDataMustBeTheSame) {
  const std::string run = folder / "run";
  train_part((fs::create_directories(run), run), 5);
  tests::write_tiny_cifar(folder / "data", 70);
  const std::string text = error_of({.resume = run});
  EXPECT_NE(text.find("amid an epoch of 60 samples"), std::string::npos) << text;
}

TEST_F(ResumeTest, FullDiskDoesNotEndTheTraining) {
  train(options(folder / "whole"));
  FullDisk disk;
  TrainOptions o = options(folder / "run");
  o.checkpoint = {.every_steps = 1};
  o.tick_seconds = 0;
  o.progress = [&](const Progress& p) {
    if (p.step == 4 || p.step == 20) disk.set(true);
    if (p.step == 10) {
      EXPECT_EQ(names_in(folder / "run"),
                (std::vector<std::string>{"checkpoint-00000003", "checkpoint-00000004"}));
      EXPECT_NO_THROW((void)load_checkpoint(folder / "run/checkpoint-00000004"));
      disk.set(false);
    }
    if (p.step == 25) disk.set(false);
  };
  const TrainResult r = train(o);
  EXPECT_EQ(r.steps, 27);
  EXPECT_EQ(r.checkpoint_failures, 6 + 5);
  EXPECT_EQ(r.checkpoints, 27 - 11);
  ASSERT_EQ(warnings.size(), 4U) << "each event once, and its end";
  EXPECT_NE(warnings[0].find("the checkpoint of step 5 could not be written"), std::string::npos)
      << warnings[0];
  EXPECT_NE(warnings[1].find("checkpoints are written again (step 11)"), std::string::npos)
      << warnings[1];
  EXPECT_EQ(slurp(folder / "whole/model.safetensors"), slurp(folder / "run/model.safetensors"));
}

TEST_F(ResumeTest, WeightsThatCannotBeWrittenAreAnError) {
  FullDisk disk;
  TrainOptions o = options(folder / "run");
  o.max_steps = 12;
  Trainer trainer(recipe, o);
  EXPECT_EQ(trainer.train().steps, 12);
  disk.set(true);
  EXPECT_THROW(trainer.save(), FileError);
  disk.set(false);
  EXPECT_FALSE(fs::exists(folder / "run/model.safetensors"));
  EXPECT_EQ(list_checkpoints(folder / "run").size(), 2U);
}

TEST_F(ResumeTest, DivergedNetworkIsNotSaved) {
  recipe.model = "tutorial-cnn";
  recipe.optimizer.lr = 1e9;
  TrainOptions o = options(folder / "run");
  o.checkpoint.every_steps = 1;
  o.reports_per_epoch = 1;
  const std::string text = error_of(o);
  EXPECT_NE(text.find("lower learning rate"), std::string::npos) << text;
  for (const std::string& path : list_checkpoints(folder / "run"))
    EXPECT_TRUE(std::isfinite(load_checkpoint(path).at.unreported.sum)) << path;
}

TEST_F(ResumeTest, OptionsOutOfRange) {
  TrainOptions o = options(folder / "run");
  o.checkpoint.keep = 0;
  EXPECT_NE(error_of(o).find("must be 1 or more"), std::string::npos);
  o.checkpoint = {.every_steps = -1};
  EXPECT_NE(error_of(o).find("below 0"), std::string::npos);
}

TEST_F(ResumeTest, ACheckpointOfNoDevicesIsDamaged) {
  const std::string run = folder / "run";
  train_part((fs::create_directories(run), run), 5);
  const std::string path = list_checkpoints(run)[0];
  RunState state = load_checkpoint(path);
  fs::remove_all(path);
  state.devices = "teapot:0";
  save_checkpoint(run, state.at.steps, state.best, 2, writer_of(state));
  EXPECT_THROW(Trainer(recipe, options(run)), FileError);
  EXPECT_NE(error_of({.resume = run}).find("names no devices: 'teapot:0'"), std::string::npos);
}

TEST_F(ResumeTest, AnotherKindOfDeviceIsTold) {
  if (Device::count("sim") < 1) GTEST_SKIP() << "needs a virtual accelerator";
  recipe.model = "tutorial-cnn";
  const std::string run = folder / "run";
  TrainOptions o = options(run);
  o.max_steps = 2;
  o.devices = {Device::sim(0)};
  train(o);
  train_part(run, 1);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("was trained on sim:0 and goes on on cpu"), std::string::npos);
}

TEST_F(ResumeTest, StepsCompiledOtherwiseAreRefusedOrTold) {
  const auto go_on = [&](const std::string& run, bool compile, const std::string& passes) {
    TrainOptions o = options(run);
    o.resume = run;
    o.max_steps = 1;
    o.compile = compile;
    o.passes = passes;
    return o;
  };
  const std::string run = folder / "run";
  fs::create_directories(run);
  train(go_on(run, true, "-layout,-softmax_cross_entropy"));
  for (TrainOptions& o : std::vector{go_on(run, false, ""), go_on(run, true, "-layout"),
                                     go_on(run, true, "layout,softmax_cross_entropy")}) {
    const std::string text = error_of(o);
    EXPECT_NE(text.find("was trained with TrainOptions::compile=on "
                        "TrainOptions::passes=-layout,-softmax_cross_entropy, and now it is"),
              std::string::npos)
        << text;
  }
  train(go_on(run, true, "-softmax_cross_entropy,-layout"));
  EXPECT_TRUE(warnings.empty()) << warnings[0];
  TrainOptions eager = go_on(run, false, "");
  eager.change_compile = true;
  EXPECT_EQ(train(eager).total_steps, 3);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("goes on with TrainOptions::compile=off: its weights will differ"),
            std::string::npos)
      << warnings[0];
  train(go_on(run, false, "-layout"));  // passes are of plans
  EXPECT_EQ(warnings.size(), 1U);
}

TEST_F(ResumeTest, ACheckpointIsNoRun) {
  const std::string run = folder / "run";
  fs::create_directories(run);
  train_part(run, 2);
  const std::string error =
      error_of({.out = folder / "other", .resume = run + "/checkpoint-00000002"});
  EXPECT_NE(error.find("is a checkpoint itself"), std::string::npos) << error;
}

TEST_F(ResumeTest, AnotherFolderHasABestOfItsOwn) {
  const std::string a = folder / "a", b = folder / "b";
  recipe.optimizer.lr = 0.05;
  TrainOptions o = options(a);
  o.max_steps = 9;  // one epoch
  train(o);
  o = options(b);
  o.resume = a;
  train(o);
  EXPECT_TRUE(fs::exists(b + "/best/manifest.json"));
}

}  // namespace
}  // namespace brim::train
