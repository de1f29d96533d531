// Steps over links that do not exist, on a virtual clock.
#include <brim/core/sim.h>
#include <brim/core/stream.h>
#include <brim/dist/data_parallel.h>
#include <brim/dist/links.h>
#include <brim/nn/linear.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/unary.h>
#include <brim/optim/sgd.h>
#include <brim/plan/compile.h>
#include <brim/train/forecast.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <random>

#include "backend/sim/profile.h"
#include "core/check.h"
#include "core/clock.h"
#include "dist/profile_links.h"
#include "plan/buckets.h"
#include "sanitized.h"
#include "temporary_folder.h"

namespace brim::dist {
namespace {

TEST(Links, AnAllReduceTakesWhatItsBytesDo) {
  const Links links{.ranks_per_host = 4,
                    .device = 100e9,
                    .device_delay = 1e-6,
                    .host = 10e9,
                    .host_delay = 5e-6,
                    .message = 0,
                    .memory = 1e15};
  EXPECT_EQ(all_reduce_seconds(links, 1, 1e9), 0);
  // Scattered and gathered: 3 of 4 parts each time.
  EXPECT_NEAR(all_reduce_seconds(links, 4, 1e9), 2 * (1e-6 + 0.75e9 / 100e9), 1e-5);
  // Between two hosts each sends half of the elements once each time.
  EXPECT_NEAR(all_reduce_seconds(links, 8, 1e9),
              2 * (1e-6 + 0.75e9 / 100e9) + 2 * (5e-6 + 0.5e9 / 10e9), 1e-5);
  EXPECT_THROW((void)all_reduce_seconds(links, 6, 1), ValueError);
  EXPECT_THROW((void)all_reduce_seconds({.host = 0}, 2, 1), ValueError);
  EXPECT_THROW((void)all_reduce_seconds({.device_delay = -1}, 2, 1), ValueError);
  EXPECT_THROW((void)all_reduce_seconds({}, 2, std::nan("")), ValueError);
  EXPECT_THROW((void)all_reduce_seconds({}, 0, 1), ValueError);
  EXPECT_THROW((void)simulated_group(2, {.ranks_per_host = -1}), ValueError);
  EXPECT_THROW((void)local_groups(2, {.ranks_per_host = -1}), ValueError);
  EXPECT_THROW((void)simulated_group(6, links), ValueError);
}

TEST(Links, ARingTakesAllItsHopsAndItsSlowestLink) {
  Links links{.ranks_per_host = 4,
              .device = 100e9,
              .device_delay = 1e-6,
              .host = 10e9,
              .host_delay = 5e-6,
              .memory = 1e18,
              .ring = true};
  EXPECT_EQ(all_reduce_seconds(links, 1, 1e9), 0);
  EXPECT_NEAR(all_reduce_seconds(links, 4, 1e9), 2 * 0.75 * (4 * 1e-6 + 1e9 / 100e9), 1e-8);
  EXPECT_NEAR(all_reduce_seconds(links, 8, 1e9), 2 * 7.0 / 8 * (2 * 5e-6 + 6 * 1e-6 + 1e9 / 10e9),
              1e-8);
  links.ranks_per_host = 1;
  links.device = 1;  // which nobody takes then
  EXPECT_NEAR(all_reduce_seconds(links, 2, 1e9), 2 * 0.5 * (2 * 5e-6 + 1e9 / 10e9), 1e-8);
  EXPECT_THROW((void)paced_groups(2, links), ValueError);
}

TEST(Links, TheOthersDoAsThisRankDoes) {
  const GroupPtr group = simulated_group(4, {});
  EXPECT_EQ(group->all_gather_text("same"), std::vector<std::string>(4, "same"));
  group->barrier();
  Tensor t = full({5000}, 2.0);
  all_reduce(*group->duplicate(), t);
  EXPECT_EQ(t.sum().item(), 8.0 * 5000);
  EXPECT_GT(group->link_speed(Device::cpu()).seconds_per_byte, 0);
}

/// Two layers, whose gradients are reduced.
struct Two : nn::Module {
  static constexpr int64_t kWidth = 256;
  nn::Linear& a = add<nn::Linear>("a", {.in = kWidth, .out = kWidth});
  nn::Linear& b = add<nn::Linear>("b", {.in = kWidth, .out = kWidth});
  Tensor forward(const Tensor& x) override { return b(relu(a(x))); }
};

/// A step of `width` on a virtual clock.
StepForecast forecast_of(int ranks, const Links& links, const std::string& passes = "") {
  struct Two : nn::Module {
    nn::Linear& a = add<nn::Linear>("a", {.in = 1024, .out = 1024});
    nn::Linear& b = add<nn::Linear>("b", {.in = 1024, .out = 1024});
  } net;
  DataParallel parallel(net, simulated_group(ranks, links));
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  auto step = compile(
      [&](const Tensor& x) {
        const Tensor loss =
            parallel.forward_backward([&](int64_t) { return net.b(relu(net.a(x))).sum(); });
        optimizer.step();
        return loss;
      },
      {.passes = passes});
  const StepForecast f = step.forecast(zeros({256, 1024}));
  EXPECT_EQ(step.stats().replays, 0);
  return f;
}

TEST(Forecast, CommunicationIsHiddenBehindTheBackwardPass) {
  const StepForecast one = forecast_of(1, {});
  EXPECT_EQ(one.collectives, 0);
  EXPECT_EQ(one.exposed, 0);
  EXPECT_DOUBLE_EQ(one.step, one.compute);
  const Links slow{.device = 10e9, .memory = 1e15};
  const StepForecast apart = forecast_of(2, slow), behind = forecast_of(2, slow, "-overlap");
  EXPECT_EQ(behind.collectives, 1);
  EXPECT_NEAR(behind.exposed, behind.communication, 1e-9);
  EXPECT_NEAR(behind.step, behind.compute + behind.communication, 1e-9);
  EXPECT_GT(apart.collectives, 1);
  EXPECT_LT(apart.exposed, 0.8 * behind.exposed);
  EXPECT_NEAR(apart.step, apart.compute + apart.exposed, 1e-9);
  // What it takes follows the link.
  Links half = slow;
  half.device /= 2;
  EXPECT_NEAR(forecast_of(2, half, "-overlap").communication / behind.communication, 2, 0.05);
}

/// With the layouts of any number of ranks.
auto step_of(Two& net, DataParallel& parallel, optim::SGD& optimizer, const std::string& passes) {
  return compile(
      [&](const Tensor& x) {
        (void)parallel.forward_backward([&](int64_t) { return net(x).sum(); });
        optimizer.step();
      },
      {.passes = passes, .fixed_layouts = true});
}

/// Seconds of the fastest step of ranks that are threads, each on a virtual accelerator.
double paced_step(int ranks, const Links& links, const std::string& passes) {
  double fastest = 1e9;
  run_ranks(paced_groups(ranks, links), [&](ProcessGroup& group) {
    const GroupPtr control = group.duplicate();
    const Device device = Device::sim(group.rank());
    Two net;
    net.to(device);
    DataParallel parallel(net, group.shared_from_this());
    optim::SGD optimizer(net.parameters(), {.lr = 0.1});
    auto step = step_of(net, parallel, optimizer, passes);
    const Tensor x = zeros({64, Two::kWidth}, {.device = device});
    for (int i = 0; i < 10; ++i) {
      control->barrier();
      const double begin = steady_seconds();
      step(x);
      synchronize(device);
      const double seconds = steady_seconds() - begin;
      if (i >= 5 && group.rank() == 0) fastest = std::min(fastest, seconds);
    }
  });
  return fastest;
}

/// The same on a virtual clock.
double forecast_step(int ranks, const Links& links, const std::string& passes) {
  const Device device = Device::sim(0);
  Two net;
  net.to(device);
  DataParallel parallel(net, simulated_group(ranks, links));
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  auto step = step_of(net, parallel, optimizer, passes);
  return step.forecast(zeros({64, Two::kWidth}, {.device = device})).step;
}

/// What devices and links take in real time is what the virtual clock says, where this machine
/// keeps up: with a profile of slow devices, and not in sanitizers. How close it is stands in the
/// properties.
TEST(Forecast, AgreesWithDevicesThatArePaced) {
  if (BRIM_SANITIZED) GTEST_SKIP() << "a sanitizer is slower than the pace";
  const tests::TemporaryFolder folder;
  std::ofstream(folder / "slow.toml") << R"(
name = "slow"
source = "a test"
memory_gb = 1
bandwidth_gb_s = 0.2
host_link_gb_s = 1
peer_link_gb_s = 0.05
link_delay_us = 1000
launch_us = 0
kernel_us = 50
[peak_tflops]
f32 = 0.001
[network]
gbit_s = 0.2
delay_us = 3000
devices_per_host = 2
[thermal]
idle_w = 0
peak_w = 0
ambient_c = 20
warmth_c_per_w = 0
settling_s = 1
throttle_c = 1000
throttle_clock = 1
)";
  SimOptions options = sim_options();
  options.devices = std::max(options.devices, 4);
  const SimOptions before = options;
  options.profile = folder / "slow.toml";
  set_sim_options(options);
  const sim::DeviceProfile profile = sim::load_profile(options.profile);
  for (const int ranks : {1, 4}) {
    const Links links = links_of(profile, ranks);
    EXPECT_EQ(links.ranks_per_host, ranks == 4 ? 2 : 0);
    for (const char* passes : {"-overlap", ""}) {
      const double ratio = paced_step(ranks, links, passes) / forecast_step(ranks, links, passes);
      RecordProperty(fmt::format("{}_ranks{}", ranks, *passes ? "_without_overlap" : ""),
                     fmt::format("{:.4f}", ratio));
      EXPECT_GT(ratio, 0.97) << ranks << passes;
      EXPECT_LT(ratio, 2) << ranks << passes;  // beside what else this machine does
    }
  }
  set_sim_options(before);
}

TEST(Forecast, NotInsideOfAStep) {
  auto inner = compile([](const Tensor& x) { return x * 2; });
  auto outer = compile([&](const Tensor& x) {
    (void)inner.forecast(x);
    return x * 3;
  });
  EXPECT_THROW((void)outer(ones({3})), CompileError);
}

TEST(Forecast, OfATrainingOnADeviceWithAProfile) {
  const SimOptions before = sim_options();
  SimOptions options = before;
  options.profile = "h100";
  options.paced = false;
  set_sim_options(options);
  const train::Recipe recipe = train::load_recipe("tutorial-cnn");
  const Device device = Device::sim(0);
  const auto of = [&](int64_t batch) {
    return train::forecast(recipe, {.batch = batch, .device = device, .outputs = 10});
  };
  const train::Forecast small = of(4), large = of(256);
  EXPECT_EQ(small.seconds_per_step, small.step.step);
  EXPECT_DOUBLE_EQ(small.launch, 4e-6);
  // Two copies of 8 us, and the bytes at 64 GB/s.
  EXPECT_NEAR(small.copy, 16e-6 + 4 * (3 * 32 * 32 * 4 + 8) / 64e9, 1e-12);
  EXPECT_NEAR(small.energy, 700 * small.step.compute, 1e-9);  // it computes all the time
  EXPECT_EQ(large.seconds_per_step, large.copy);              // the link is the limit
  EXPECT_GT(large.copy, large.step.step);
  EXPECT_NEAR(large.energy, 700 * large.step.compute + 70 * (large.copy - large.step.compute),
              1e-9);
  set_sim_options(before);
  EXPECT_EQ(train::forecast(recipe, {.batch = 4}).energy, 0);  // the CPU has no profile
}

TEST(Forecast, OfARecipe) {
  const train::Recipe recipe = train::load_recipe("tutorial-cnn");
  const train::Forecast one = train::forecast(recipe, {.batch = 8});
  EXPECT_GT(one.step.step, 0);
  EXPECT_GT(one.memory, 62006 * 4);
  const train::Forecast two =
      train::forecast(recipe, {.batch = 8, .ranks = 2, .links = {.device = 1e6}});
  EXPECT_GT(two.step.exposed, 0.1);  // 248 kB at 1 MB/s
  train::Recipe half = recipe;
  half.precision = "fp16";
  EXPECT_GT(train::forecast(half, {.batch = 8}).step.step, 0);
  half.virtual_ranks = 4;
  EXPECT_GT(train::forecast(half, {.batch = 8, .ranks = 2}).step.kernels,
            train::forecast(half, {.batch = 8, .ranks = 4}).step.kernels);
  EXPECT_THROW((void)train::forecast(half, {.batch = 7, .ranks = 2}), ValueError);
  train::Recipe language = recipe;
  language.task = "language";
  EXPECT_THROW((void)train::forecast(language, {}), ValueError);
  EXPECT_THROW((void)train::forecast(recipe, {.batch = 0}), ValueError);
}

TEST(Forecast, RanksWaitForTheSlowestOne) {
  EXPECT_EQ(train::expected_slowest(1, 0.1), 1);
  EXPECT_EQ(train::expected_slowest(1000, 0), 1);
  EXPECT_NEAR(train::expected_slowest(2, 0.1), 1.05, 1e-12);
  EXPECT_NEAR(train::expected_slowest(4, 0.1), 1 + 0.1 * (1.0 / 2 + 1.0 / 3 + 1.0 / 4), 1e-12);
  // As drawn: a least time and an exponential one.
  constexpr int kRanks = 8, kSteps = 20000;
  constexpr double kSpread = 0.2;
  std::mt19937_64 bits(1);
  std::exponential_distribution<double> tail(1 / kSpread);
  double all = 0;
  for (int step = 0; step < kSteps; ++step) {
    double slowest = 0;
    for (int rank = 0; rank < kRanks; ++rank) slowest = std::max(slowest, 1 - kSpread + tail(bits));
    all += slowest / kSteps;
  }
  EXPECT_NEAR(train::expected_slowest(kRanks, kSpread), all, 0.01);
  EXPECT_THROW((void)train::expected_slowest(0, 0.1), ValueError);
  EXPECT_THROW((void)train::expected_slowest(2, -0.1), ValueError);
  EXPECT_THROW((void)train::expected_slowest(2, std::nan("")), ValueError);

  const train::Recipe recipe = train::load_recipe("tutorial-cnn");
  train::ForecastOptions options{.batch = 8, .ranks = 4, .step_spread = 0.1};
  const train::Forecast waits = train::forecast(recipe, options);
  EXPECT_DOUBLE_EQ(waits.stragglers, (train::expected_slowest(4, 0.1) - 1) * waits.step.compute);
  EXPECT_DOUBLE_EQ(waits.seconds_per_step, waits.step.step + waits.stragglers);
  options.ranks = 1;
  EXPECT_EQ(train::forecast(recipe, options).stragglers, 0);
}

TEST(Forecast, BucketsAsOtherSystemsChooseThem) {
  const train::Recipe recipe =
      train::load_recipe("tutorial-cnn");  // 62,006 floats in 10 tensors, and the loss
  const auto collectives = [&](train::Bucketing bucketing, double bytes) {
    return train::forecast(recipe, {.batch = 8,
                                    .ranks = 2,
                                    .links = {.device = 1e9},
                                    .bucketing = bucketing,
                                    .bucket_bytes = bytes})
        .step.collectives;
  };
  const int64_t one = collectives(train::Bucketing::filled, 1e9);
  EXPECT_EQ(one, 1);
  EXPECT_EQ(collectives(train::Bucketing::filled, 1), 11);
  EXPECT_GT(collectives(train::Bucketing::filled, 50000), 1);
  EXPECT_LT(collectives(train::Bucketing::filled, 50000), 6);
  EXPECT_GT(collectives(train::Bucketing::ready, 1e9), one);
  EXPECT_THROW((void)collectives(train::Bucketing::ready, 0), ValueError);
  EXPECT_FALSE(plan::bucket_rule);
}

}  // namespace
}  // namespace brim::dist
