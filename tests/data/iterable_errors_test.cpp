// Iterable data sets that throw, block, end early or never, or cannot be served: what the loop is
// told.
#include <brim/data/iterable.h>

#include <brim/data/device_loader.h>
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "data/iterables.h"
#include "data/loader/pipeline.h"
#include "message_of.h"
#include "temporary_folder.h"

namespace brim::data {
namespace {

using namespace brim::tests;

TEST(IterableErrors, WhatIsThrownNamesTheSample) {
  std::function<void(Sample&)> bad;
  const auto data = walk(20);
  data->before = [&](int64_t i, Sample& out) {
    if (i == 13) bad(out);
  };
  for (const int workers : {0, 1, 3}) {
    const auto told = [&](auto e) {
      using E = decltype(e);
      const Loader loader(data, reading(workers));
      Epoch epoch = loader.epoch(0);
      for (int k = 0; k < 3; ++k) EXPECT_NE(epoch.next(), nullptr);
      const std::string message = message_of<E>([&] { (void)epoch.next(); });
      EXPECT_EQ(epoch.next(), nullptr);  // the epoch is at its end
      return message;
    };
    const auto skipped = [&] {
      const Loader loader(data, reading(workers, OnError::skip));
      const Pass pass = pass_of(loader, 0);
      EXPECT_EQ(pass.values.at("y").size(), 19U);
      EXPECT_EQ(pass.samples[3], (std::vector<int64_t>{12, 14, 15}));
      EXPECT_EQ(loader.skipped(), 1);
    };
    bad = [](Sample&) { throw FileError("cut off"); };
    EXPECT_EQ(told(FileError("")), "sample 13 of walk: cut off");
    skipped();
    bad = [](Sample&) { throw std::runtime_error("no such row"); };
    EXPECT_EQ(told(FileError("")), "sample 13 of walk: no such row");
    skipped();
    bad = [](Sample& out) { out.set("z", 1.0f); };
    EXPECT_EQ(told(ShapeError("")), "sample 13 of walk: field 'z' is new; other samples have x, y");
    skipped();
    bad = [](Sample& out) { (void)out["q"]; };
    EXPECT_NE(told(IndexError("")).find("sample 13 of walk: "), std::string::npos);
  }
}

TEST(IterableErrors, OtherShapesAreNamed) {
  for (const int workers : {0, 3}) {
    EXPECT_EQ(
        message_of<ShapeError>([&] { (void)pass_of(Loader(walk(20, true), reading(workers)), 0); }),
        "sample 1 of walk: field 'x' is f32 (2), in other samples f32 (1); where they differ "
        "in length, give LoaderOptions::collate data::pad()");
    // The shape is that of the first sample of the epoch, not of the batch.
    const Loader skipping(walk(20, true), reading(workers, OnError::skip));
    Pass pass = pass_of(skipping, 0);
    EXPECT_EQ(pass.samples, (std::vector<std::vector<int64_t>>{{0}, {7}, {14}}));
  }
}

TEST(IterableErrors, NoSampleCanStandInForAnother) {
  EXPECT_NE(message_of<ValueError>([] {
              Loader(walk(20), reading(1, OnError::replace));
            }).find("use OnError::skip"),
            std::string::npos);
}

TEST(IterableErrors, WhatAMapThrowsIsTold) {
  const auto make = [](OnError on_error) {
    return Loader(map(walk(20),
                      [](const Sample& in, Sample& out) {
                        const int64_t y = in["y"].values<int64_t>()[0];
                        if (y == 0 || y == 9) throw std::runtime_error("odd one");
                        out.set("y", y);
                      }),
                  reading(3, on_error));
  };
  EXPECT_EQ(message_of<FileError>([&] { (void)pass_of(make(OnError::raise), 0); }),
            "sample 0 of walk: odd one");
  const Loader skipping = make(OnError::skip);
  EXPECT_EQ(pass_of(skipping, 0).values.at("y").size(), 18U);
  EXPECT_EQ(skipping.skipped(), 2);
}

TEST(IterableErrors, AMapThatMakesNoFieldIsTold) {
  for (const int workers : {0, 2}) {
    const Loader loader(map(walk(20), [](const Sample&, Sample&) {}), reading(workers));
    EXPECT_EQ(message_of<ValueError>([&] { (void)pass_of(loader, 0); }),
              "sample 0 of walk: it has no fields; fill it with Sample::make() or set()");
  }
}

TEST(IterableErrors, WhatCanNeverBeReadIsNotSkippedForEver) {
  struct Broken final : IterableDataset {
    void begin(int64_t) override {}
    bool next(Sample&) override { throw std::runtime_error("always"); }
  };
  for (const int workers : {0, 2}) {
    const Loader loader(std::make_shared<Broken>(), reading(workers, OnError::skip));
    EXPECT_NE(message_of<FileError>([&] { (void)pass_of(loader, 0); }).find("always"),
              std::string::npos);
    EXPECT_EQ(loader.skipped(), 1000);
  }
}

TEST(IterableErrors, ACollateThatThrowsEndsTheEpoch) {
  LoaderOptions options = reading(2);
  options.collate = [](std::span<const Sample> samples, Collated&) {
    throw ValueError("[collate] " + samples[0].describe());
  };
  const Loader loader(walk(), options);
  EXPECT_EQ(message_of<ValueError>([&] { (void)pass_of(loader, 0); }),
            "[collate] sample 0 of walk");
}

TEST(IterableErrors, BrokenSamplesOfOtherRanksArePassedOver) {
  const auto data = walk(20);
  data->before = [](int64_t i, Sample&) {
    if (i == 5) throw ShapeError("odd");
    if (i == 7) throw FileError("cut off");
  };
  const auto y_of = [&](int rank, OnError on_error) {
    const Loader loader(sharded(data, rank, 2), reading(1, on_error));
    return pass_of(loader, 0).values.at("y");
  };
  EXPECT_EQ(y_of(0, OnError::raise), (std::vector<double>{0, 2, 4, 6, 8, 10, 12, 14, 16, 18}));
  EXPECT_EQ(y_of(1, OnError::skip), (std::vector<double>{1, 3, 9, 11, 13, 15, 17, 19}));
  EXPECT_THROW((void)y_of(1, OnError::raise), ShapeError);
}

TEST(IterableErrors, AMissingShardIsToldAndTheNextOneRead) {
  const TemporaryFolder folder;
  const auto make = [&](OnError on_error) {
    return Loader(chain({[] { return walk(3); }, [&] { return open_lines(folder / "missing.txt"); },
                         [] { return walk(2); }}),
                  reading(2, on_error));
  };
  EXPECT_NE(message_of<FileError>([&] {
              (void)pass_of(make(OnError::raise), 0);
            }).find("missing.txt: cannot open: No such file"),
            std::string::npos);
  const Loader skipping = make(OnError::skip);
  EXPECT_EQ(pass_of(skipping, 0).values.at("y"), (std::vector<double>{0, 1, 2, 0, 1}));
  EXPECT_EQ(skipping.skipped(), 1);
}

TEST(IterableErrors, WhatCannotBeServedIsRefused) {
  const auto message = [](LoaderOptions options) {
    return message_of<ValueError>([&] { (void)Loader(walk(), options); });
  };
  EXPECT_EQ(message({}),
            "[loader] an iterable data set has no samples to permute; say .shuffle = false, and "
            "for a random order give shuffled(data, buffer_samples, seed)");
  EXPECT_NE(message({.shuffle = false, .sampler = weighted_sampler({1, 1})}).find("sampler"),
            std::string::npos);
  EXPECT_NE(message({.shuffle = false, .buckets = Buckets{}}).find("data::pad()"),
            std::string::npos);
  EXPECT_NE(message({.shuffle = false, .raw = true}).find("raw"), std::string::npos);
  EXPECT_NE(message({.batch = 0, .shuffle = false}).find("batch 0"), std::string::npos);
  EXPECT_NE(message({.shuffle = false, .rank = 2, .world_size = 2}).find("rank 2"),
            std::string::npos);
  EXPECT_THROW(Loader(IterablePtr(), reading(1)), ValueError);
  const Loader loader(walk(), reading(1));
  EXPECT_TRUE(loader.is_iterable());
  EXPECT_FALSE(loader.has_pictures());
  EXPECT_EQ(loader.describe().find("1 worker ("), 0U) << loader.describe();
  EXPECT_NE(message_of<ValueError>([&] { (void)loader.batches(); }).find("count batches"),
            std::string::npos);
  EXPECT_THROW((void)loader.samples(), ValueError);
  EXPECT_THROW((void)loader.sample_at(0, 0), ValueError);
  EXPECT_THROW((void)loader.dataset(), ValueError);
  EXPECT_THROW((void)loader.source(), ValueError);
  EXPECT_THROW((void)loader.epoch(-1), ValueError);
  EXPECT_THROW((void)loader.epoch(0, INT64_MAX), ValueError);
  EXPECT_THROW((void)loader.state(0, 5), ValueError);
  EXPECT_NE(message_of<ValueError>([&] {
              (void)DeviceLoader(loader, Device::cpu(), {.resident = true});
            }).find("resident"),
            std::string::npos);
  EXPECT_THROW(take(walk(), -1), ValueError);
  EXPECT_THROW(shuffled(walk(), 0), ValueError);
  EXPECT_THROW(sharded(walk(), 3, 3), ValueError);
  EXPECT_THROW(chain({}), ValueError);
  EXPECT_THROW(map(walk(), nullptr), ValueError);
  EXPECT_THROW(shuffled(IterablePtr(), 4), ValueError);
  struct Empty final : IterableDataset {
    void begin(int64_t) override {}
    bool next(Sample&) override { return true; }
  };
  EXPECT_NE(message_of<ValueError>([] {
              (void)pass_of(Loader(std::make_shared<Empty>(), reading(1)), 0);
            }).find("has no fields"),
            std::string::npos);
}

TEST(IterableErrors, ASecondLoaderOfADataSetIsRefused) {
  const IterablePtr data = walk();
  const auto refused = [&](const IterablePtr& second) {
    return message_of<ValueError>([&] { (void)Loader(second, reading(1)); });
  };
  {
    const Loader loader(shuffled(data, 4), reading(2));
    const Loader copy = loader;
    DeviceLoader feed(loader, Device::sim(0));  // reads by the same loader
    EXPECT_EQ(pass_of(feed, 0), pass_of(copy, 0));
    for (const IterablePtr& second : {data, take(data, 3), noisy(data), shuffled(data, 9)})
      EXPECT_EQ(refused(second).find("[loader] another loader reads walk, "), 0U);
    EXPECT_EQ(refused(walk()), "no error");
  }
  EXPECT_THROW((void)Loader(data, {.batch = 4}), ValueError);  // and reads nothing
  Epoch epoch = Loader(data, reading(1)).epoch(0);
  EXPECT_NE(refused(data), "no error");  // the epoch still reads
  ASSERT_NE(epoch.next(), nullptr);
  epoch = Loader(walk(), reading(1)).epoch(0);
  EXPECT_EQ(refused(data), "no error");
}

TEST(IterableErrors, ANextEpochEndsTheOneBefore) {
  const Loader loader(walk(), reading(2));
  Epoch first = loader.epoch(0);
  ASSERT_NE(first.next(), nullptr);
  Epoch second = loader.epoch(1);
  EXPECT_NE(message_of<ValueError>([&] { (void)first.next(); }).find("this epoch ended"),
            std::string::npos);
  first = loader.epoch(2);
  EXPECT_THROW((void)second.next(), ValueError);
  EXPECT_EQ(first.next()->y.to_vector<int64_t>(), (std::vector<int64_t>{2000, 2001, 2002, 2003}));
}

TEST(IterableErrors, ANextEpochEndsTheOneThatWaits) {
  /// Its third sample of epoch 0 comes when it is interrupted.
  struct Waits final : IterableDataset {
    void begin(int64_t of) override { epoch = of, at = 0; }
    bool next(Sample& out) override {
      if (epoch == 0 && at == 2) {
        waits = true;
        waits.notify_all();
        interrupted.wait(false);
      }
      out.set("y", at++);
      return true;
    }
    std::string state() const override { return std::to_string(at); }
    void load_state(const std::string& state) override { at = std::stoll(state); }
    void interrupt() override {
      interrupted = true;
      interrupted.notify_all();
      throw std::runtime_error("is ignored");
    }
    int64_t epoch = 0, at = 0;
    std::atomic<bool> waits{false}, interrupted{false};
  };
  for (const int workers : {0, 1, 3}) {
    const auto data = std::make_shared<Waits>();
    const Loader loader(data, reading(workers));
    Epoch first = loader.epoch(0);
    std::string told;
    std::thread loop([&] { told = message_of<ValueError>([&] { (void)first.next(); }); });
    data->waits.wait(false);
    Epoch second = loader.epoch(1);
    loop.join();
    EXPECT_EQ(told.find("[loader] this epoch ended"), 0U) << told;
    EXPECT_THROW((void)loader.state(0, 1), ValueError);  // the batch that was cut off
    EXPECT_EQ(second.next()->y.to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 2, 3}));
  }
}

