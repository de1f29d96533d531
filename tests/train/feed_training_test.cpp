// A training ends with the same bits however it is fed, also when it goes on amid an epoch and the
// other way; and what cannot be fed so says why.
#include <brim/core/allocator.h>
#include <brim/core/sim.h>
#include <brim/train/trainer.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "data/pictures.h"
#include "message_of.h"
#include "temporary_folder.h"
#include "train/tiny_data.h"

namespace brim::train {
namespace {

using tests::slurp;

class FeedTrainingTest : public ::testing::Test {
 protected:
  FeedTrainingTest() {
    tests::write_tiny_cifar(folder / "data");
    recipe = load_recipe("tutorial-cnn");
    recipe.data = folder / "data";
    recipe.epochs = 2;
    recipe.batch = 7;  // does not divide 60: the last batch is smaller
    recipe.input.flip = true;
    recipe.input.crop_padding = 4;
  }
  void TearDown() override { set_sim_options({}); }

  struct Result {
    std::string weights;
    double loss, test_loss;
    bool operator==(const Result&) const = default;
  };
  Result train(TrainOptions options, bool on_device, int64_t bytes) {
    options.out = folder / ("run-" + std::to_string(runs_++));
    Trainer trainer(recipe, options);
    const TrainResult r = trainer.run();
    EXPECT_EQ(r.augmented_on_device, on_device) << trainer.input();
    EXPECT_EQ(r.resident_bytes, bytes) << trainer.input();
    return {slurp(options.out + "/model.safetensors"), r.final_loss, r.test ? r.test->loss : -1};
  }
  static constexpr int64_t kBytes = 60 * (3072 + 8 + 16);
  tests::TemporaryFolder folder;
  Recipe recipe;

 private:
  int runs_ = 0;
};

TEST_F(FeedTrainingTest, EveryWayGivesTheSameBits) {
  for (const char* profile : {"", "h200"}) {
    for (const Device device : tests::feeding_devices()) {
      if (device.kind == DeviceKind::sim)
        set_sim_options({.profile = profile, .check = true});
      else if (*profile)
        continue;
      for (const bool compile : {true, false}) {
        TrainOptions options{.devices = {device}, .compile = compile};
        if (device.kind == DeviceKind::cuda) {  // its emulation takes its time
          if (!compile) continue;
          options.max_steps = 4;
        }
        TrainOptions host = options, raw = options, resident = options;
        host.augment_on = AugmentOn::host;
        raw.augment_on = AugmentOn::device;
        resident.data_on_device = true;
        const Result expected = train(host, false, 0);
        EXPECT_FALSE(expected.weights.empty());
        EXPECT_EQ(train(raw, true, 0), expected) << device.str() << compile;
        EXPECT_EQ(train(resident, true, kBytes), expected) << device.str() << compile;
      }
    }
  }
}

TEST_F(FeedTrainingTest, GoesOnAmidAnEpochWhicheverWay) {
  for (const Device device : {Device::cpu(), Device::sim(0)}) {
    const TrainOptions options{.devices = {device}, .augment_on = AugmentOn::host};
    const Result whole = train(options, false, 0);
    for (const bool first_resident : {true, false}) {
      const std::string run = folder / (device.str() + std::to_string(first_resident));
      const auto part = [&](bool resident, int64_t steps) {
        TrainOptions o{.devices = {device},
                       .data_on_device = resident,
                       .max_steps = steps,
                       .out = run,
                       .resume = run};
        std::filesystem::create_directories(run);
        Trainer(recipe, o).run();
      };
      part(first_resident, 4);
      part(!first_resident, 6);  // over the end of the first epoch
      part(first_resident, 0);
      EXPECT_EQ(slurp(run + "/model.safetensors"), whole.weights) << device.str();
    }
  }
}

TEST_F(FeedTrainingTest, AutomaticIsTheHostWithoutAGpu) {
  const TrainOptions options{.devices = {Device::cpu()}, .max_steps = 1};
  (void)train(options, false, 0);
}

TEST_F(FeedTrainingTest, WhatCannotBeSaysWhy) {
  const auto error_of = [&](const TrainOptions& options) {
    return tests::message_of([&] { Trainer(recipe, options).run(); });
  };
  const auto says = [&](const TrainOptions& options, const char* words) {
    const std::string error = error_of(options);
    EXPECT_NE(error.find(words), std::string::npos) << error;
  };
  says({.augment_on = AugmentOn::host, .data_on_device = true},
       "leave TrainOptions::augment_on out");
  recipe.input = {.size = 20, .random_resized_crop = true};
  says({.data_on_device = true}, "random_resized_crop");
  recipe.input = {};
  Allocator& memory = Allocator::of(Device::sim(0));
  memory.release_cached();
  memory.set_limit(memory.stats().live + (int64_t{1} << 20));
  recipe.data = "shapes10";
  says({.devices = {Device::sim(0)}, .data_on_device = true}, "10000 pictures of 3 x 32 x 32");
  memory.set_limit(0);
}

}  // namespace
}  // namespace brim::train
