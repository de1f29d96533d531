// The loader: the same bits for any number of workers, and good manners when something goes wrong.
#include <brim/core/allocator.h>
#include <brim/core/error.h>
#include <brim/data/loader.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <functional>
#include <numeric>
#include <set>
#include <thread>

#include "data/loader/pipeline.h"
#include "data/scratch.h"

namespace brim::data {
namespace {

using namespace tests;

// A source of small gradients; chosen samples throw.
class FakeSource final : public Source {
 public:
  explicit FakeSource(int64_t size, std::set<int64_t> broken = {})
      : size_(size), broken_(std::move(broken)) {}
  int64_t size() const override { return size_; }
  const std::vector<std::string>& classes() const override { return names; }
  int64_t label(int64_t i) const override { return i % 3; }
  std::string describe(int64_t i) const override { return "fake " + std::to_string(i); }
  void read(int64_t i, Image& out) const override {
    ++reads;
    if (broken_.count(i) != 0) throw FileError(describe(i) + ": broken");
    const int side = i == odd_one ? 7 : 6;
    out = {side, 5, 3, gradient(side, 5, 3, static_cast<int>(i))};
    if (change) change(i, out);
  }
  mutable std::atomic<int> reads{0};
  int64_t odd_one = -1;
  std::function<void(int64_t, Image&)> change;
  ImageShape image_shape() const override { return shape; }
  std::vector<std::string> names{"a", "b", "c"};
  ImageShape shape;  // known only after decoding

