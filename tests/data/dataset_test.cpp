// Data sets of any tensors: what each of them, each sampler and each collate must keep, and what
// they make.
#include <brim/core/error.h>
#include <brim/data/dataset.h>
#include <brim/data/device_loader.h>
#include <brim/data/pictures.h>
#include <brim/ops/create.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <set>

#include "data/datasets.h"
#include "data/picture_sets.h"
#include "data/pictures.h"
#include "message_of.h"

namespace brim::data {
namespace {

using namespace brim::tests;

struct Case {
  std::string name;
  DatasetPtr data;
  LoaderOptions options;
};

/// Pictures with masks and with a table.
struct PictureFolders : data::tests::TemporaryFolder {
  PictureFolders() {
    data::tests::write_masked(*this / "masks", 31, 9, 8);
    data::tests::write_labelled(*this / "labels", 31);
  }
};

std::vector<Case> cases() {
  static const PictureFolders folders;  // as long as the tests
  const LoaderOptions plain{.batch = 5, .seed = 3};
  const auto with = [&](auto change) {
    LoaderOptions o = plain;
    change(o);
    return o;
  };
  const auto longer = [](const Sample& in, Sample& out) {
    const auto from = in["x"].values<float>();
    const auto to = out.make<float>("x", {static_cast<int64_t>(from.size()) + 1});
    std::ranges::copy(from, to.begin());
    to.back() = out.random().unit();
    out.set(in["y"]);
  };
  std::vector<int64_t> some(40);
  std::iota(some.begin(), some.end(), 11);
  std::vector<double> weights;
  std::vector<int64_t> labels;
  for (int i = 0; i < 61; ++i) weights.push_back(i % 5), labels.push_back(i % 3 == 0);
  return {
      {"own", sentences(), plain},
      {"own, in order", sentences(), with([](auto& o) { o.shuffle = false; })},
      {"own, full batches", sentences(), with([](auto& o) { o.drop_last = true; })},
      {"own, a rank", sentences(), with([](auto& o) { o.rank = 1, o.world_size = 3; })},
      {"tensors", table(), plain},
      {"pictures",
       from_pictures(std::make_shared<RandomPictures>(61, 6, 5),
                     {.steps = {RandomCrop{.height = 5, .padding = 1}}}),
       plain},
      {"pictures with masks",
       open_segmentation(
           folders / "masks", Split::train,
           {.transform = {.steps = {RandomResizedCrop{.height = 6},
                                    RandomCrop{.height = 7, .padding = 1}, HorizontalFlip{}}},
            .channels = 4}),
       plain},
      {"pictures with a table",
       open_labelled(folders / "labels", Split::train, Targets::multi_label,
                     {.transform = {.steps = {RandomCrop{.height = 5, .padding = 1}}}}),
       plain},
      {"drawn masks",
       subset(open_shapes_masks(Split::train, {.transform = {.steps = {RandomCrop{.height = 8}}}}),
              some),
       plain},
      {"drawn labels",
       subset(open_shapes_labels(Split::test,
                                 {.transform = {.steps = {Resize{.height = 6}, HorizontalFlip{}}}}),
              some),
       plain},
      {"concatenation", concat({table(7), table(30), table(1)}), plain},
      {"subset", subset(sentences(), some), plain},
      {"split", random_split(sentences(), {0.5, 0.25})[0], plain},
      {"map", map(sentences(), longer), plain},
      {"map of a map", map(map(sentences(), longer), longer), plain},
      {"repeat", repeat(sentences(9), 4), plain},
      {"interleave", interleave({table(), table(8)}, {1, 3}, 50), plain},
      {"cached", cached(table(), 1000), plain},
      {"weighted", sentences(),
       with([&](auto& o) { o.sampler = weighted_sampler(weights, 80, 9); })},
      {"balanced", sentences(), with([&](auto& o) { o.sampler = balanced_sampler(labels); })},
      {"padded", sentences(61, true),
       with([](auto& o) { o.collate = pad({.value = -1, .mask = "mask", .multiple_of = 4}); })},
      {"packed", sentences(61, true), with([](auto& o) { o.collate = pack(); })},
      {"buckets", sentences(61, true), with([](auto& o) {
         o.collate = pad();
         o.buckets = Buckets{.growth = 1.3};
       })},
      {"buckets by tokens, a rank", sentences(61, true), with([](auto& o) {
         o.collate = pad();
         o.buckets = Buckets{.tokens = 40};
         o.rank = 1, o.world_size = 2;
       })},
  };
}

TEST(Datasets, AnyNumberOfWorkersGivesTheSameBits) {
  for (Case c : cases()) {
    c.options.workers = 0;
    const Pass expected = pass_of(Loader(c.data, c.options), 2);
    EXPECT_GT(expected.samples.size(), 3U) << c.name;
    for (const int workers : {1, 2, 5, 16}) {
      c.options.workers = workers;
      c.options.ahead = workers == 2 ? 0 : -1;
      EXPECT_EQ(pass_of(Loader(c.data, c.options), 2), expected) << c.name << ", " << workers;
    }
  }
}

TEST(Datasets, AnEpochBeginsAnywhere) {
  for (const Case& c : cases()) {
    const Loader loader(c.data, c.options);
    std::vector<Pass> batches;
    for (const Batch& b : loader.epoch(4)) add(batches.emplace_back(), b);
    ASSERT_EQ(static_cast<int64_t>(batches.size()), loader.batches()) << c.name;
    for (const int64_t first : {int64_t{1}, loader.batches() / 2, loader.batches() - 1}) {
      std::vector<Pass> rest;
      for (const Batch& b : loader.epoch(4, first)) add(rest.emplace_back(), b);
      EXPECT_EQ(rest, std::vector<Pass>(batches.begin() + first, batches.end())) << c.name;
    }
    EXPECT_TRUE(pass_of(loader, 4, loader.batches()).samples.empty());
  }
}

TEST(Datasets, EpochsDiffer) {
  for (const Case& c : cases()) {
    const Loader loader(c.data, c.options);
    EXPECT_EQ(pass_of(loader, 1), pass_of(loader, 1)) << c.name;
    if (c.options.shuffle) {
      EXPECT_NE(pass_of(loader, 1).samples, pass_of(loader, 2).samples) << c.name;
    }
  }
}

TEST(Datasets, DevicesGetTheSameBatches) {
  for (const Case& c : cases()) {
    const Pass expected = pass_of(Loader(c.data, c.options), 1);
    for (const Device device : feeding_devices()) {
      DeviceLoader feed(Loader(c.data, c.options), device);
      EXPECT_EQ(pass_of(feed, 1), expected) << c.name << " on " << device.str();
      Tensor x;
      for (const Batch& b : feed.epoch(1)) x = b.x;
      EXPECT_EQ(x.device(), device);
    }
  }
}

TEST(Datasets, DevicesShareABatchByItsRows) {
  const std::vector<Device> devices = {Device::sim(0), Device::cpu(), Device::sim(1)};
  DeviceLoader feed(Loader(sentences(23), {.batch = 8}), devices);
  const Pass whole = pass_of(Loader(sentences(23), {.batch = 8}), 0);
  std::vector<double> y;
  for (const Batch& b : feed.epoch(0)) {
    EXPECT_FALSE(b.x.defined());
    for (size_t k = 0; k < b.parts.size(); ++k) {
      EXPECT_EQ(b.parts[k]["pair"].device(), devices[k]);
      for (const double v : b.parts[k].y.to(Device::cpu()).to(f64).to_vector<double>())
        y.push_back(v);
    }
  }
  EXPECT_EQ(y, whole.values.at("y"));
  DeviceLoader packed(Loader(sentences(23, true), {.batch = 8, .collate = pack()}), devices);
  EXPECT_NE(message_of([&] { pass_of(packed, 0); }).find("share a batch by its rows"),
            std::string::npos);
}

TEST(Datasets, FieldsAreStackedUnderTheirNames) {
  const Loader loader(sentences(10), {.batch = 4, .shuffle = false});
  std::vector<Batch> batches;
  for (const Batch& b : loader.epoch(0)) batches.push_back(b);
  ASSERT_EQ(batches.size(), 3U);
  EXPECT_EQ(batches[0].x.shape(), (Shape{4, 6}));
  EXPECT_EQ(batches[0].y.to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(batches[2]["pair"].to_vector<int32_t>(), (std::vector<int32_t>{8, -8, 9, -9}));
  EXPECT_EQ(batches[1]["x"].dtype(), f32);
  EXPECT_TRUE(batches[1]["x"].is_same(batches[1].x));
  EXPECT_EQ(message_of([&] { (void)batches[0]["z"]; }),
            "[loader] the batch has no field 'z'; it has x, y, pair");
}

TEST(Datasets, WhatTheLoopHoldsStays) {
  const Loader loader(sentences(40), {.batch = 4, .workers = 2, .shuffle = false});
  std::vector<Tensor> held;
  for (const Batch& b : loader.epoch(0)) held.push_back(b["pair"]);
  for (size_t i = 0; i < held.size(); ++i)
    EXPECT_EQ(held[i][0][0].item<int64_t>(), static_cast<int64_t>(4 * i));
}

TEST(Datasets, Padding) {
  const auto data = std::make_shared<Sentences>(3);
  data->before = [](int64_t i, Sample& out) {
    const auto grid = out.make<int64_t>("grid", {i + 1, 3 - i});
    std::iota(grid.begin(), grid.end(), 1);
  };
  const Loader loader(DatasetPtr(data), {.batch = 3,
                                         .shuffle = false,
                                         .collate = pad({.values = {{"grid", -2}},
                                                         .of = "grid",
                                                         .lengths = "rows",
                                                         .mask = "mask",
                                                         .multiple_of = 4})});
  for (const Batch& b : loader.epoch(0)) {
    EXPECT_EQ(b["grid"].shape(), (Shape{3, 4, 3}));
    EXPECT_EQ(b["grid"].to_vector<int64_t>(),
              (std::vector<int64_t>{1, 2,  3,  -2, -2, -2, -2, -2, -2, -2, -2, -2,  //
                                    1, 2,  -2, 3,  4,  -2, -2, -2, -2, -2, -2, -2,  //
                                    1, -2, -2, 2,  -2, -2, 3,  -2, -2, -2, -2, -2}));
    EXPECT_EQ(b["rows"].to_vector<int64_t>(), (std::vector<int64_t>{1, 2, 3}));
    EXPECT_EQ(b["mask"].to_vector<bool>(), (std::vector<bool>{1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0}));
    EXPECT_EQ(b.x.shape(), (Shape{3, 8}));  // of lengths 1, 2 and 5
    EXPECT_EQ(b.x[0][7].item(), 0);
  }
}

TEST(Datasets, PaddingThatADTypeDoesNotHave) {
  const auto loader = [](double value) {
    return Loader(from_tensors({{"x", ones({4, 2}, {.dtype = u8})}}),
                  {.collate = pad({.value = value, .multiple_of = value < 0 ? 3 : 1})});
  };
  EXPECT_EQ(pass_of(loader(300), 0).samples.size(), 1U);  // nothing is filled up
  EXPECT_EQ(message_of<ValueError>([&] { (void)pass_of(loader(-1), 0); }),
            "[collate] u8 cannot be filled up with -1");
  EXPECT_THROW(pad({.multiple_of = INT64_MAX}), ValueError);
}

TEST(Datasets, Packing) {
  const Loader loader(sentences(3, true), {.batch = 3, .shuffle = false, .collate = pack()});
  for (const Batch& b : loader.epoch(0)) {
    EXPECT_EQ(b.x.shape(), (Shape{1 + 2 + 5}));
    EXPECT_EQ(b["offsets"].to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 3, 8}));
    EXPECT_EQ(b["pair"].shape(), (Shape{6}));
    EXPECT_EQ(b.y.to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 2}));
  }
}

