// How the loader changes its workers and slots while it runs.
#include <brim/core/allocator.h>
#include <brim/data/loader.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "data/fake_source.h"
#include "data/loader/pipeline.h"

namespace brim::data {
namespace {

using namespace tests;

TEST(LoaderTuning, ChangesNoBitWhileItRuns) {
  const auto source = std::make_shared<FakeSource>(700);
  const LoaderOptions options{.batch = 4, .workers = 0, .seed = 3};
  const Pass expected = run_loader(Loader(source, kAugment, options), 2);
  // Workers and slots change after every batch.
  LoaderOptions tuned = options;
  tuned.workers = tuned.ahead = -1;
  const auto state = std::make_shared<Loader::State>(source, kAugment, tuned);
  if (!state->tunes()) GTEST_SKIP() << "one CPU: nothing to tune";
  int changes = 0;
  state->has_enough_samples = [](const MeasurementWindow&) { return true; };
  state->observe = [&changes](const MeasurementWindow& window) {
    EXPECT_EQ(window.batches, 1);
    EXPECT_GE(window.seconds, window.waited);
    EXPECT_GE(window.idle, 0);
    const int workers[] = {1, 4, 2, 6, 1, 3};
    ++changes;
    return LoaderSizes{workers[changes % 6], 2 + changes % 40};
  };
  auto pipeline = std::make_unique<Epoch::Pipeline>(state, 2, 0);
  pipeline->start();
  Epoch epoch(std::move(pipeline));
  Pass pass;
  for (Batch& b : epoch) {
    const auto x = b.x.to_vector<float>();
    const auto y = b.y.to_vector<int64_t>();
    pass.pixels.insert(pass.pixels.end(), x.begin(), x.end());
    pass.labels.insert(pass.labels.end(), y.begin(), y.end());
    pass.samples.insert(pass.samples.end(), b.samples.begin(), b.samples.end());
    pass.sizes.push_back(b.x.size(0));
  }
  EXPECT_EQ(pass, expected);
  EXPECT_EQ(changes, 174);  // all but the first batch
}

TEST(LoaderTuning, AStretchSpansShortEpochs) {
  const auto source = std::make_shared<FakeSource>(40);
  const auto state = std::make_shared<Loader::State>(source, kAugment, LoaderOptions{.batch = 4});
  if (!state->tunes()) GTEST_SKIP() << "one CPU: nothing to tune";
  std::vector<int64_t> observed;
  state->has_enough_samples = [](const MeasurementWindow& window) { return window.batches >= 20; };
  state->observe = [&](const MeasurementWindow& window) {
    observed.push_back(window.batches);
    EXPECT_GE(window.seconds, window.waited);
    return state->sizes();
  };
  for (int64_t e = 0; e < 5; ++e) {  // of ten batches, the first of which is not counted
    auto pipeline = std::make_unique<Epoch::Pipeline>(state, e, 0);
    pipeline->start();
    Epoch epoch(std::move(pipeline));
    while (epoch.next() != nullptr) {
    }
  }
  EXPECT_EQ(observed, (std::vector<int64_t>{20, 20}));
}

TEST(LoaderTuning, GoesOnWithTheSlotsThatTheMemoryHolds) {
  const auto source = std::make_shared<FakeSource>(60);
  Allocator& allocator = Allocator::of(Device::cpu());
  const auto state = std::make_shared<Loader::State>(source, kAugment, LoaderOptions{.batch = 2});
  if (!state->tunes()) GTEST_SKIP() << "one CPU: nothing to tune";
  state->has_enough_samples = [](const MeasurementWindow&) { return true; };
  state->observe = [](const MeasurementWindow&) { return LoaderSizes{2, 1'000'000}; };
  auto pipeline = std::make_unique<Epoch::Pipeline>(state, 0, 0);
  pipeline->start();
  Epoch epoch(std::move(pipeline));
  allocator.set_limit(allocator.stats().live + (1 << 20));
  int batches = 0;
  while (epoch.next() != nullptr) ++batches;
  allocator.set_limit(0);
  EXPECT_EQ(batches, 30);
}

TEST(LoaderTuning, SlotsTakenBackGiveTheirMemoryBack) {
  const auto source = std::make_shared<FakeSource>(400);
  Allocator& allocator = Allocator::of(Device::cpu());
  const auto state = std::make_shared<Loader::State>(source, kAugment, LoaderOptions{.batch = 4});
  if (!state->tunes()) GTEST_SKIP() << "one CPU: nothing to tune";
  int changes = 0;
  state->has_enough_samples = [](const MeasurementWindow&) { return true; };
  state->observe = [&](const MeasurementWindow&) {
    return LoaderSizes{2, ++changes % 50 == 1 ? 48 : 3};
  };
  const auto before = allocator.stats().live;
  const auto used = [&] { return allocator.stats().live - before; };
  auto pipeline = std::make_unique<Epoch::Pipeline>(state, 0, 0);
  pipeline->start();
  Epoch epoch(std::move(pipeline));
  decltype(used()) all = 0;
  for (int batch = 0; epoch.next() != nullptr; ++batch) {
    if (batch == 1 || batch == 51) all = used();  // 48 slots
    if (batch == 48 || batch == 98) {
      EXPECT_LE(used(), all * 3 / 48) << batch;  // one went with each batch
    }
  }
}

TEST(LoaderTuning, StartsWithFewerSlotsThanTheTunerChose) {
  const auto source = std::make_shared<FakeSource>(4000);
  Allocator& allocator = Allocator::of(Device::cpu());
  const LoaderOptions options{.batch = 400, .workers = 2};  // 147 KB each
  const auto state = std::make_shared<Loader::State>(source, kAugment, options);
  const LoaderSizes configured = state->sizes();
  state->observe({.batches = 100, .seconds = 1, .waited = 0.5, .idle = 100});
  ASSERT_GT(state->sizes().slots, configured.slots + 2);
  const auto start_with = [&](int slots) {
    auto pipeline = std::make_unique<Epoch::Pipeline>(state, 0, 0);
    allocator.set_limit(allocator.stats().live + slots * 160'000);
    try {
      pipeline->start();
    } catch (...) {
      allocator.set_limit(0);
      throw;
    }
    allocator.set_limit(0);
    Epoch epoch(std::move(pipeline));
    int batches = 0;
    while (epoch.next() != nullptr) ++batches;
    return batches;
  };
  EXPECT_EQ(start_with(configured.slots + 1), 10);
  EXPECT_THROW(start_with(configured.slots / 2), Error);
}

TEST(LoaderTuning, StopsInTheMiddleOfAChange) {
  const auto source = std::make_shared<FakeSource>(400);
  for (int stop = 1; stop < 20; ++stop) {
    LoaderOptions options{.batch = 2};
    const auto state = std::make_shared<Loader::State>(source, kAugment, options);
    int turn = 0;
    state->has_enough_samples = [](const MeasurementWindow&) { return true; };
    state->observe = [&turn](const MeasurementWindow&) {
      return LoaderSizes{1 + ++turn % 5, 8 + turn};
    };
    auto pipeline = std::make_unique<Epoch::Pipeline>(state, 0, 0);
    pipeline->start();
    Epoch epoch(std::move(pipeline));
    for (int i = 0; i < stop; ++i) ASSERT_NE(epoch.next(), nullptr);
  }
}

TEST(LoaderTuning, TellsWhatItChose) {
  const auto source = std::make_shared<FakeSource>(40);
  std::vector<std::string> log;
  LoaderOptions options{.batch = 4};
  options.log = [&log](const std::string& line) { log.push_back(line); };
  const Loader loader(source, kAugment, options);
  ASSERT_EQ(log.size(), 1u);
  EXPECT_NE(log[0].find("slots to begin with: "), std::string::npos) << log[0];
  EXPECT_EQ(loader.decisions(), log);
  EXPECT_EQ(loader.slots(), loader.options().ahead + 2);
  options.workers = 2, options.ahead = 3;
  const Loader fixed(source, kAugment, options);
  EXPECT_TRUE(fixed.decisions().empty());
  EXPECT_EQ(fixed.workers(), 2);
  EXPECT_EQ(fixed.slots(), 5);
}

}  // namespace
}  // namespace brim::data
