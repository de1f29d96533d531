// The doctor's examination: small trainings with a planted cause whose size is known, and healthy
// ones. A part of them here; all with BRIM_DOCTOR_CORPUS=all, some with a part of their names.
#include <brim/train/doctor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <brim/core/sim.h>
#include <brim/train/task.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sanitized.h"
#include "temporary_folder.h"
#include "train/doctor/short_run.h"
#include "train/tiny_data.h"

namespace brim::train {
namespace {

using diag::Cause;

/// A virtual accelerator whose kernels all take `kernel_us`.
struct Card {
  double kernel_us = 50, launch_us = 0;
  double host_link_gb_s = 100, peer_link_gb_s = 100;
  double throttle_clock = 1;  ///< below 1: it is always too hot
};

/// A training, and what is wrong with it.
struct Case {
  std::string name;
  Card card;
  double sample_ms = 0;  ///< that making a sample takes
  int64_t batch = 4;
  TrainOptions options;
  int64_t samples = 240;     ///< of the data
  double validation = 0;     ///< fraction of these
  bool has_another = false;  ///< it has another cause besides, so no twin tells the size of `cause`
  std::optional<Cause> cause;  ///< none: it is healthy
  /// What who knows the cause would change; null where nothing helps that changes no bit.
  std::function<void(TrainOptions&)> oracle;

  /// The same with nothing wrong.
  Case healthy() const {
    Case twin = *this;
    twin.card = {.kernel_us = card.kernel_us};
    twin.sample_ms = twin.validation = 0;
    // It trains on as many, for the end of an epoch has a price of its own.
    twin.samples -= std::lround(validation * static_cast<double>(samples));
    return twin;
  }
};

std::vector<Case> corpus() {
  std::vector<Case> all;
  const auto plant_on_cpu = [&](Case one) { all.push_back(std::move(one)); };
  const auto plant = [&](Case one) {
    if (one.options.devices.size() == 1) one.options.devices = {Device::sim(0)};
    plant_on_cpu(std::move(one));
  };
  for (const int64_t batch : {4, 8, 16})
    for (const double ms : {3.0, 6.0})
      for (const int workers : {1, 2})
        plant({.name = fmt::format("samples of {} ms, batch {}, {} workers", ms, batch, workers),
               .sample_ms = ms,
               .batch = batch,
               .options = {.workers = workers},
               .cause = Cause::input,
               .oracle = [](TrainOptions& o) { o.workers = 4; }});
  for (const double launch : {300.0, 600.0, 1000.0, 1500.0})
    for (const bool compile : {true, false})
      plant({.name = fmt::format("launches of {} us, {}", launch, compile ? "plan" : "eager"),
             .card = {.launch_us = launch},
             .options = {.compile = compile},
             .cause = Cause::dispatch,
             .oracle = [](TrainOptions& o) {
               if (!o.compile) o.passes = "exact";
               o.compile = true;
             }});
  for (const int64_t batch : {8, 16, 24})
    for (const double link : {0.004, 0.008})
      plant({.name = fmt::format("a link of {} GB/s, batch {}", link, batch),
             .card = {.host_link_gb_s = link},
             .batch = batch,
             .options = {.augment_on = AugmentOn::host},
             .cause = Cause::copy_to_device,
             .oracle = [](TrainOptions& o) {
               o.augment_on = AugmentOn::automatic;
               o.data_on_device = true;
             }});
  for (const double clock : {0.3, 0.4, 0.5, 0.6, 0.7, 0.8})
    plant({.name = fmt::format("clocks at {}", clock),
           .card = {.kernel_us = 1500, .throttle_clock = clock},
           .cause = Cause::throttle});
  for (const double link : {0.008, 0.01, 0.015, 0.02, 0.03})
    plant({.name = fmt::format("two devices, {} GB/s between them", link),
           .card = {.peer_link_gb_s = link},
           .options = {.devices = {Device::sim(0), Device::sim(1)}},
           .cause = Cause::communication});
  for (const double fraction : {0.4, 0.6, 0.8})
    plant({.name = fmt::format("a validation of {} of the data each epoch", fraction),
           .validation = fraction,
           .cause = Cause::evaluation});
  for (const int64_t batch : {4, 8})
    for (const double ms : {2.0, 5.0})
      plant_on_cpu({.name = fmt::format("samples of {} ms, batch {}, on the CPU", ms, batch),
                    .sample_ms = ms,
                    .batch = batch,
                    .options = {.workers = 1},
                    .cause = Cause::input,
                    .oracle = [](TrainOptions& o) { o.workers = 4; }});
  // Two causes, of which one hides the other until it is cured.
  for (const double launch : {150.0, 300.0})
    plant({.name = fmt::format("samples of 6 ms, and launches of {} us", launch),
           .card = {.launch_us = launch},
           .sample_ms = 6,
           .options = {.workers = 1, .compile = false},
           .has_another = true,
           .cause = Cause::input,
           .oracle = [](TrainOptions& o) {
             o.workers = 8;
             o.compile = true;
             o.passes = "exact";
           }});
  plant({.name = "samples of 2 ms, and launches of 1500 us",
         .card = {.launch_us = 1500},
         .sample_ms = 2,
         .options = {.workers = 1, .compile = false},
         .has_another = true,
         .cause = Cause::dispatch,
         .oracle = [](TrainOptions& o) {
           o.workers = 4;
           o.compile = true;
           o.passes = "exact";
         }});
  // --- healthy
  for (const int64_t batch : {2, 6, 10, 20})
    for (const bool resident : {false, true})
      plant({.name = fmt::format("healthy, batch {}{}", batch, resident ? ", resident" : ""),
             .card = {.kernel_us = 1500},
             .batch = batch,
             .options = {.data_on_device = resident}});
  for (const double ms : {0.1, 0.5})
    plant({.name = fmt::format("healthy, samples of {} ms that are hidden", ms),
           .card = {.kernel_us = 1500},
           .sample_ms = ms,
           .options = {.workers = 2}});
  return all;
}

std::atomic<double> sample_ms{0};

class DoctorCorpus : public ::testing::Test {
 protected:
  DoctorCorpus() {
    static const bool registered = register_transform("sleep", [](const Recipe&, bool) {
      return [](const data::Sample& in, data::Sample& out) {
        out.set(in["x"]);
        out.set(in["y"]);
        std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(sample_ms.load()));
      };
    });
    EXPECT_TRUE(registered);
  }
  ~DoctorCorpus() override { set_sim_options(before); }