TEST(Datasets, ACollateOfOnesOwn) {
  const Collate sums = [](std::span<const Sample> samples, Collated& out) {
    const auto sum = out.make<float>("x", {static_cast<int64_t>(samples.size())});
    for (size_t i = 0; i < samples.size(); ++i) {
      const auto x = samples[i]["x"].values<float>();
      sum[i] = std::accumulate(x.begin(), x.end(), 0.0f);
    }
  };
  const Loader loader(table(10), {.batch = 4, .shuffle = false, .collate = sums});
  std::vector<float> all;
  for (const Batch& b : loader.epoch(0))
    for (const float v : b.x.to_vector<float>()) all.push_back(v);
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], static_cast<float>(9 * i + 3)) << i;
}

TEST(Datasets, BucketsHoldEachSampleOnceAndLittlePadding) {
  for (const int64_t tokens : {0, 64}) {
    std::multiset<int64_t> seen;
    int64_t batches = 0;
    for (int rank = 0; rank < 2; ++rank) {
      const Loader loader(sentences(400, true),
                          {.batch = 8,
                           .rank = rank,
                           .world_size = 2,
                           .collate = pad(),
                           .buckets = Buckets{.growth = 1.2, .tokens = tokens}});
      batches += loader.batches();
      for (const Batch& b : loader.epoch(3)) {
        seen.insert(b.samples.begin(), b.samples.end());
        const auto lengths = b["lengths"].to_vector<int64_t>();
        const auto [least, most] = std::ranges::minmax(lengths);
        EXPECT_LE(most, std::max(1.2 * static_cast<double>(least), least + 1.0));
        if (tokens > 0) {
          EXPECT_LE(b.x.numel(), tokens);
        }
        if (tokens == 0) {
          EXPECT_LE(b.x.size(0), 8);
        }
      }
    }
    // A batch may be there twice, so that both ranks have equally many.
    EXPECT_GE(seen.size(), 400U);
    EXPECT_EQ(std::set<int64_t>(seen.begin(), seen.end()).size(), 400U);
    EXPECT_EQ(batches % 2, 0);
  }
}