 private:
  int64_t size_;
  std::set<int64_t> broken_;
};

const Transform kAugment{
    .steps = {RandomCrop{.height = 5, .width = 6, .padding = 2}, HorizontalFlip{}}};

struct Pass {
  std::vector<int64_t> samples, labels;
  std::vector<float> pixels;
  std::vector<int64_t> sizes;
  bool operator==(const Pass&) const = default;
};

Pass run(const Loader& loader, int64_t epoch, int64_t first = 0) {
  Pass pass;
  int64_t index = first;
  for (Batch& b : loader.epoch(epoch, first)) {
    EXPECT_EQ(b.index, index++);
    const auto x = b.x.to_vector<float>();
    const auto y = b.y.to_vector<int64_t>();
    EXPECT_EQ(b.x.size(0), b.y.size(0));
    pass.pixels.insert(pass.pixels.end(), x.begin(), x.end());
    pass.labels.insert(pass.labels.end(), y.begin(), y.end());
    pass.samples.insert(pass.samples.end(), b.samples.begin(), b.samples.end());
    pass.sizes.push_back(b.x.size(0));
  }
  return pass;
}

TEST(Loader, WorkersNeverChangeABatch) {
  const auto source = std::make_shared<FakeSource>(103);
  const Loader reference(source, kAugment, {.batch = 8, .workers = 0, .seed = 3});
  const Pass expected = run(reference, 2);
  EXPECT_EQ(expected.samples.size(), 103u);
  for (const int workers : {1, 2, 4}) {
    for (const int ahead : {0, 1, 2, 9, -1}) {
      const Loader loader(source, kAugment,
                          {.batch = 8, .workers = workers, .ahead = ahead, .seed = 3});
      EXPECT_EQ(run(loader, 2), expected) << workers << " workers, ahead " << ahead;
    }
  }
  EXPECT_NE(run(reference, 3).samples, expected.samples);
  EXPECT_NE(run(Loader(source, kAugment, {.batch = 8, .seed = 4}), 2).samples, expected.samples);
}

TEST(LoaderTuning, ChangesNoBitWhileItRuns) {
  const auto source = std::make_shared<FakeSource>(700);
  const LoaderOptions options{.batch = 4, .workers = 0, .seed = 3};
  const Pass expected = run(Loader(source, kAugment, options), 2);
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

TEST(Loader, InMemorySourceWithWorkers) {
  const auto source = Source::open("shapes10", Split::test);
  const Transform transform{.steps = {RandomCrop{.height = 32, .padding = 4}, HorizontalFlip{}}};
  const Pass expected = run(Loader(source, transform, {.batch = 64, .workers = 0}), 0);
  // A fresh source: the workers draw its pictures, two of them at a time.
  const auto fresh = Source::open("shapes10", Split::test);
  EXPECT_EQ(run(Loader(fresh, transform, {.batch = 64, .workers = 3}), 0), expected);
}

TEST(Loader, AugmentationBelongsToTheSample) {
  // Other batch sizes and orders, same pictures.
  const auto source = std::make_shared<FakeSource>(20);
  const auto pixels_of = [&](const LoaderOptions& options) {
    std::vector<std::vector<float>> by_sample(20);
    const Pass pass = run(Loader(source, kAugment, options), 1);
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
  Pass pass = run(Loader(source, {}, {.batch = 8}), 0);
  EXPECT_EQ(pass.sizes, (std::vector<int64_t>{8, 8, 8, 8, 8, 8, 2}));
  for (size_t i = 0; i < 50; ++i) EXPECT_EQ(pass.labels[i], pass.samples[i] % 3);
  std::sort(pass.samples.begin(), pass.samples.end());
  std::vector<int64_t> all(50);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(pass.samples, all);
  EXPECT_EQ(run(Loader(source, {}, {.batch = 8, .drop_last = true}), 0).samples.size(), 48u);
  EXPECT_EQ(run(Loader(source, {}, {.batch = 8, .shuffle = false}), 0).samples, all);
  EXPECT_EQ(run(Loader(source, {}, {.batch = 100}), 0).sizes, (std::vector<int64_t>{50}));
}

TEST(Loader, StartsInTheMiddle) {
  const auto source = std::make_shared<FakeSource>(50);
  const Loader loader(source, kAugment, {.batch = 8, .workers = 2});
  const Pass whole = run(loader, 5), rest = run(loader, 5, 4);
  EXPECT_EQ(rest.samples, std::vector<int64_t>(whole.samples.begin() + 32, whole.samples.end()));
  EXPECT_EQ(rest.pixels, std::vector<float>(whole.pixels.begin() + 32 * 90, whole.pixels.end()));
  EXPECT_EQ(loader.sample_at(5, 33), whole.samples[33]);
  EXPECT_TRUE(run(loader, 5, 7).samples.empty());
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

TEST(Loader, ErrorsComeInOrderAndEndTheEpoch) {
  const auto source = std::make_shared<FakeSource>(40, std::set<int64_t>{17, 30});
  for (const int workers : {0, 1, 3}) {
    const Loader loader(source, {}, {.batch = 4, .workers = workers, .shuffle = false});
    Epoch epoch = loader.epoch(0);
    for (int i = 0; i < 4; ++i) ASSERT_NE(epoch.next(), nullptr);
    EXPECT_EQ(message_of<FileError>([&] { epoch.next(); }), "fake 17: broken");
    EXPECT_EQ(epoch.next(), nullptr);
  }
}

TEST(Loader, SkipLeavesBrokenSamplesOutAndCounts) {
  const auto source = std::make_shared<FakeSource>(12, std::set<int64_t>{0, 4, 5, 6, 7, 9});
  Pass expected;
  for (const int workers : {0, 1, 3}) {
    const Loader loader(
        source, {}, {.batch = 4, .workers = workers, .shuffle = false, .on_error = OnError::skip});
    std::vector<int64_t> samples;
    std::vector<int64_t> indices;
    for (Batch& b : loader.epoch(0)) {
      samples.insert(samples.end(), b.samples.begin(), b.samples.end());
      indices.push_back(b.index);
      EXPECT_EQ(b.x.size(0), static_cast<int64_t>(b.samples.size()));
    }
    EXPECT_EQ(samples, (std::vector<int64_t>{1, 2, 3, 8, 10, 11}));
    EXPECT_EQ(indices, (std::vector<int64_t>{0, 2}));  // all of batch 1 is broken
    EXPECT_EQ(loader.skipped(), 6);
  }
}

TEST(Loader, ReplacePutsTheNextSampleInPlaceOfABrokenOne) {
  const auto source = std::make_shared<FakeSource>(12, std::set<int64_t>{0, 4, 5, 6, 7, 9, 11});
  const std::vector<int64_t> expected = {1, 1, 2, 3, 8, 8, 8, 8, 8, 10, 10, 1};
  for (const int workers : {0, 1, 3}) {
    LoaderOptions options{
        .batch = 4, .workers = workers, .shuffle = false, .on_error = OnError::replace};
    const Loader loader(source, {}, options);
    const Pass whole = run(loader, 0);
    std::vector<int64_t> samples;
    for (Batch& b : loader.epoch(1)) {
      EXPECT_EQ(b.x.size(0), 4);
      samples.insert(samples.end(), b.samples.begin(), b.samples.end());
    }
    EXPECT_EQ(samples, expected);
    EXPECT_EQ(loader.skipped(), 14);
    std::vector<int64_t> of_ranks(12);  // they have the same ones, each its part of a batch
    options.batch = 2, options.world_size = 2;
    int64_t replaced = 0;
    for (options.rank = 0; options.rank < 2; ++options.rank) {
      const Loader part(source, {}, options);
      for (Batch& b : part.epoch(1))
        for (int64_t i = 0; i < 2; ++i)
          of_ranks[static_cast<size_t>(4 * b.index + 2 * options.rank + i)] =
              b.samples[static_cast<size_t>(i)];
      replaced += part.skipped();
    }
    EXPECT_EQ(of_ranks, expected);
    EXPECT_EQ(replaced, 7);
  }
  const auto broken = std::make_shared<FakeSource>(3, std::set<int64_t>{0, 1, 2});
  EXPECT_THROW(run(Loader(broken, {}, {.batch = 1, .on_error = OnError::replace}), 0), FileError);
}

/// Every other sample: the others are held out.
class EvenSamples final : public Sampler {
 public:
  explicit EvenSamples(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  int64_t sample(int64_t epoch, int64_t position) const override {
    return 2 * ((position + epoch) % size_);
  }

 private:
  int64_t size_;
};

TEST(Loader, ReplaceTakesWhatTheSamplerDraws) {
  const auto source = std::make_shared<FakeSource>(12, std::set<int64_t>{4, 6, 10});
  const std::vector<int64_t> expected = {2, 8, 8, 8, 0, 0};  // of 2, 4, 6, 8, 10, 0
  for (const int workers : {0, 2}) {
    LoaderOptions options{.batch = 4,
                          .workers = workers,
                          .on_error = OnError::replace,
                          .sampler = std::make_shared<EvenSamples>(6)};
    EXPECT_EQ(run(Loader(source, {}, options), 1).samples, expected);
    std::vector<int64_t> of_ranks(6);
    options.batch = 2, options.world_size = 2;
    for (options.rank = 0; options.rank < 2; ++options.rank) {
      const Loader part(source, {}, options);
      for (Batch& b : part.epoch(1)) {
        const size_t n = b.samples.size(), first = static_cast<size_t>(4 * b.index);
        for (size_t i = 0; i < n; ++i)
          of_ranks[first + static_cast<size_t>(options.rank) * n + i] = b.samples[i];
      }
    }
    EXPECT_EQ(of_ranks, expected);
  }
  const auto broken = std::make_shared<FakeSource>(5, std::set<int64_t>{0, 2, 4});
  const Loader none(
      broken, {},
      {.batch = 3, .on_error = OnError::replace, .sampler = std::make_shared<EvenSamples>(3)});
  EXPECT_THROW(run(none, 0), FileError);
}

TEST(Loader, AnotherSizeIsNamed) {
  const auto source = std::make_shared<FakeSource>(12);
  source->odd_one = 9;
  const Loader loader(source, {}, {.batch = 4, .workers = 1, .on_error = OnError::skip});
  const auto text = message_of<ShapeError>([&] { run(loader, 0); });
  EXPECT_EQ(
      text,
      "fake 9: the picture is 3 x 5 x 7 but the batch holds 3 x 5 x 6; add a Resize or CenterCrop");
  run(Loader(source, {.steps = {Resize{4, 4}}}, {.batch = 4}), 0);
}

TEST(Loader, PicturesThatAreNotWhatTheyDeclareAreNamed) {
  const auto source = std::make_shared<FakeSource>(12);
  const auto text = [&](const Transform& transform, const auto& change) {
    source->change = [&](int64_t i, Image& image) {
      if (i == 9) change(image);
    };
    const LoaderOptions options{.batch = 4, .workers = 1, .on_error = OnError::skip};
    return message_of<ShapeError>([&] { run(Loader(source, transform, options), 0); });
  };
  for (const Transform& transform : {Transform{}, Transform{.steps = {Resize{4}}}, kAugment}) {
    for (const size_t bytes : {size_t{0}, size_t{89}, size_t{91}, size_t{1} << 20}) {
      EXPECT_EQ(text(transform, [&](Image& image) { image.pixels.resize(bytes); }),
                "fake 9: an Image of width 6, height 5 and 3 channels with " +
                    std::to_string(bytes) + " bytes of pixels; expected 90");
    }
    EXPECT_TRUE(has(text(transform, [](Image& image) { image.channels = 4; }), "expected 120"));
    EXPECT_TRUE(has(text(transform, [](Image& image) { image.width = 4096, image.height = 4096; }),
                    "expected 50331648"));
    EXPECT_TRUE(has(text(transform, [](Image& image) { image = {}; }), "fake 9: a picture of"));
    EXPECT_TRUE(has(text(transform, [](Image& image) { image.width = -6, image.height = -5; }),
                    "fake 9: a picture of width -6"));
  }
  Image image{8, 8, 3, std::vector<uint8_t>(100)};
  EXPECT_THROW((void)to_tensor(image), ShapeError);
}

TEST(Loader, BadOptionsSayWhatIsWrong) {
  const auto source = std::make_shared<FakeSource>(3);
  const auto text = [&](const LoaderOptions& o) {
    return message_of<ValueError>([&] { Loader(source, {}, o); });
  };
  EXPECT_EQ(text({.batch = 0}).rfind("[loader] batch 0", 0), 0u);
  EXPECT_EQ(text({.workers = -2}).rfind("[loader] workers -2", 0), 0u);
  EXPECT_EQ(text({.ahead = -2}).rfind("[loader] ahead -2", 0), 0u);
  EXPECT_EQ(text({.rank = 2, .world_size = 2}).rfind("[loader] rank 2", 0), 0u);
  EXPECT_EQ(
      text({.batch = 4, .drop_last = true}).rfind("[loader] 3 samples make no full batch of 4", 0),
      0u);
  EXPECT_THROW(Loader(std::shared_ptr<const Source>()), ValueError);
  EXPECT_THROW(Loader(std::make_shared<FakeSource>(2, std::set<int64_t>{0, 1})), FileError);
}

TEST(Loader, ClassesOfOneNameAreRefused) {
  const auto source = std::make_shared<FakeSource>(3);
  source->names = {"a", "b", "a"};
  EXPECT_EQ(message_of<ValueError>([&] { Loader{source}; }),
            "[loader] the source's classes: labels 0 and 2 both name their class 'a'; rename one, "
            "or give both the same label");
}

TEST(Loader, ShapesThatNoMemoryHoldsAreRefused) {
  const auto source = std::make_shared<FakeSource>(3);
  for (const auto& [height, width] : {std::pair{1 << 30, 1 << 30}, {INT_MAX, INT_MAX}, {8, -1}}) {
    source->shape = {3, height, width};
    for (const bool raw : {false, true})
      EXPECT_EQ(message_of<ShapeError>([&] { Loader(source, {}, {.raw = raw}); }),
                "[loader] batches of 3 pictures of " + std::to_string(width) + " x " +
                    std::to_string(height) +
                    " pixels fit no memory; is the shape that the source "
                    "tells right?");
  }
  source->shape = {};
  EXPECT_EQ(run(Loader(source, {}, {.batch = INT64_MAX, .workers = 0}), 0).samples.size(), 3u);
}

TEST(Loader, OblongPictureIsNamed) {
  const TemporaryFolder folder;
  write_bytes(folder / "a/wide.png", encode_png(gradient(200'000, 1, 3, 1), 200'000, 1, 3));
  const auto source = Source::open(folder.path(), Split::train);
  const auto text = message_of<FileError>(
      [&] { Loader(source, {.steps = {Resize{.height = 32}}}, {.workers = 0}); });
  EXPECT_NE(text.find("a/wide.png: resized to 6400000 x 32"), std::string::npos) << text;
}

}  // namespace
}  // namespace brim::data
