// Several steps as one launch: the weights are those of single steps, bit for bit; reports and
// checkpoints come after whole launches. Runs on each kind of device there is.
#include <gtest/gtest.h>

#include <brim/core/sim.h>
#include <brim/train/trainer.h>

#include <string>
#include <vector>

#include "message_of.h"
#include "temporary_folder.h"
#include "train/run_folder.h"
#include "train/tiny_data.h"

namespace brim::train {
namespace {

using tests::slurp;

class StepsPerGraph : public ::testing::Test {
 protected:
  StepsPerGraph() {
    tests::write_tiny_cifar(folder / "data", 60, 10);
    recipe = load_recipe("tutorial-cnn");
    recipe.data = folder / "data";
    recipe.epochs = 2;
    recipe.batch = 7;  // 8 full batches and one of 4
    recipe.input.flip = true;
    recipe.input.crop_padding = 4;
    recipe.schedule.name = "cosine";
    recipe.optimizer.name = "adam";
    recipe.optimizer.lr = 0.001;
  }
  /// Trains and gives the weights.
  std::string train(TrainOptions options, TrainResult* result = nullptr) {
    options.data_on_device = true;
    options.out = folder / std::to_string(++runs_);
    const TrainResult r = Trainer(recipe, options).run();
    if (result) *result = r;
    return slurp(options.out + "/model.safetensors");
  }
  std::string error_of(const TrainOptions& options) {
    return tests::message_of<ValueError>([&] { const Trainer trainer(recipe, options); });
  }
  tests::TemporaryFolder folder;
  Recipe recipe;

 private:
  int runs_ = 0;
};

TEST_F(StepsPerGraph, ChangeNoBit) {
  for (const DeviceKind kind : {DeviceKind::cpu, DeviceKind::sim, DeviceKind::cuda}) {
    if (Device::count(kind) == 0) continue;
    const std::vector<Device> devices = {Device{kind, 0}};
    const TrainOptions plain{.devices = devices, .passes = "dead_code,memory"};
    TrainOptions eager = plain;
    eager.compile = false;
    const std::string single = train(plain);
    EXPECT_TRUE(train(eager) == single) << devices[0].str();
    for (const int64_t steps : {2, 3, 8, 50}) {
      TrainOptions options = plain;
      options.steps_per_graph = steps;
      TrainResult r;
      EXPECT_TRUE(train(options, &r) == single) << devices[0].str() << ", " << steps << " steps";
      EXPECT_EQ(r.steps, 18);
      EXPECT_EQ(r.images, 120);
      EXPECT_EQ(r.compile.replays, 18);
    }
  }
}

TEST_F(StepsPerGraph, ReportsAndCheckpointsComeAfterWholeLaunches) {
  std::vector<int64_t> reported;
  TrainOptions options{.steps_per_graph = 3};
  options.reports_per_epoch = 9;
  options.checkpoint = {.every_steps = 2, .every_seconds = 0, .keep = 100};
  options.progress = [&](const Progress& p) {
    if (p.report) reported.push_back(p.step);
  };
  TrainResult r;
  train(options, &r);
  // Two launches of 3, two single steps and the short batch, in each epoch.
  EXPECT_EQ(reported, (std::vector<int64_t>{3, 6, 7, 8, 9, 12, 15, 16, 17, 18}));
  EXPECT_EQ(r.checkpoints, 8);  // after steps 3, 6, 8, 9 and 12, 15, 16, 18: where 2 was passed
}

TEST_F(StepsPerGraph, ARunGoesOnFromInsideAnEpoch) {
  const std::string whole = train({.steps_per_graph = 3});
  for (const int64_t stop_after : {3, 4, 12}) {
    const std::string out = folder / ("stopped-" + std::to_string(stop_after));
    TrainOptions options{.data_on_device = true, .steps_per_graph = 3};
    options.out = out;
    options.max_steps = stop_after;
    EXPECT_EQ(Trainer(recipe, options).train().steps, stop_after);
    options.max_steps = 0;
    options.resume = out;
    options.steps_per_graph = 5;
    Trainer(recipe, options).run();
    EXPECT_TRUE(slurp(out + "/model.safetensors") == whole) << stop_after;
  }
}

TEST_F(StepsPerGraph, BadInput) {
  EXPECT_NE(error_of({.steps_per_graph = 4}).find("add TrainOptions::data_on_device"),
            std::string::npos);
  EXPECT_NE(error_of({.data_on_device = true, .steps_per_graph = 4, .compile = false})
                .find("TrainOptions::compile"),
            std::string::npos);
  for (const int64_t steps : {int64_t{0}, int64_t{-1}, int64_t{100000}})
    EXPECT_NE(
        error_of({.data_on_device = true, .steps_per_graph = steps}).find("it must be 1 to 10000"),
        std::string::npos);
}

}  // namespace
}  // namespace brim::train
