// Forecasts whose kernels are measured where they run.
#include <brim/brim.h>
#include <brim/core/threads.h>
#include <brim/train/forecast.h>
#include <gtest/gtest.h>

#include "threads.h"

namespace brim {
namespace {

double total_difference(const Tensor& a, const Tensor& b) { return sum(abs(a - b)).item(); }

class MeasuredForecast : public ::testing::Test {
 protected:
  MeasuredForecast() : optimizer({{"w", w}}, {.lr = 0.1, .momentum = 0.9}) {}
  Tensor step(const Tensor& x) {
    optimizer.zero_grad();
    Tensor loss = mean(tanh(matmul(x, w)));
    loss.backward();
    optimizer.step();
    return loss;
  }
  Tensor w = randn({256, 256}).set_requires_grad(true);
  optim::SGD optimizer;
};

TEST_F(MeasuredForecast, AddsUpWhatKernelsTakeHere) {
  auto compiled = compile([&](const Tensor& x) { return step(x); });
  const Tensor x = randn({64, 256}), before = x.clone(), weights = w.detach().clone();
  const StepForecast modelled = compiled.forecast(x), measured = compiled.measured_forecast(x);
  EXPECT_EQ(measured.kernels, modelled.kernels);
  EXPECT_GT(measured.compute, 1e-6);
  EXPECT_NE(measured.compute, modelled.compute);
  EXPECT_DOUBLE_EQ(measured.step, measured.compute);
  EXPECT_EQ(measured.communication, 0);
  EXPECT_EQ(measured.arena_bytes, modelled.arena_bytes);
  EXPECT_EQ(total_difference(x, before), 0);
  EXPECT_GT(total_difference(w.detach(), weights), 0);  // the steps were run
  // And the plan goes on with the values as they are.
  const Tensor now = w.detach().clone();
  (void)compiled(x);
  EXPECT_GT(total_difference(w.detach(), now), 0);
}

TEST_F(MeasuredForecast, DrawsNoneOfTheProgramsNumbers) {
  auto compiled = compile([&](const Tensor& x) { return sum(dropout(x, 0.5)); });
  const Tensor x = randn({64, 256});
  (void)compiled.forecast(x);
  const RandomKey before = Generator::global().state();
  EXPECT_GT(compiled.measured_forecast(x).compute, 0);
  EXPECT_EQ(Generator::global().state().offset, before.offset);
}

TEST_F(MeasuredForecast, TakesInputsWithGaps) {
  auto compiled = compile([&](const Tensor& x) { return step(x); });
  EXPECT_GT(compiled.measured_forecast(randn({256, 64}).transpose(0, 1)).compute, 0);
}

train::Recipe small_recipe() {
  train::Recipe recipe = train::load_recipe("tutorial-cnn");
  recipe.virtual_ranks = 0;
  return recipe;
}

TEST(MeasuredTraining, DrawsNoneOfTheProgramsNumbers) {
  const RandomKey before = Generator::global().state();
  const train::Forecast f = train::forecast(
      small_recipe(), {.batch = 4, .kernels = KernelTimes::measured, .outputs = 10});
  EXPECT_GT(f.step.compute, 0);
  EXPECT_EQ(f.seconds_per_step, f.step.step);
  const RandomKey after = Generator::global().state();
  EXPECT_EQ(after.seed, before.seed);
  EXPECT_EQ(after.offset, before.offset);
}

TEST(MeasuredTraining, TakesTheMemoryThatIsModelled) {
  const train::ForecastOptions options{.batch = 32, .outputs = 10};
  train::ForecastOptions measured = options;
  measured.kernels = KernelTimes::measured;
  EXPECT_EQ(train::forecast(small_recipe(), measured).memory,
            train::forecast(small_recipe(), options).memory);
}

TEST(MeasuredTraining, SharesTheCoresWithWorkers) {
  const tests::Threads all(available_cpus());  // none is left for workers
  const auto with = [](double seconds_per_sample) {
    return train::forecast(small_recipe(), {.batch = 4,
                                            .kernels = KernelTimes::measured,
                                            .seconds_per_sample = seconds_per_sample,
                                            .outputs = 10});
  };
  const train::Forecast slow = with(0.25);
  EXPECT_DOUBLE_EQ(slow.shared, 1);
  EXPECT_DOUBLE_EQ(slow.seconds_per_step, slow.step.step + 1);
}

TEST(MeasuredTraining, OfSeveralRanksRunsNoCollective) {
  const train::Forecast f =
      train::forecast(small_recipe(), {.batch = 4,
                                       .ranks = 4,
                                       .links = {.ranks_per_host = 1, .memory = 20e9},
                                       .kernels = KernelTimes::measured,
                                       .outputs = 10});
  EXPECT_GT(f.step.collectives, 0);
  EXPECT_GT(f.step.communication, 0);
  EXPECT_NEAR(f.step.step, f.step.compute + f.step.exposed, 1e-9);
}

TEST(MeasuredTraining, TakesABatchOfTheData) {
  const train::ForecastOptions options{.batch = 4, .kernels = KernelTimes::measured, .outputs = 10};
  train::ForecastOptions with_batch = options;
  with_batch.x = zeros({4, 3, 32, 32});
  with_batch.y = full({4}, 11, {.dtype = i64});  // no class: what is not looked at does not fail
  EXPECT_THROW((void)train::forecast(small_recipe(), with_batch), Error);
  with_batch.x = zeros({2, 3, 32, 32});  // of another size: not taken
  EXPECT_GT(train::forecast(small_recipe(), with_batch).step.compute, 0);
}

}  // namespace
}  // namespace brim