TEST(IterableErrors, AnEndlessOneIsStoppedEarly) {
  struct Endless final : IterableDataset {
    int64_t at = 0;
    void begin(int64_t) override { at = 0; }
    bool next(Sample& out) override {
      out.set("y", at++);
      return true;
    }
  };
  for (const int workers : {0, 1, 16}) {
    const Loader loader(noisy(std::make_shared<Endless>()), reading(workers));
    for (int epoch = 0; epoch < 3; ++epoch) {
      int64_t count = 0;
      for (const Batch& batch : loader.epoch(epoch)) {
        EXPECT_EQ(batch.samples.front(), 4 * count);
        if (++count == 20) break;
      }
      EXPECT_EQ(count, 20);
    }
  }
}

TEST(IterableErrors, AStallIsNamed) {
  const auto data = walk(8);
  std::atomic<bool> go{false};
  data->before = [&](int64_t i, Sample&) {
    if (i == 2) go.wait(false);
  };
  std::vector<std::string> told;
  LoaderOptions options = reading(2);
  options.log = [&](const std::string& line) {
    if (line.find("waited") == std::string::npos) return;
    told.push_back(line);
    go = true;
    go.notify_all();
  };
  const auto state =
      std::make_shared<Loader::State>(std::make_shared<IterableSource>(data, options), options);
  state->patience = std::chrono::milliseconds(20);
  Epoch::Pipeline pipeline(state, 0, 0);
  pipeline.start();
  ASSERT_NE(pipeline.next(), nullptr);
  ASSERT_FALSE(told.empty());
  EXPECT_NE(told[0].find("for batch 0: a worker is reading sample 2 of walk"), std::string::npos)
      << told[0];
}

}  // namespace
}  // namespace brim::data