  void use(const Card& card) const {
    std::ofstream(folder / "card.toml") << fmt::format(
        R"(name = "a card"
source = "a test"
memory_gb = 1
bandwidth_gb_s = 1000
host_link_gb_s = {}
peer_link_gb_s = {}
link_delay_us = 0
launch_us = {}
kernel_us = {}
[peak_tflops]
f32 = 100
[thermal]
idle_w = 100
peak_w = 100
ambient_c = 20
warmth_c_per_w = 1
settling_s = 0.001
throttle_c = {}
throttle_clock = {}
)",
        card.host_link_gb_s, card.peer_link_gb_s, card.launch_us, card.kernel_us,
        card.throttle_clock < 1 ? 50 : 1000, card.throttle_clock < 1 ? card.throttle_clock : 1);
    SimOptions options = before;
    options.profile = folder / "card.toml";
    set_sim_options(options);
  }
  Recipe recipe_of(const Case& one) const {
    Recipe recipe = load_recipe("tutorial-cnn");
    recipe.data = folder / fmt::format("{} samples", one.samples);
    if (!std::filesystem::exists(recipe.data))
      tests::write_tiny_cifar(recipe.data, static_cast<int>(one.samples));
    recipe.batch = one.batch;
    recipe.optimizer.lr = 1e-5;
    recipe.validation.fraction = one.validation;
    if (one.sample_ms > 0) recipe.input.transforms = {"sleep"};
    sample_ms = one.sample_ms;
    return recipe;
  }
  Diagnosis examine(const Case& one) const {
    use(one.card);
    return Doctor(recipe_of(one), one.options, {.seconds = kSeconds}).diagnose();
  }
  /// Of one short training.
  double seconds_per_step(const Case& one, const TrainOptions& options) const {
    use(one.card);
    const auto run = run_shortly(recipe_of(one), options, kSeconds, nullptr);
    return run.value_or(ShortRun()).seconds_per_step;
  }
  /// Weights after some steps.
  std::vector<float> weights(const Case& one, TrainOptions options) const {
    use(one.card);
    options.max_steps = 6;
    Trainer trainer(recipe_of(one), std::move(options));
    (void)trainer.train();
    std::vector<float> all;
    for (const auto& [_, parameter] : trainer.model().named_parameters()) {
      const std::vector<float> values = parameter.to(Device::cpu()).to_vector<float>();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }
  /// Share of the time that what was planted takes: against the same training without it.
  double planted_share(const Case& one) const {
    double with = 0, without = 0;
    for (int turn = 0; turn < 3; ++turn)
      for (const bool is_healthy : {true, false}) {
        const Case of = is_healthy ? one.healthy() : one;
        (is_healthy ? without : with) += seconds_per_step(of, of.options);
      }
    return 1 - without / with;
  }
  static constexpr double kSeconds = 0.2;
  tests::TemporaryFolder folder;
  SimOptions before = sim_options();
};

/// The dearest cause but for what this machine's other work takes.
const CauseCost* dearest(const Diagnosis& d) {
  const auto found =
      std::ranges::find_if(d.causes, [](const CauseCost& c) { return c.cause != Cause::stolen; });
  return found == d.causes.end() ? nullptr : &*found;
}

std::string wanted() {
  const char* const wanted = std::getenv("BRIM_DOCTOR_CORPUS");
  return wanted ? wanted : "";
}
bool wants_all() { return wanted() == "all"; }

/// BRIM_DOCTOR_CORPUS: all cases, or those with this in their names; without, one of each `every`.
bool wants(const Case& one, size_t number, size_t every) {
  if (wanted().empty()) return number % every == 0;
  return wants_all() || one.name.find(wanted()) != std::string::npos;
}

/// It recovers what who knows the cause would, and is never slower than before.
TEST_F(DoctorCorpus, CuresWhatCanBeCured) {
  if (BRIM_SANITIZED) GTEST_SKIP() << "a sanitizer is slower than the pace";
  int tried = 0, cured = 0;
  const std::vector<Case> cases = corpus();
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& one = cases[i];
    if (!one.oracle || !wants(one, i, 26)) continue;
    TrainOptions known = one.options;
    one.oracle(known);
    use(one.card);
    const Cure cure = Doctor(recipe_of(one), one.options, {.seconds = kSeconds}).cure();
    double before = 0, with_oracle = 0, after = 0;
    for (int turn = 0; turn < 3; ++turn) {
      before += seconds_per_step(one, one.options) / 3;
      with_oracle += seconds_per_step(one, known) / 3;
      after += seconds_per_step(one, cure.setting.options) / 3;
    }
    const double possible = before - with_oracle, recovered = before - after;
    const bool is_nothing = possible < 0.05 * before;  // then no worse is all that can be asked
    const bool is_cured = is_nothing ? recovered > -0.05 * before : recovered >= 0.85 * possible;
    ++tried;
    cured += is_cured ? 1 : 0;
    fmt::print("{}: {:.2f} ms before, {:.2f} with what is known, {:.2f} cured by {}\n", one.name,
               1e3 * before, 1e3 * with_oracle, 1e3 * after,
               cure.changes.empty() ? "nothing" : fmt::format("{}", fmt::join(cure.changes, ", ")));
    std::fflush(stdout);
    EXPECT_LT(after, 1.1 * before) << one.name;
    EXPECT_TRUE(weights(one, cure.setting.options) == weights(one, one.options)) << one.name;
  }
  fmt::print("{} of {} cured\n", cured, tried);
  EXPECT_GE(cured, std::ceil(0.85 * tried - 1e-9));
}

