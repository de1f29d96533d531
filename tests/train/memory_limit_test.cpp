// Trainings under a limit of memory learn the same, bit for bit, whatever they are combined with.
#include <brim/core/allocator.h>
#include <brim/core/sim.h>
#include <brim/train/forecast.h>
#include <brim/train/trainer.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "message_of.h"
#include "sanitized.h"
#include "temporary_folder.h"
#include "train/tiny_data.h"

namespace brim::train {
namespace {

using Weights = std::vector<float>;

class MemoryLimit : public ::testing::Test {
 protected:
  MemoryLimit() {
    tests::write_tiny_cifar(folder / "data", 96);
    recipe = load_recipe("tutorial-cnn");
    recipe.model = "resnet18-cifar";  // a small one has little but gradients of its weights
    recipe.data = folder / "data";
    recipe.batch = 16;
    recipe.optimizer.lr = 0.01;
    options.devices = {Device::sim(0)};
    options.max_steps = BRIM_SANITIZED ? 2 : 4;
  }
  void SetUp() override {
    const std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    if (BRIM_SANITIZED && name != "ChangesNoBit") GTEST_SKIP() << "a sanitizer takes long for it";
  }
  ~MemoryLimit() override { set_limit(0); }
  void set_limit(int64_t bytes) const {
    for (const Device device : options.devices) Allocator::of(device).set_limit(bytes);
  }
  struct Trained {
    Weights weights;
    CompileStats compile;
    int64_t peak = 0;  ///< live bytes of the first device, without what was there before
  };
  Trained train(int64_t limit = 0) const {
    Allocator& memory = Allocator::of(options.devices[0]);
    memory.release_cached();
    memory.reset_peak();
    const int64_t before = memory.stats().live;
    set_limit(limit > 0 ? before + limit : 0);
    Trainer trainer(recipe, options);
    Trained result{.weights = {}, .compile = trainer.train().compile};
    for (const auto& [_, t] : trainer.model().state_dict()) {
      const Weights v = t.detach().to(Device::cpu()).to(f32).to_vector<float>();
      result.weights.insert(result.weights.end(), v.begin(), v.end());
    }
    result.peak = memory.stats().peak_live - before;
    set_limit(0);
    return result;
  }
  /// A limit that leaves so much of what temporaries take.
  static int64_t limit_of(const Trained& free, double share) {
    const auto arena = static_cast<double>(free.compile.arena_bytes);
    return free.peak - static_cast<int64_t>((1 - share) * arena);
  }
  /// Without a limit, and with one.
  void expect_same(double share = 0.6) const {
    const Trained free = train();
    const int64_t limit = limit_of(free, share);
    const Trained limited = train(limit);
    EXPECT_LT(limited.compile.arena_bytes, free.compile.arena_bytes);
    EXPECT_GT(limited.compile.host_bytes, 0);
    EXPECT_LE(limited.peak, limit);
    EXPECT_TRUE(limited.weights == free.weights);
  }
  tests::TemporaryFolder folder;
  Recipe recipe;
  TrainOptions options;
};

TEST_F(MemoryLimit, ChangesNoBit) { expect_same(); }

/// What `brim plan` says is what a training takes, loader and optimizer included.
TEST_F(MemoryLimit, IsPredicted) {
  struct Profile {
    Profile() {
      SimOptions options = before;
      options.profile = "t4";
      options.paced = false;
      set_sim_options(options);
    }
    ~Profile() { set_sim_options(before); }
    const SimOptions before = sim_options();
  } const profile;
  Allocator::of(options.devices[0]).release_cached();  // as in a process of its own
  ForecastOptions planned{.batch = recipe.batch, .device = options.devices[0], .outputs = 10};
  const Forecast free = forecast(recipe, planned);
  for (const double share : {0.85, 0.7, 0.6}) {
    planned.memory_limit =
        free.memory -
        static_cast<int64_t>((1 - share) * static_cast<double>(free.step.arena_bytes));
    const Forecast fitted = forecast(recipe, planned);
    ASSERT_TRUE(fitted.fit && fitted.fit->fits) << share;
    const Trained trained = train(planned.memory_limit);
    EXPECT_NEAR(static_cast<double>(trained.peak), static_cast<double>(fitted.memory),
                0.001 * static_cast<double>(fitted.memory))
        << share;
    EXPECT_LE(trained.peak, planned.memory_limit) << share;
  }
}

TEST_F(MemoryLimit, NorWithMixedPrecision) {
  recipe.precision = "bf16";
  expect_same(0.75);  // the rest is gradients of weights
}

TEST_F(MemoryLimit, NorWithALossScale) {
  recipe.precision = "fp16";
  expect_same(0.75);  // the rest is gradients of weights
}

TEST_F(MemoryLimit, NorInVirtualRanks) {
  recipe.virtual_ranks = 2;
  expect_same();
}

TEST_F(MemoryLimit, NorOnSeveralDevices) {
  options.devices = {Device::sim(0), Device::sim(1)};
  recipe.batch = 32;
  expect_same(0.75);
}

/// Plans of whole batches and of the last one, which has fewer samples, take turns.
TEST_F(MemoryLimit, NorWithAShortLastBatch) {
  recipe.batch = 36;
  options.max_steps = 5;  // 36, 36, 24, 36, 36
  const Trained free = train();
  const int64_t limit = limit_of(free, 0.6);
  const Trained limited = train(limit);
  EXPECT_LE(limited.peak, limit);
  EXPECT_TRUE(limited.weights == free.weights);
}

TEST_F(MemoryLimit, NorInSeveralStepsOfALaunch) {
  options.data_on_device = true;
  options.steps_per_graph = 2;
  expect_same();
}

/// A run goes on under another limit as it would have without.
TEST_F(MemoryLimit, IsNoPartOfARun) {
  const Trained free = train();
  const int64_t limit = limit_of(free, 0.6);
  options.out = folder / "run";
  options.max_steps = 2;
  (void)train(limit);
  options.resume = options.out;
  const Trained resumed = train();
  EXPECT_TRUE(resumed.weights == free.weights);
}

TEST_F(MemoryLimit, OfTheHostHasItComputedAgain) {
  options.devices = {Device::cpu()};
  const Trained free = train();
  const Trained limited = train(limit_of(free, 0.85));
  EXPECT_LT(limited.compile.arena_bytes, free.compile.arena_bytes);
  EXPECT_EQ(limited.compile.host_bytes, 0);
  EXPECT_TRUE(limited.weights == free.weights);
}

/// An evaluation has the memory of the steps, and where that is not enough takes fewer samples.
TEST_F(MemoryLimit, LeavesRoomForEvaluation) {
  const Trained free = train();
  const TrainResult with_room = Trainer(recipe, options).run();
  Allocator& memory = Allocator::of(options.devices[0]);
  memory.release_cached();
  set_limit(memory.stats().live + limit_of(free, 0.6));
  const TrainResult limited = Trainer(recipe, options).run();
  ASSERT_TRUE(limited.test && with_room.test);
  EXPECT_NEAR(limited.test->loss, with_room.test->loss, 1e-6);
  EXPECT_EQ(limited.test->samples, with_room.test->samples);
}

TEST_F(MemoryLimit, ThatIsTooLowIsAnErrorWithNumbers) {
  const Trained free = train();
  const std::string message =
      tests::message_of<OutOfMemory>([&] { (void)train(limit_of(free, 0.05)); });
  EXPECT_NE(message.find("temporaries need about"), std::string::npos) << message;
}

}  // namespace
}  // namespace brim::train
