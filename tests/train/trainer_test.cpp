// The trainer: resume and the number of workers change no bit, limits and stops are kept, and what
// cannot be trained says so.
#include <brim/nn/models.h>
#include <brim/ops/reduce.h>
#include <brim/train/trainer.h>
#include <brim/train/weights.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "message_of.h"
#include "temporary_folder.h"
#include "train/build.h"
#include "train/run_folder.h"
#include "train/tiny_data.h"

namespace brim::train {
namespace {

namespace fs = std::filesystem;
using tests::slurp;

class TrainerTest : public ::testing::Test {
 protected:
  TrainerTest() {
    tests::write_tiny_cifar(folder / "data");
    recipe = load_recipe("tutorial-cnn");
    recipe.data = folder / "data";
    recipe.epochs = 3;
    recipe.batch = 7;  // does not divide 60: the last batch is smaller
    recipe.optimizer.lr = 0.01;
    recipe.input.flip = true;
    recipe.input.crop_padding = 4;
    recipe.schedule.name = "cosine";
  }
  std::string error_of(const TrainOptions& options) {
    return tests::message_of([&] { Trainer(recipe, options).run(); });
  }
  tests::TemporaryFolder folder;
  Recipe recipe;
};

TEST_F(TrainerTest, NumberOfWorkersChangesNoBit) {
  std::string first;
  for (const int workers : {0, 1, 2, 4}) {
    const std::string out = folder / ("workers-" + std::to_string(workers));
    Trainer(recipe, {.workers = workers, .out = out}).run();
    const std::string weights = slurp(out + "/model.safetensors");
    EXPECT_FALSE(weights.empty());
    if (first.empty()) first = weights;
    EXPECT_EQ(weights, first) << workers << " workers";
  }
}

TEST_F(TrainerTest, RandomResizedCropIsForTrainingOnly) {
  recipe.input = {.size = 20, .random_resized_crop = true};
  for (const bool training : {true, false}) {
    const data::Loader loader =
        make_loader(recipe, data::Split::train, training, 0, data::OpenProgress{});
    EXPECT_EQ(loader.sample_shape(), (data::ImageShape{3, 20, 20}));
    std::vector<float> first, second;
    for (const data::Batch& b : loader.epoch(0)) first.push_back(b.x.to_vector<float>()[0]);
    for (const data::Batch& b : loader.epoch(1)) second.push_back(b.x.to_vector<float>()[0]);
    EXPECT_EQ(first == second, !training);
  }
}

TEST_F(TrainerTest, GradientsOfAnEpochsLastStepAreKeptAndChangeNoBit) {
  struct Case {
    const char* network;
    int64_t batch;
    bool on_device;
    int64_t plans, plans_that_keep;
  };
  for (const auto& [network, batch, on_device, plans, plans_that_keep] :
       {Case{"tutorial-cnn", 7, false, 2, 2},  // the last batch is smaller
        Case{"cifar-resnet8", 7, false, 2, 2}, Case{"tutorial-cnn", 10, false, 1, 2},
        Case{"tutorial-cnn", 7, true, 2, 2}, Case{"tutorial-cnn", 10, true, 1, 2}}) {
    recipe.model = network;
    recipe.batch = batch;
    const std::string name = fmt::format("{}-{}{}", network, batch, on_device ? "-on-device" : "");
    std::string without;
    for (const bool keep : {false, true}) {
      const std::string out = folder / (name + std::string(keep ? "-kept" : ""));
      std::vector<bool> kept;
      Trainer* running = nullptr;
      TrainOptions options{.data_on_device = on_device,
                           .steps_per_graph = on_device ? 4 : 1,
                           .out = out,
                           .keep_gradients = keep};
      options.progress = [&](const Progress& p) {
        if (!p.epoch_done) return;
        const std::vector<Tensor> parameters = running->model().parameters();
        kept.push_back(std::ranges::all_of(parameters, [](const Tensor& parameter) {
          return parameter.grad().defined() && std::isfinite(sum(parameter.grad()).item());
        }));
      };
      Trainer trainer(recipe, options);
      running = &trainer;
      const TrainResult result = trainer.run();
      EXPECT_EQ(kept, std::vector<bool>(3, keep)) << name;
      EXPECT_EQ(result.compile.plans, keep ? plans_that_keep : plans) << name;
      EXPECT_EQ(result.compile.replays, result.steps) << name;
      const std::string weights = slurp(out + "/model.safetensors");
      EXPECT_TRUE(!keep || weights == without) << name;
      without = weights;
    }
  }
}

/// Which bits it changes depends on the room of each device.
TEST_F(TrainerTest, RoundingIsRefusedWhereAnyNumberOfDevicesHasTheSameBits) {
  recipe.virtual_ranks = 2;
  recipe.batch = 8;
  const std::string error = error_of({.passes = "+round_activations"});
  EXPECT_NE(error.find("the bits would not be those of 2 virtual ranks"), std::string::npos)
      << error;
}

TEST_F(TrainerTest, SeedDecidesTheWeights) {
  const auto weights = [&](uint64_t seed, const char* name) {
    recipe.seed = seed;
    Trainer(recipe, {.max_steps = 1, .out = folder / name}).run();
    return slurp(folder / (std::string(name) + "/model.safetensors"));
  };
  EXPECT_EQ(weights(5, "a"), weights(5, "b"));
  EXPECT_NE(weights(5, "c"), weights(6, "d"));
}

TEST_F(TrainerTest, LearnsAndReportsPerClass) {
  recipe.epochs = 8;
  recipe.input.flip = false;
  recipe.input.crop_padding = 0;
  recipe.optimizer.lr = 0.02;
  recipe.schedule.name = "constant";
  double last_loss = 0;
  int64_t reports = 0;
  const TrainResult r = Trainer(recipe, {.progress =
                                             [&](const Progress& p) {
                                               reports += p.report;
                                               if (p.report) last_loss = p.loss;
                                               EXPECT_LE(p.step, p.steps);
                                             }})
                            .run();
  EXPECT_GT(reports, 8);
  EXPECT_EQ(last_loss, r.final_loss);
  EXPECT_LT(r.final_loss, 1.5);
  ASSERT_TRUE(r.test);
  EXPECT_EQ(r.test->samples, 20);
  ASSERT_EQ(r.test->classes.size(), 10U);
  int64_t correct = 0;
  for (const auto& c : r.test->classes) {
    EXPECT_EQ(c.samples, 2);
    correct += c.correct;
  }
  EXPECT_DOUBLE_EQ(r.test->accuracy(), static_cast<double>(correct) / 20);
  EXPECT_GE(r.test->accuracy(), 0.5);
  EXPECT_GT(r.us_per_step, 0);
  EXPECT_GT(r.account.fraction(diag::Cause::compute), 0);
}

TEST_F(TrainerTest, WeightsFileKnowsItsRecipeAndClasses) {
  Trainer trainer(recipe, {.max_steps = 1, .out = folder / "run"});
  trainer.run();
  const std::string path = folder / "run/model.safetensors";
  const WeightsInfo info = read_weights_info(WeightsFile(path));
  ASSERT_TRUE(info.recipe);
  EXPECT_EQ(info.recipe->toml(), recipe.toml());
  EXPECT_EQ(info.recipe->name, "tutorial-cnn");
  EXPECT_EQ(info.classes, trainer.loader().source().classes());

  const std::string other = folder / "other.safetensors";
  for (const std::string& classes : {"[\"a\"]" + std::string(1, '\0') + "junk", std::string("[[]]"),
                                     std::string("[1]"), std::string("{}"), std::string("")}) {
    io::save_safetensors(other, {}, {{"brim.classes", classes}});
    EXPECT_THROW((void)read_weights_info(WeightsFile(other)), FileError) << classes;
  }
}

TEST_F(TrainerTest, StopFinishesTheStepAndWritesACheckpointButNoModel) {
  std::atomic<int> stop{0};
  TrainOptions options{.out = folder / "run", .tick_seconds = 0, .stop = &stop};
  options.progress = [&](const Progress& p) {
    if (p.step == 12) stop = 2;
  };
  const TrainResult r = Trainer(recipe, options).run();
  EXPECT_TRUE(r.stopped);
  EXPECT_EQ(r.steps, 13);
  EXPECT_FALSE(r.test);
  EXPECT_TRUE(fs::exists(folder / "run/checkpoint-00000013"));
  EXPECT_FALSE(fs::exists(folder / "run/model.safetensors"));
}

TEST_F(TrainerTest, StopBeforeTheFirstStep) {
  const std::atomic<int> stop{2};
  const TrainResult r = Trainer(recipe, {.out = folder / "run/below", .stop = &stop}).run();
  EXPECT_TRUE(r.stopped);
  EXPECT_EQ(r.steps, 0);
  EXPECT_FALSE(fs::exists(folder / "run"));
}

TEST_F(TrainerTest, StopInTheEvaluation) {
  std::atomic<int> stop{0};
  TrainOptions options{.out = folder / "run", .stop = &stop};
  options.stage = [&](const std::string& stage, double) { stop = stage == "evaluate" ? 2 : 0; };
  const TrainResult r = Trainer(recipe, options).run();
  EXPECT_EQ(r.epochs_done, 3);
  EXPECT_FALSE(r.stopped);
  EXPECT_FALSE(r.test);
  EXPECT_TRUE(fs::exists(folder / "run/model.safetensors"));
}

TEST_F(TrainerTest, DamagedTestSplitIsFoundBeforeTheTraining) {
  fs::resize_file(folder / "data/test_batch.bin", 10000);
  int steps = 0;
  const std::string text = error_of({.out = folder / "new", .first_step = [&] { ++steps; }});
  EXPECT_NE(text.find("test_batch.bin: 10000 bytes"), std::string::npos) << text;
  EXPECT_EQ(steps, 0);
  EXPECT_FALSE(fs::exists(folder / "new"));
}

TEST_F(TrainerTest, NotOneReadablePicture) {
  recipe.input.on_corrupt = "skip";
  recipe.data = folder / "pictures";
  for (const char* name : {"train/a/0.png", "train/b/0.png", "test/a/0.png"}) {
    fs::create_directories(fs::path(folder / "pictures") / fs::path(name).parent_path());
    std::ofstream(fs::path(folder / "pictures") / name) << "no picture";
  }
  const std::string text = error_of({.out = folder / "new/below"});
  EXPECT_NE(text.find("pictures: not one of its 2 samples could be read"), std::string::npos)
      << text;
  EXPECT_FALSE(fs::exists(folder / "new"));
  const auto model = nn::make_model(recipe.model, {.classes = 2});
  EXPECT_THROW((void)evaluate(*model, make_loader(recipe, data::Split::test, false), Device::cpu()),
               FileError);
  EXPECT_TRUE(model->training());
}

TEST_F(TrainerTest, ResumeRefusesOtherClasses) {
  recipe.epochs = 1;
  Trainer(recipe, {.out = folder / "run"}).run();
  std::ofstream(folder / "data/batches.meta.txt")
      << "airplane\nautomobile\ncat\nbird\ndeer\ndog\nfrog\nhorse\nship\ntruck\n";
  const std::string text = error_of({.resume = folder / "run"});
  EXPECT_NE(text.find("class 2 was 'bird' and is 'cat' now"), std::string::npos) << text;
}

TEST_F(TrainerTest, FinishedNetworkIsNotOverwritten) {
  recipe.epochs = 1;
  Trainer(recipe, {.max_steps = 2, .out = folder / "short"}).run();
  Trainer(recipe, {.out = folder / "run"}).run();
  for (const std::string& path : list_checkpoints(folder / "short")) fs::remove_all(path);
  const std::string kept = slurp(folder / "short/model.safetensors");
  for (const char* resume : {"", "run"}) {
    const std::string text =
        error_of({.out = folder / "short", .resume = *resume ? folder / resume : std::string()});
    EXPECT_NE(text.find("short holds a trained network already"), std::string::npos) << text;
  }
  EXPECT_EQ(slurp(folder / "short/model.safetensors"), kept);
  EXPECT_EQ(error_of({.out = folder / "run/", .resume = folder / "run"}), "no error");
}

TEST_F(TrainerTest, DataWithoutTestSplitHasNoAccuracy) {
  tests::write_tiny_cifar(folder / "train-only", 20, 0);
  recipe.data = folder / "train-only";
  EXPECT_FALSE(Trainer(recipe, {.max_steps = 1}).run().test);
}

TEST_F(TrainerTest, FinishedRunIsGoneOnWithForMoreEpochs) {
  recipe.epochs = 1;
  recipe.schedule.name = "constant";
  const TrainResult first = Trainer(recipe, {.out = folder / "run"}).run();
  const TrainResult none = Trainer(recipe, {.resume = folder / "run"}).run();
  EXPECT_EQ(none.steps, 0);
  EXPECT_EQ(none.final_loss, first.final_loss);
  EXPECT_EQ(none.total_steps, 9);
  ASSERT_TRUE(none.test);
  recipe.epochs = 2;
  EXPECT_EQ(Trainer(recipe, {.resume = folder / "run"}).run().steps, 9);
  recipe.epochs = 1;
  const std::string text = error_of({.resume = folder / "run"});
  EXPECT_NE(text.find("has 2 epochs behind it, more than the 1 asked for"), std::string::npos)
      << text;
}

TEST_F(TrainerTest, Errors) {
  recipe.epochs = 1;
  Trainer(recipe, {.out = folder / "run"}).run();
  EXPECT_NE(error_of({.out = folder / "run"}).find("holds a checkpoint already"),
            std::string::npos);
  EXPECT_NE(error_of({.resume = folder / "empty"}).find("there is no folder"), std::string::npos);
  EXPECT_FALSE(fs::exists(folder / "empty"));
  EXPECT_NE(error_of({.devices = {Device::cuda(5)}}).find("cuda:5"), std::string::npos);
  recipe.optimizer.lr = 0.5;
  EXPECT_NE(error_of({.resume = folder / "run"}).find("lr = 0.01"), std::string::npos)
      << error_of({.resume = folder / "run"});
  recipe.optimizer.lr = 1e9;
  EXPECT_NE(error_of({.out = folder / "diverged"}).find("lower learning rate"), std::string::npos);
  EXPECT_FALSE(fs::exists(folder / "diverged"));
  recipe.data = folder / "nowhere";
  EXPECT_NE(error_of({.out = folder / "new"}).find("nowhere"), std::string::npos);
  EXPECT_FALSE(fs::exists(folder / "new"));
}

}  // namespace
}  // namespace brim::train