/// One worker, eager steps, augmentation on the host, a batch at a time; launches take four times
/// as long as kernels.
TEST_F(DoctorCorpus, FillsTheDeviceFromABadStart) {
  if (!wants_all()) GTEST_SKIP() << "it asks for 99 %, which a machine with other work may miss";
  use({.kernel_us = 80, .launch_us = 320, .host_link_gb_s = 1});
  const Recipe recipe = load_recipe("tutorial-cnn");  // with its own data
  const TrainOptions bad{
      .devices = {Device::sim(0)}, .workers = 1, .augment_on = AugmentOn::host, .compile = false};
  const auto begin = std::chrono::steady_clock::now();
  const Cure cure = Doctor(recipe, bad, {}).cure();
  const double took =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  fmt::print("busy {:.4f}, then {:.4f} ({:.4f} to {:.4f}) by {}, in {:.0f} s\n",
             cure.before.busy.value, cure.after.busy.value, cure.after.busy.low,
             cure.after.busy.high, fmt::join(cure.changes, ", "), took);
  EXPECT_LT(cure.before.busy.value, 0.4);
  EXPECT_GE(cure.after.busy.value, 0.99);
  EXPECT_TRUE(cure.same_bits);
  EXPECT_LT(took, 60);
}

/// An epoch takes longer than what is measured of the training.
TEST_F(DoctorCorpus, NamesEvaluationsThatComeLater) {
  if (BRIM_SANITIZED) GTEST_SKIP() << "a sanitizer is slower than the pace";
  const Case one{.options = {.devices = {Device::sim(0)}},
                 .samples = 6000,
                 .validation = 0.8,
                 .cause = Cause::evaluation};
  const auto seconds_of = [&](const Case& of) {
    use(of.card);
    Recipe recipe = recipe_of(of);
    recipe.epochs = 1;
    return Trainer(recipe, of.options).train().seconds;
  };
  const Diagnosis found = examine(one);
  double with = 0, without = 0;
  for (int turn = 0; turn < 3; ++turn) {
    without += seconds_of(one.healthy());
    with += seconds_of(one);
  }
  const CauseCost* const most = dearest(found);
  ASSERT_NE(most, nullptr);
  EXPECT_EQ(most->cause, Cause::evaluation);
  const double size = 1 - without / with;
  fmt::print("evaluation {:.3f} (planted {:.3f})\n", most->share.value, size);
  if (wants_all()) {
    EXPECT_NEAR(most->share.value, size, 0.2 * size);
  }
}