TEST(Datasets, WeightsAreKept) {
  const auto sampler = weighted_sampler({1, 0, 3, 4}, 80'000, 5);
  std::vector<int> count(4);
  for (int64_t p = 0; p < sampler->size(); ++p) ++count[static_cast<size_t>(sampler->sample(2, p))];
  EXPECT_EQ(count[1], 0);
  for (const size_t i : {0U, 2U, 3U})  // five standard deviations
    EXPECT_NEAR(count[i], i == 0 ? 10'000 : 10'000 * (i + 1), 700) << i;
  const std::vector<int64_t> labels = {0, 0, 0, 2, 0};
  const auto balanced = balanced_sampler(labels, 10'000);
  int rare = 0;
  for (int64_t p = 0; p < balanced->size(); ++p) rare += balanced->sample(0, p) == 3;
  EXPECT_NEAR(rare, 5000, 250);
  EXPECT_THROW(weighted_sampler({1, -1}), ValueError);
  EXPECT_THROW(weighted_sampler({0, 0}), ValueError);
  EXPECT_THROW(weighted_sampler({}), ValueError);
  EXPECT_THROW(balanced_sampler(std::vector<int64_t>{0, -1}), ValueError);
  EXPECT_EQ(balanced_sampler(std::vector<int64_t>{0, INT64_MAX})->size(), 2);
}

TEST(Datasets, SplitsAreDisjointAndStay) {
  const auto parts = random_split(sentences(100), {0.7, 0.2, 0.1}, 4);
  EXPECT_EQ(parts[0]->size(), 70);
  EXPECT_EQ(parts[2]->size(), 10);
  std::set<std::string> names;
  for (const DatasetPtr& part : parts)
    for (int64_t i = 0; i < part->size(); ++i) names.insert(part->describe(i));
  EXPECT_EQ(names.size(), 100U);
  EXPECT_EQ(random_split(sentences(100), {0.7, 0.2, 0.1}, 4)[1]->describe(3),
            parts[1]->describe(3));
  EXPECT_THROW(random_split(sentences(100), {0.7, 0.4}), ValueError);
  EXPECT_THROW(random_split(sentences(1), {0.5, 0.5}), ValueError);
}

TEST(Datasets, MixturesKeepTheirWeights) {
  const DatasetPtr mixed = interleave({table(4), sentences(100)}, {1, 3}, 40);
  int of_table = 0;
  for (int64_t i = 0; i < mixed->size(); ++i) of_table += mixed->describe(i).starts_with("sample");
  EXPECT_EQ(of_table, 10);
  EXPECT_EQ(concat({table(3), table(4)})->size(), 7);
  EXPECT_THROW(interleave({table()}, {0}, 4), ValueError);
  EXPECT_THROW(interleave({table()}, {1, 1}, 4), ValueError);
  EXPECT_THROW(concat({}), ValueError);
  EXPECT_THROW(subset(table(3), {3}), IndexError);
  EXPECT_THROW(repeat(table(3), 0), ValueError);
}

TEST(Datasets, ACacheReadsOnceWithinItsLimit) {
  for (const int64_t limit : {int64_t{1} << 20, int64_t{4000}, int64_t{0}}) {
    const auto data = std::make_shared<Sentences>(50, false);
    std::atomic<int> reads{0};
    data->before = [&](int64_t, Sample&) { ++reads; };
    const Loader loader(cached(data, limit), {.batch = 5, .workers = 2});
    const int at_first = reads;  // to learn the shapes
    (void)pass_of(loader, 0);
    const Pass again = pass_of(loader, 1);
    EXPECT_EQ(again.samples.size(), 10U);
    const int more = reads - at_first;
    if (limit == 0) {
      EXPECT_EQ(more, 100);
    }
    if (limit == 4000) {
      EXPECT_TRUE(more > 55 && more < 100) << more;
    }
    if (limit > 4000) {
      EXPECT_LE(more, 50);
    }
  }
}

TEST(Datasets, ACacheChangesNoDraw) {
  const auto twice = [](const Sample& in, Sample& out) {
    out.set(in["x"]);
    out.set("z", out.random().unit());
  };
  const Pass expected = pass_of(Loader(map(cached(sentences(20), 0), twice), {.batch = 4}), 3);
  const Loader loader(map(cached(sentences(20), 1 << 20), twice), {.batch = 4});
  for (int64_t e = 0; e < 3; ++e) (void)pass_of(loader, e);
  EXPECT_EQ(pass_of(loader, 3), expected);
}

TEST(Datasets, ALongSentenceIsABatchOfItsOwn) {
  struct Long final : Dataset {
    int64_t size() const override { return 101; }
    int64_t length(int64_t i) const override { return i == 50 ? 8192 : 10; }
    void get(int64_t i, Sample& out) const override { (void)out.make<uint8_t>("x", {length(i)}); }
  };
  const Loader loader(std::make_shared<Long>(),
                      {.collate = pad(), .buckets = Buckets{.tokens = 8192}});
  EXPECT_EQ(loader.batches(), 2);
}

// The next sample of the batch is prefetched, through whatever stands before the data.
TEST(Datasets, ASampleIsPrefetchedBeforeItIsRead) {
  struct Watched final : Dataset {
    mutable std::vector<int64_t> asked, read;
    int64_t size() const override { return 40; }
    void get(int64_t i, Sample& out) const override {
      read.push_back(i);
      out.set("x", i);
    }
    void prefetch(int64_t i) const noexcept override { asked.push_back(i); }
  };
  const auto same = [](const Sample& in, Sample& out) { out.set(in["x"]); };
  for (const int wrapped : {0, 1, 2, 3, 4}) {
    const auto watched = std::make_shared<Watched>();
    const DatasetPtr data =
        wrapped == 0   ? DatasetPtr(watched)
        : wrapped == 1 ? subset(watched, {3, 39, 5, 0, 7, 9, 20, 31, 1, 2})
        : wrapped == 2 ? map(watched, same)
        : wrapped == 3 ? concat({from_tensors({{"x", zeros({3}, {.dtype = i64})}}), watched})
                       : cached(watched, 1 << 20);
    const int64_t batch = 5;
    (void)pass_of(Loader(data, {.batch = batch, .workers = 0, .shuffle = false}), 0);
    ASSERT_FALSE(watched->asked.empty());
    const std::set<int64_t> read(watched->read.begin(), watched->read.end());
    for (const int64_t i : watched->asked) EXPECT_TRUE(read.contains(i)) << wrapped << " " << i;
    // All but the first of each batch, and the one that tells the loader what samples have.
    EXPECT_GE(watched->asked.size() + data->size() / batch + 1, watched->read.size()) << wrapped;
  }
}

}  // namespace
}  // namespace brim::data
