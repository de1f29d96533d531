// See planted.h. Compiled steps and the trainer.
#include "diag/planted/planted.h"

#include <cstdlib>

#include <brim/extend/gradient.h>
#include <brim/nn/conv.h>
#include <brim/nn/linear.h>
#include <brim/train/checkpoint.h>
#include <brim/train/trainer.h>

#include "sanitized.h"
#include "temporary_folder.h"
#include "train/tiny_data.h"

namespace brim::diag::planted {
namespace {

TEST_P(Planted, TheFirstStepIsCompiled) {
  nn::Linear layer({.in = 64, .out = 64, .device = device()});
  const Tensor x = ones({8, 64}, {.device = device()});
  double planted = 0;
  auto step = compile([&](const Tensor& in) {
    sleep(0.02 * scale());  // recording runs the function
    return sum(layer(in));
  });
  const Account a = account_of([&] {
    Tensor warm = numbers();
    synchronize(device());
    (void)step(x);
    planted = step.stats().compile_ms * 1e-3;
  });
  EXPECT_GE(planted, 0.04 * scale());
  expect_row(a, Cause::compile, planted);
}

TEST_P(Planted, UserCodeBetweenCompiledSteps) {
  // Small: the emulation's fakes of libraries, which get the large ones, have a time of their own.
  nn::Linear layer({.in = 64, .out = 16, .device = device()});
  const Tensor x = ones({8, 64}, {.device = device()});
  auto step = compile([&](const Tensor& in) { return sum(layer(in)); });
  (void)step(x);
  double planted = 0;
  const Account a = account_of([&] {
    for (int i = 0; i < 5; ++i) {
      (void)step(x);
      planted += timed([] { sleep(0.02 * scale()); });
    }
    (void)step(x);
  });
  expect_row(a, Cause::user, planted);
  EXPECT_EQ(at(a, Cause::compile), 0);
}

TEST_P(Planted, RepeatedSteps) {
  if (!on_sim()) GTEST_SKIP() << "the pace is planted";
  use_profile("kernel_us = 1000");
  Tensor x = numbers();
  auto step = compile([&] { x.mul_(1.5); });
  step.repeat(2, {});
  double planted = 0;
  const int count = static_cast<int>(20 * scale());
  const Account a = account_of([&] {
    step.repeat(count, {});
    synchronize(device());
    step.repeat(2, [&] { planted += timed([] { sleep(0.02 * scale()); }); });
    synchronize(device());
    step.repeat(count, {});
    synchronize(device());
  });
  expect_row(a, Cause::compute, (2 * count + 2) * 1e-3);
  expect_row(a, Cause::user, planted);
}

TEST_P(Planted, UserCodeInHooksOfGradients) {
  Tensor x = numbers();
  x.set_requires_grad(true);
  double planted = 0;
  x.register_hook([&](const Tensor&) {
    planted += timed([] { sleep(0.05 * scale()); });
    return Tensor();
  });
  const Account a = account_of([&] { sum(x * x).backward(); });
  EXPECT_GE(planted, 0.05 * scale());
  expect_row(a, Cause::user, planted);
}

TEST_P(Planted, UserCodeInGradientsOfOnesOwn) {
  Tensor x = numbers();
  x.set_requires_grad(true);
  double planted = 0;
  const auto twice = [&](const Tensor& in) {
    return extend::with_grad("twice", in.detach() * 2, {in}, [&](extend::GradCall& g) {
      planted += timed([] { sleep(0.05 * scale()); });
      g.set(0, g.dy() * 2);
    });
  };
  const Account a = account_of([&] { sum(twice(x)).backward(); });
  EXPECT_GE(planted, 0.05 * scale());
  expect_row(a, Cause::user, planted);
}

TEST_P(Planted, AnEagerLoopOfOnesOwnHasNoUserCode) {
  if (!on_cpu()) GTEST_SKIP() << "of the thread, whose account is the CPU's";
  if (BRIM_SANITIZED) GTEST_SKIP() << "ops take longer than what counts as user code";
  nn::Linear first({.in = 16, .out = 16}), second({.in = 16, .out = 4});
  std::vector<Tensor> parameters = first.parameters();
  for (const Tensor& p : second.parameters()) parameters.push_back(p);
  optim::Adam optimizer(parameters, {});
  const Tensor x = ones({4, 16});
  const Account a = account_of([&] {
    for (int i = 0; i < 300 * scale(); ++i) {
      optimizer.zero_grad();
      sum(second(relu(first(x)))).backward();
      optimizer.step();
    }
  });
  expect_whole(a);
  EXPECT_LT(at(a, Cause::user), (is_exact() ? 0.05 : 0.25) * a.wall + 1e-3) << a.table();
}

TEST_P(Planted, CallbacksOfTheTrainer) {
  if (!is_exact() && !on_cpu() && !on_sim()) GTEST_SKIP() << "long over the emulation";
  const tests::TemporaryFolder folder;
  tests::write_tiny_cifar(folder / "data");
  train::Recipe recipe = train::load_recipe("tutorial-cnn");
  recipe.data = folder / "data";
  recipe.epochs = 2;
  double planted = 0;
  train::TrainOptions options{.devices = {device()}, .workers = 1};
  options.reports_per_epoch = 5;
  options.progress = [&](const train::Progress&) {
    planted += timed([] { sleep(0.01 * scale()); });
  };
  train::Trainer trainer(recipe, options);
  const train::TrainResult result = trainer.train();
  EXPECT_GE(planted, 0.1 * scale());
  expect_row(result.account, Cause::user, planted);
}

TEST_P(Planted, MeasuringLayoutsIsCompiling) {
  if (!on_cpu()) GTEST_SKIP() << "of the CPU";
  const tests::TemporaryFolder cache;  // so that nothing is known yet
  const char* before = std::getenv("XDG_CACHE_HOME");
  const std::string kept = before ? before : "";
  setenv("XDG_CACHE_HOME", cache.path().c_str(), 1);
  nn::Conv2d conv({.in = 64, .out = 64, .kernel = 3, .padding = 1});
  const Tensor x = ones({8, 64, 28, 28});
  auto step = compile([&](const Tensor& in) { return sum(relu(conv(in))); });
  double planted = 0, first = 0;
  const Account a = account_of([&] {
    first = timed([&] { (void)step(x); });
    planted = step.stats().compile_ms * 1e-3;
  });
  before ? setenv("XDG_CACHE_HOME", kept.c_str(), 1) : unsetenv("XDG_CACHE_HOME");
  EXPECT_GE(planted, 0.2 * first);
  expect_row(a, Cause::compile, planted);
}

TEST_P(Planted, GoingOnFromACheckpoint) {
  use_profile("host_link_gb_s = 0.2");
  const tests::TemporaryFolder folder;
  nn::Linear layer({.in = 1000, .out = static_cast<int64_t>(1000 * scale()), .device = device()});
  {
    train::Checkpoint before(folder / "run");
    before.add("model", layer);
    (void)before.save({.steps = 1});
  }
  train::Checkpoint checkpoint(folder / "run");
  checkpoint.add("model", layer);
  Tensor x = numbers();
  double planted = 0;
  const Account a = account_of([&] {
    planted = timed([&] {
      EXPECT_EQ(checkpoint.resume().steps, 1);
      synchronize(device());
    });
    step(x);
  });
  expect_whole(a);
  // Behind the last copy that was queued inside, the test itself waits.
  const double rest = at(a, Cause::synchronize) + at(a, Cause::stolen);
  EXPECT_LE(at(a, Cause::checkpoint), planted + surplus(planted)) << a.table();
  EXPECT_GE(at(a, Cause::checkpoint) + rest, planted - tolerance(planted)) << a.table();
}

}  // namespace
}  // namespace brim::diag::planted
