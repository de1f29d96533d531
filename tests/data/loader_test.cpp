// The loader: the same bits for any number of workers.
#include <brim/autograd/autocast.h>
#include <brim/autograd/autograd.h>
#include <brim/core/error.h>
#include <brim/core/tf32.h>
#include <brim/data/loader.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "data/fake_source.h"

namespace brim::data {
namespace {

using namespace tests;

TEST(Loader, WorkersNeverChangeABatch) {
  const auto source = std::make_shared<FakeSource>(103);
  const Loader reference(source, kAugment, {.batch = 8, .workers = 0, .seed = 3});
  const Pass expected = run_loader(reference, 2);
  EXPECT_EQ(expected.samples.size(), 103u);
  for (const int workers : {1, 2, 4}) {
    for (const int ahead : {0, 1, 2, 9, -1}) {
      const Loader loader(source, kAugment,
                          {.batch = 8, .workers = workers, .ahead = ahead, .seed = 3});
      EXPECT_EQ(run_loader(loader, 2), expected) << workers << " workers, ahead " << ahead;
    }
  }
  EXPECT_NE(run_loader(reference, 3).samples, expected.samples);
  EXPECT_NE(run_loader(Loader(source, kAugment, {.batch = 8, .seed = 4}), 2).samples,
            expected.samples);
}

TEST(Loader, InMemorySourceWithWorkers) {
  const auto source = Source::open("shapes10", Split::test);
  const Transform transform{.steps = {RandomCrop{.height = 32, .padding = 4}, HorizontalFlip{}}};
  const Pass expected = run_loader(Loader(source, transform, {.batch = 64, .workers = 0}), 0);
  // A fresh source: the workers draw its pictures, two of them at a time.
  const auto fresh = Source::open("shapes10", Split::test);
  EXPECT_EQ(run_loader(Loader(fresh, transform, {.batch = 64, .workers = 3}), 0), expected);
}

// Numbers in memory. A worker that reads every eighth one waits until the loop has read one, or for
// a while.
struct HeldNumbers final : Dataset {
  const std::thread::id loop = std::this_thread::get_id();
  mutable std::atomic<int> by_loop = 0;
  int64_t size() const override { return 400; }
  bool in_memory() const override { return true; }
  void get(int64_t i, Sample& out) const override {
    using namespace std::chrono_literals;
    out.set("x", i);
    if (std::this_thread::get_id() == loop) {
      ++by_loop;
    } else if (i % 8 == 7) {
      const auto until = std::chrono::steady_clock::now() + 50ms;
      while (by_loop == 0 && std::chrono::steady_clock::now() < until)
        std::this_thread::sleep_for(100us);
    }
  }
};

TEST(Loader, ALoopThatWaitsMakesSmallBatchesOfSamplesInMemory) {
  const auto numbers = std::make_shared<HeldNumbers>();
  std::vector<int64_t> seen;
  const Loader loader(numbers, {.batch = 1, .workers = 1, .shuffle = false});
  for (const Batch& batch : loader.epoch(0)) {
    EXPECT_EQ(batch.x.to_vector<int64_t>(), batch.samples);
    seen.push_back(batch.samples.at(0));
  }
  EXPECT_GT(numbers->by_loop, 0);
  std::vector<int64_t> expected(400);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(seen, expected);
}

// What a sample's ops would find around them.
struct Surroundings final : Dataset {
  int64_t size() const override { return 100; }
  bool in_memory() const override { return true; }
  void get(int64_t, Sample& out) const override {
    out.set("x", grad_enabled() + 2 * (Autocast::current() == f32) + 4 * !Tf32::allowed() +
                     8 * default_device().is_cpu());
  }
};

TEST(Loader, ScopesOfTheLoopChangeNoSample) {
  const auto data = std::make_shared<Surroundings>();
  const NoGrad no_grad;
  const Autocast low(bf16);
  const Tf32 tf32;
  for (const int workers : {0, 1}) {
    const Loader loader(data, {.batch = 1, .workers = workers});
    for (const Batch& batch : loader.epoch(0))
      EXPECT_EQ(batch.x.to_vector<int32_t>(), std::vector<int32_t>{15}) << workers;
  }
}

TEST(Loader, AugmentationBelongsToTheSample) {
  // Other batch sizes and orders, same pictures.
  const auto source = std::make_shared<FakeSource>(20);
  const auto pixels_of = [&](const LoaderOptions& options) {
    std::vector<std::vector<float>> by_sample(20);
    const Pass pass = run_loader(Loader(source, kAugment, options), 1);
    for (size_t i = 0; i < 20; ++i) {
      const auto at = pass.pixels.begin() + static_cast<ptrdiff_t>(i * 90);
      by_sample[static_cast<size_t>(pass.samples[i])].assign(at, at + 90);
    }
    return by_sample;
  };
  EXPECT_EQ(pixels_of({.batch = 3}), pixels_of({.batch = 7, .shuffle = false}));
}

TEST(Loader, EachSampleOncePerEpoch) {
  const auto source = std::make_shared<FakeSource>(50);
  Pass pass = run_loader(Loader(source, {}, {.batch = 8}), 0);
  EXPECT_EQ(pass.sizes, (std::vector<int64_t>{8, 8, 8, 8, 8, 8, 2}));
  for (size_t i = 0; i < 50; ++i) EXPECT_EQ(pass.labels[i], pass.samples[i] % 3);
  std::sort(pass.samples.begin(), pass.samples.end());
  std::vector<int64_t> all(50);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(pass.samples, all);
  EXPECT_EQ(run_loader(Loader(source, {}, {.batch = 8, .drop_last = true}), 0).samples.size(), 48u);
  EXPECT_EQ(run_loader(Loader(source, {}, {.batch = 8, .shuffle = false}), 0).samples, all);
  EXPECT_EQ(run_loader(Loader(source, {}, {.batch = 100}), 0).sizes, (std::vector<int64_t>{50}));
}

TEST(Loader, StartsInTheMiddle) {
  const auto source = std::make_shared<FakeSource>(50);
  const Loader loader(source, kAugment, {.batch = 8, .workers = 2});
  const Pass whole = run_loader(loader, 5), rest = run_loader(loader, 5, 4);
  EXPECT_EQ(rest.samples, std::vector<int64_t>(whole.samples.begin() + 32, whole.samples.end()));
  EXPECT_EQ(rest.pixels, std::vector<float>(whole.pixels.begin() + 32 * 90, whole.pixels.end()));
  EXPECT_EQ(loader.sample_at(5, 33), whole.samples[33]);
  EXPECT_TRUE(run_loader(loader, 5, 7).samples.empty());
  EXPECT_THROW(loader.epoch(5, 8), ValueError);
}

TEST(Loader, KeptTensorsStayAsTheyAre) {
  const auto source = std::make_shared<FakeSource>(64);
  for (const int workers : {0, 2}) {
    const Loader loader(source, kAugment, {.batch = 4, .workers = workers, .ahead = 1});
    std::vector<Tensor> kept, views;
    std::vector<std::vector<float>> values;
    std::set<const void*> addresses;
    for (Batch& b : loader.epoch(0)) {
      addresses.insert(b.x.raw());
      if (b.index % 3 == 0) {
        kept.push_back(b.x);
      } else if (b.index % 3 == 1) {
        kept.push_back(b.x.slice(0, 0, 4));  // a view holds the memory as well
      } else {
        continue;
      }
      values.push_back(b.x.to_vector<float>());
    }
    for (size_t i = 0; i < kept.size(); ++i) EXPECT_EQ(kept[i].to_vector<float>(), values[i]) << i;
    EXPECT_GE(addresses.size(), kept.size());
  }
  // Nobody keeps anything: the ring's memory is all there is.
  const Loader loader(source, kAugment, {.batch = 4, .workers = 1, .ahead = 1});
  std::set<const void*> addresses;
  for (Batch& b : loader.epoch(0)) addresses.insert(b.x.raw());
  EXPECT_LE(addresses.size(), 3u);
}

TEST(Loader, LeavingEarlyNeitherHangsNorLeaks) {
  const auto source = std::make_shared<FakeSource>(1000);
  for (int round = 0; round < 30; ++round) {
    const Loader loader(source, kAugment,
                        {.batch = 2, .workers = 1 + round % 4, .ahead = round % 5});
    int left = round % 7;
    for (Batch& b : loader.epoch(round)) {
      EXPECT_TRUE(b.x.defined());
      if (left-- == 0) break;
    }
    const Epoch unused = loader.epoch(round);
  }
  // The epoch keeps what it needs alive.
  auto loader = std::make_unique<Loader>(source, kAugment, LoaderOptions{.batch = 2, .workers = 2});
  Epoch epoch = loader->epoch(0);
  loader.reset();
  EXPECT_NE(epoch.next(), nullptr);
  Epoch moved = std::move(epoch);
  EXPECT_NE(moved.next(), nullptr);
}

TEST(Loader, WorkersStayWithinTheRing) {
  const auto source = std::make_shared<FakeSource>(1000);
  const Loader loader(source, {}, {.batch = 2, .workers = 2, .ahead = 1});
  source->reads = 0;
  Epoch epoch = loader.epoch(0);
  ASSERT_NE(epoch.next(), nullptr);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_LE(source->reads.load(), 2 * 3);
}

}  // namespace
}  // namespace brim::data
