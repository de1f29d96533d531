// The doctor: planted causes are found and cured, healthy trainings are left alone.
#include <brim/train/doctor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <brim/core/allocator.h>
#include <brim/core/sim.h>
#include <brim/dist/process_group.h>
#include <brim/train/task.h>
#include <fmt/format.h>

#include "message_of.h"
#include "sanitized.h"
#include "temporary_folder.h"
#include "train/doctor/estimate.h"
#include "train/doctor/evidence.h"
#include "train/doctor/learning_check.h"
#include "train/doctor/short_run.h"
#include "train/tiny_data.h"

namespace brim::train {
namespace {

using diag::Cause;

TEST(Estimate, HasStudentsInterval) {
  const Estimate of_three = ratio_of({std::exp(1), std::exp(2), std::exp(3)});
  EXPECT_NEAR(std::log(of_three.value), 2, 1e-12);
  EXPECT_NEAR(std::log(of_three.high) - 2, 4.303 / std::sqrt(3), 1e-9);
  EXPECT_NEAR(2 - std::log(of_three.low), 4.303 / std::sqrt(3), 1e-9);
  EXPECT_TRUE(std::isinf(ratio_of({5}).high));
  EXPECT_DOUBLE_EQ(ratio_of({5, 5, 5}).low, 5);
  const Estimate ratio = ratio_of({2, 0.5});
  EXPECT_DOUBLE_EQ(ratio.value, 1);
  EXPECT_NEAR(ratio.low * ratio.high, 1, 1e-12);
  EXPECT_LT(ratio_of(std::vector<double>(100, 2)).high, 2 + 1e-9);  // beyond the table
}

TEST(Estimate, SharesAreOfAllTheTime) {
  // A rare stretch that takes long weighs as long as it took.
  std::vector<Measured> stretches(10);
  for (Measured& m : stretches) {
    m.steps = 100;
    m.account.wall = 1;
    m.account.seconds[static_cast<size_t>(Cause::compute)] = 1;
  }
  stretches[9].account.wall = 5;
  stretches[9].account.seconds[static_cast<size_t>(Cause::evaluation)] = 4;
  const Diagnosis d = diagnosis_of(stretches, 0.02);
  EXPECT_EQ(d.runs, 10);
  EXPECT_DOUBLE_EQ(d.seconds_per_step.value, 14.0 / 1000);
  EXPECT_NEAR(d.busy.value, 10.0 / 14, 1e-12);
  ASSERT_EQ(d.causes.size(), 1u);
  EXPECT_EQ(d.causes[0].cause, Cause::evaluation);
  EXPECT_NEAR(d.causes[0].share.value, 4.0 / 14, 1e-12);
  EXPECT_LT(d.causes[0].share.low, 0.05);  // one stretch has it all
  const Estimate even = ratio_of_sums({1, 2, 3}, {2, 4, 6});
  EXPECT_DOUBLE_EQ(even.value, 0.5);
  EXPECT_NEAR(even.high - even.low, 0, 1e-12);
}

TEST(ShortRun, IsChargedItsPartOfAnEvaluation) {
  ShortRun run{.steps = 100, .seconds_per_step = 0.02};
  run.account.wall = 2;
  run.account.seconds[static_cast<size_t>(Cause::compute)] = 1;
  run.account.seconds[static_cast<size_t>(Cause::evaluation)] = 1;  // it met one
  charge_evaluations(run, 1, 1000);
  EXPECT_NEAR(run.seconds_per_step, 0.01 + 0.001, 1e-12);
  EXPECT_NEAR(run.account.wall, 1.1, 1e-12);
  EXPECT_NEAR(run.account.fraction(Cause::evaluation), 0.1 / 1.1, 1e-12);
}

/// It asks after each pair, which makes chance more likely: with 95 % intervals a tenth of the
/// changes that do nothing would be kept.
TEST(Estimate, ChangesThatDoNothingAreSeldomKept) {
  std::mt19937 random(5);
  std::normal_distribution<double> noise(0, 0.05);
  const DoctorOptions how;
  std::map<Verdict, int> found;
  constexpr int kTimes = 4000;
  const auto decide = [&](double speedup) {
    std::vector<double> ratios;
    Verdict verdict = Verdict::undecided;
    while (verdict == Verdict::undecided && std::ssize(ratios) < how.max_pairs) {
      ratios.push_back(speedup * std::exp(noise(random)));
      verdict = verdict_of(ratios, how);
    }
    return verdict;
  };
  for (int i = 0; i < kTimes; ++i) ++found[decide(1)];
  EXPECT_LE(found[Verdict::faster], 0.03 * kTimes);
  EXPECT_LE(found[Verdict::slower], 0.03 * kTimes);
  found.clear();
  for (int i = 0; i < kTimes; ++i) ++found[decide(1.15)];
  EXPECT_GE(found[Verdict::faster], 0.98 * kTimes);
}

TEST(Evidence, TellsWhyInputIsLate) {
  Evidence e{.workers = {.wall = 10, .read = 1, .decode = 6, .augment = 2, .slot = 1},
             .worker_count = 2,
             .cpus = 4,
             .io_pressure = 0.5,
             .storage = 5e6};
  std::vector<std::string> because = reasons(e, Cause::input, 0.4);
  ASSERT_EQ(because.size(), 4u);
  EXPECT_EQ(because[0], "2 workers: decode 60 %, augment 20 %, read 10 %, waiting for a slot 10 %");
  EXPECT_EQ(because[1], "3.0 workers could keep up");  // 2 that work 0.9 of the time, over 0.6
  EXPECT_EQ(because[2], "storage gives 5.0 MB/s: what is read is not in memory yet");
  EXPECT_EQ(because[3], "some task waits for storage 50 % of the time");
  e.storage = 0;
  e.io_pressure.reset();
  because = reasons(e, Cause::input, 0.8);
  ASSERT_EQ(because.size(), 3u);
  EXPECT_EQ(because[1], "9.0 workers could keep up, and there are 4 CPUs");
  EXPECT_EQ(because[2], "what is read comes from memory, or from no file");
  e.storage.reset();
  EXPECT_EQ(reasons(e, Cause::input, 0.8).size(), 2u);  // nobody knows where it came from
  EXPECT_TRUE(reasons({}, Cause::input, 0.4).empty());
}

TEST(Evidence, TellsWhoHasTheCores) {
  const Evidence e{.cpus = 2,
                   .cores = 1.9,
                   .other_cores = 1.25,
                   .throttled = 0.5,
                   .memory_pressure = 0.01,
                   .eager = "a data-dependent shape"};
  const std::vector<std::string> because = reasons(e, Cause::stolen, 0.3);
  ASSERT_EQ(because.size(), 3u);
  EXPECT_EQ(because[0], "the cgroup's CPU quota keeps the time of 0.5 cores from it");
  EXPECT_EQ(because[1], "other processes use 1.2 cores");
  EXPECT_EQ(because[2], "this one uses 1.9 of the 2 CPUs that it may use");
  EXPECT_EQ(reasons(e, Cause::dispatch, 0.3).at(0),
            "steps are not compiled: a data-dependent shape");
  EXPECT_TRUE(reasons(e, Cause::communication, 0.3).empty());
}

TEST(Evidence, IsTheMeanOfAllTrainings) {
  const Evidence mean =
      mean_of({{.workers = {.wall = 1, .decode = 1}, .worker_count = 1, .cpus = 2},
               {.workers = {.wall = 3, .decode = 1}, .worker_count = 2, .cpus = 2}});
  EXPECT_EQ(mean.workers.wall, 4);
  EXPECT_EQ(mean.workers.decode, 2);
  EXPECT_EQ(mean.worker_count, 1.5);
  EXPECT_FALSE(mean.throttled);
  EXPECT_EQ(mean_of({}).cpus, 0);
}

TEST(LearningCheck, AsksForNearlyAsMuchAsWithout) {
  const auto judged = [](double before, double after, LearningCheck::Result metrics,
                         bool higher_is_better = true) {
    LearningCheck check{.is_fraction = higher_is_better,
                        .untrained = {.loss = 2.3},
                        .before = {before, metrics.loss},
                        .after = {after, metrics.metric}};
    judge(check, higher_is_better);
    EXPECT_FALSE(check.is_enough && check.is_undecided);
    return check;
  };
  EXPECT_TRUE(judged(1.0, 1.05, {0.65, 0.645}).is_enough);   // 96 % of the fall
  EXPECT_FALSE(judged(1.0, 1.10, {0.65, 0.65}).is_enough);   // 92 %
  EXPECT_FALSE(judged(1.0, 1.00, {0.65, 0.635}).is_enough);  // a point and a half
  EXPECT_TRUE(judged(1.0, 0.5, {0.65, 0.8}).is_enough);
  EXPECT_TRUE(judged(1.0, 1.0, {10.0, 10.1}, false).is_enough);  // an error, 1 % more
  EXPECT_FALSE(judged(1.0, 1.0, {10.0, 10.3}, false).is_enough);
  EXPECT_TRUE(judged(2.25, 2.25, {0.1, 0.1}).is_undecided);
  EXPECT_TRUE(judged(std::nan(""), 1, {0.1, 0.1}).is_undecided);  // it diverged
  EXPECT_FALSE(judged(1.0, std::nan(""), {0.1, 0.1}).is_enough);
}

class DoctorTest : public ::testing::Test {
 protected:
  DoctorTest() {
    tests::write_tiny_cifar(folder / "data", kRecords);
    recipe = load_recipe("tutorial-cnn");
    recipe.data = folder / "data";
    recipe.batch = 6;
    recipe.optimizer.lr = 1e-4;
  }
  /// Each sample takes so long that the loader is the limit, on any machine and without its cores.
  void slow_samples() {
    static const bool registered = register_transform("slow", [](const Recipe&, bool) {
      return [](const data::Sample& in, data::Sample& out) {
        out.set(in["x"]);
        out.set(in["y"]);
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      };
    });
    ASSERT_TRUE(registered);
    recipe.input.transforms = {"slow"};
  }
  /// Weights after a few steps.
  std::vector<float> weights(TrainOptions options) const {
    options.max_steps = 12;
    Trainer trainer(recipe, std::move(options));
    (void)trainer.train();
    std::vector<float> all;
    for (const auto& [_, parameter] : trainer.model().named_parameters()) {
      const std::vector<float> values = parameter.to(Device::cpu()).to_vector<float>();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }
  static constexpr int kRecords = 600;
  tests::TemporaryFolder folder;
  Recipe recipe;
  DoctorOptions how{.seconds = 0.05, .max_pairs = 5};
};

TEST_F(DoctorTest, FindsAndCuresAStarvingLoader) {
  slow_samples();
  const TrainOptions one_worker{.workers = 1};
  const Diagnosis found = Doctor(recipe, one_worker, how).diagnose();
  EXPECT_EQ(found.runs, how.min_pairs);
  ASSERT_FALSE(found.causes.empty());
  EXPECT_EQ(found.causes[0].cause, Cause::input);
  EXPECT_GT(found.causes[0].share.value, 0.5);
  EXPECT_NEAR(found.causes[0].seconds_per_step,
              found.causes[0].share.value * found.seconds_per_step.value, 1e-12);
  ASSERT_FALSE(found.causes[0].because.empty());
  const std::string& because = found.causes[0].because[0];  // where others compute: stolen, too
  EXPECT_TRUE(because.starts_with("1 worker: ") && because.find("augment") != std::string::npos)
      << because;
  EXPECT_GT(found.evidence.cpus, 0);
  EXPECT_GE(found.seconds_per_step.value, 12e-3);  // a batch of 6, two milliseconds each
  ASSERT_TRUE(found.without_input);
  EXPECT_GT(found.without_input->low, 1.5);

  if (BRIM_SANITIZED) return;  // its pace is no training's
  how.max_pairs = 12;          // for the machine may be busy
  std::vector<std::string> tried;
  std::string trials;  // for messages
  how.tried = [&](const Trial& trial) {
    tried.push_back(trial.options);
    trials += fmt::format("{}: {} ({} to {}), {} pairs, {}\n", trial.what, trial.speedup.value,
                          trial.speedup.low, trial.speedup.high, trial.pairs, name(trial.verdict));
  };
  const Cure cure = Doctor(recipe, one_worker, how).cure();
  EXPECT_EQ(tried.size(), cure.trials.size());
  ASSERT_FALSE(cure.changes.empty()) << trials;
  EXPECT_NE(cure.setting.options.workers, 1);
  ASSERT_TRUE(cure.speedup);
  EXPECT_GT(cure.speedup->low, 1.3);
  EXPECT_LT(cure.after.seconds_per_step.value, found.seconds_per_step.value);
  EXPECT_EQ(weights(cure.setting.options), weights(one_worker));
}

TEST_F(DoctorTest, LeavesAHealthyTrainingAlone) {
  const Cure cure = Doctor(recipe, {.data_on_device = true}, how).cure();
  EXPECT_FALSE(cure.before.without_input);
  EXPECT_FALSE(cure.before.without_exchange);
  for (const Trial& trial : cure.trials)  // whatever a busy machine makes late, no input is changed
    EXPECT_TRUE(trial.options.starts_with("--steps-per-graph")) << trial.options;
  EXPECT_TRUE(cure.setting.options.data_on_device);
}

TEST_F(DoctorTest, EagerStepsAreCompiledWithoutAnotherBit) {
  const TrainOptions eager{.devices = {Device::sim(0)}, .compile = false};
  const Cure cure = Doctor(recipe, eager, how).cure();
  const auto trial = std::ranges::find(cure.trials, "--compile on --passes exact", &Trial::options);
  ASSERT_NE(trial, cure.trials.end());
  EXPECT_EQ(weights(cure.setting.options), weights(eager));
  TrainOptions compiled = eager;
  compiled.compile = true;
  compiled.passes = "exact";
  EXPECT_EQ(weights(compiled), weights(eager));
}

/// What is another training is tried behind all else, and only where it is allowed.
TEST_F(DoctorTest, LargerBatchesAreKeptWhereAsMuchIsLearned) {
  const TrainOptions resident{.devices = {Device::sim(0)}, .data_on_device = true};
  const auto is_other = [](const Trial& t) {
    return t.options.starts_with("--batch") || t.options.starts_with("--precision");
  };
  how.max_pairs = 3;
  how.least_gain = 0;
  EXPECT_TRUE(std::ranges::none_of(Doctor(recipe, resident, how).cure().trials, is_other));
  recipe = load_recipe("tutorial-cnn");
  how.allow_batch = how.allow_precision = true;
  how.check_pairs = 1;
  how.check_seconds = 0.2;
  how.seconds = 0.03;
  how.max_pairs = 12;
  const Cure cure = Doctor(recipe, resident, how).cure();
  const auto larger = std::ranges::find(cure.trials, "--batch 8 --lr 0.002", &Trial::options);
  ASSERT_NE(larger, cure.trials.end());
  EXPECT_TRUE(std::ranges::is_partitioned(cure.trials, std::not_fn(is_other)));
  if (BRIM_SANITIZED) return;  // its pace is no training's
  if (larger->verdict == Verdict::undecided) GTEST_SKIP() << "others compute, too";
  ASSERT_TRUE(larger->check) << name(larger->verdict);
  EXPECT_NEAR(larger->check->untrained.loss, std::log(10), 0.1);
  EXPECT_NEAR(larger->check->untrained.metric, 0.1, 0.05);
  EXPECT_GT(larger->check->samples, 0);
  EXPECT_EQ(larger->check->metric, "accuracy");
  EXPECT_EQ(larger->check->is_enough, larger->verdict == Verdict::faster);
  if (!cure.changes.empty()) {
    EXPECT_FALSE(cure.same_bits);
    EXPECT_DOUBLE_EQ(cure.setting.recipe.optimizer.lr,
                     0.001 * static_cast<double>(cure.setting.recipe.batch) / 4);
  }
}

TEST_F(DoctorTest, WithoutATestSplitNothingSaysHowMuchIsLearned) {
  std::filesystem::remove(folder / "data/test_batch.bin");
  const TrainSetting setting{recipe, {}};
  EXPECT_NE(tests::message_of([&] {
              (void)check_learning(setting, setting, 1e-3, how);
            }).find("has no test split"),
            std::string::npos);
}

TEST_F(DoctorTest, AChangeThatCannotRunIsToldAndTheRestGoesOn) {
  const Device device = Device::sim(0);
  TrainOptions options{.devices = {device}, .compile = false};
  Allocator& allocator = Allocator::of(device);
  allocator.reset_peak();
  (void)weights(options);
  const auto peak = allocator.stats().peak_live;
  allocator.set_limit(peak + kRecords * 3072 / 2);  // no room for the pictures
  how.least_gain = 0;                               // whatever takes time may be treated
  const Cure cure = Doctor(recipe, options, how).cure();
  allocator.set_limit(0);
  const auto resident = std::ranges::find(cure.trials, "--data-on-device", &Trial::options);
  ASSERT_NE(resident, cure.trials.end());
  EXPECT_EQ(resident->verdict, Verdict::failed);
  EXPECT_NE(resident->failure.find("has room for"), std::string::npos) << resident->failure;
  EXPECT_FALSE(cure.setting.options.data_on_device);
  EXPECT_GE(cure.trials.size(), 2u);
}

/// Each waits for the other's part of an exchange, and none for work that is yet to be queued.
TEST_F(DoctorTest, SeveralDevicesAreExaminedTogether) {
  const TrainOptions two{.devices = {Device::sim(0), Device::sim(1)}};
  const Diagnosis found = Doctor(recipe, two, how).diagnose();
  EXPECT_EQ(found.runs, how.min_pairs);
  EXPECT_GT(found.busy.value, 0);
}

/// Of a link that takes most of the time.
TEST_F(DoctorTest, MeasuresWhatExchangesCost) {
  std::ofstream(folder / "card.toml") << R"(name = "a card with a slow link"
source = "a test"
memory_gb = 1
bandwidth_gb_s = 1000
host_link_gb_s = 100
peer_link_gb_s = 0.05
link_delay_us = 0
launch_us = 0
kernel_us = 50
[peak_tflops]
f32 = 100
[thermal]
idle_w = 100
peak_w = 100
ambient_c = 20
warmth_c_per_w = 1
settling_s = 0.001
throttle_c = 1000
throttle_clock = 1
)";
  const SimOptions before = sim_options();
  SimOptions options = before;
  options.profile = folder / "card.toml";
  const std::shared_ptr<void> restored(nullptr, [&](void*) { set_sim_options(before); });
  set_sim_options(options);
  const Diagnosis found =
      Doctor(recipe, {.devices = {Device::sim(0), Device::sim(1)}}, how).diagnose();
  ASSERT_FALSE(found.causes.empty());
  EXPECT_EQ(found.causes[0].cause, Cause::communication);
  ASSERT_TRUE(found.without_exchange);
  EXPECT_GT(found.without_exchange->low, 1.3);
  // What is left is no more than what the account does not call communication, within a fifth.
  if (!BRIM_SANITIZED) {
    EXPECT_NEAR(1 / found.without_exchange->value, 1 - found.causes[0].share.value, 0.2);
  }
}

TEST_F(DoctorTest, AStopEndsItAndKeepsNothing) {
  slow_samples();
  for (const int after : {0, 2, 9}) {
    std::atomic<int> stop{0};
    int begun = 0;
    how.stop = &stop;
    how.progress = [&](const std::string&, double fraction) {
      EXPECT_GE(fraction, 0);
      EXPECT_LE(fraction, 1);
      if (begun++ == after) stop = 2;
    };
    const Cure cure = Doctor(recipe, {.workers = 1}, how).cure();
    EXPECT_EQ(begun, after + 1);
    EXPECT_TRUE(cure.changes.empty());
    EXPECT_FALSE(cure.speedup);
    EXPECT_EQ(cure.setting.options.workers, 1);
  }
}

TEST_F(DoctorTest, WhatCannotBeExaminedIsTold) {
  const auto says = [&](const TrainOptions& options, const DoctorOptions& wrong) {
    return tests::message_of([&] { (void)Doctor(recipe, options, wrong); });
  };
  EXPECT_NE(says({}, {.seconds = 0}).find("[doctor] trials of 0 s"), std::string::npos);
  EXPECT_NE(says({}, {.min_pairs = 1}).find("decide nothing"), std::string::npos);
  EXPECT_NE(says({}, {.min_pairs = 4, .max_pairs = 3}).find("decide nothing"), std::string::npos);
  EXPECT_NE(says({.group = dist::local_groups(1)[0]}, {}).find("several processes"),
            std::string::npos);
  recipe.data = folder / "nowhere";
  EXPECT_THROW((void)Doctor(recipe, {}, how).diagnose(), FileError);
}

/// Every step gets the same batch, so the loader is asked for no other.
TEST_F(DoctorTest, ARepeatedBatchIsTheFirst) {
  TrainOptions repeated{.repeat_batch = true};
  const std::vector<float> once = weights({});
  const std::vector<float> again = weights(repeated);
  EXPECT_NE(once, again);
  repeated.compile = false;
  repeated.devices = {Device::sim(0)};
  (void)weights(repeated);
  repeated.data_on_device = true;
  EXPECT_NE(tests::message_of([&] { (void)weights(repeated); }).find("repeat_batch"),
            std::string::npos);
}

}  // namespace
}  // namespace brim::train