TEST_F(DoctorCorpus, NamesWhatWasPlanted) {
  if (BRIM_SANITIZED) GTEST_SKIP() << "a sanitizer is slower than the pace";
  const bool all = wants_all();
  int planted = 0, named = 0, sized = 0, right_size = 0, healthy = 0, left_alone = 0;
  const std::vector<Case> cases = corpus();
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& one = cases[i];
    if (!wants(one, i, 9)) continue;
    const Diagnosis found = examine(one);
    const CauseCost* const most = dearest(found);
    std::string line = fmt::format("{}: {}", one.name, most ? diag::name(most->cause) : "nothing");
    if (most) line += fmt::format(" {:.3f}", most->share.value);
    if (!one.cause) {
      ++healthy;
      left_alone += !most || most->share.low < 0.02 || most->share.value < 0.05 ? 1 : 0;
    } else {
      ++planted;
      const bool is_right = most && most->cause == *one.cause;
      named += is_right ? 1 : 0;
      if (is_right && !one.has_another) {
        const double size = planted_share(one);
        ++sized;
        right_size += std::abs(most->share.value - size) <= 0.2 * size ? 1 : 0;
        line += fmt::format(" (planted {:.3f})", size);
      }
    }
    for (const CauseCost& cost : found.causes)
      line += fmt::format("; {} {:.3f}", diag::name(cost.cause), cost.share.value);
    fmt::print("{}\n", line);
    std::fflush(stdout);
  }
  fmt::print("{} of {} causes named, {} of {} sizes within 20 %, {} of {} healthy left alone\n",
             named, planted, right_size, sized, left_alone, healthy);
  EXPECT_GE(named, std::ceil(0.95 * planted - 1e-9));
  EXPECT_GE(left_alone, std::ceil(0.95 * healthy - 1e-9));
  if (all) {  // few of them say little of nine in ten
    EXPECT_GE(right_size, std::floor(0.9 * sized));
    EXPECT_GE(planted, 40);
    EXPECT_GE(healthy, 10);
  }
}

}  // namespace
}  // namespace brim::train
