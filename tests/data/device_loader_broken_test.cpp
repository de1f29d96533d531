// Pictures that cannot be read: every way to feed a loop leaves out or replaces the same ones.
#include <brim/data/device_loader.h>

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <brim/brim.h>

#include "data/device_batches.h"
#include "data/pictures.h"
#include "message_of.h"

namespace brim::data {
namespace {

using namespace tests;
using brim::tests::RandomPictures;

class BrokenPictures : public OnSimProfiles {};

TEST_P(BrokenPictures, BrokenPicturesAreLeftOutOrReplacedEverywhere) {
  const auto broken =
      std::make_shared<RandomPictures>(23, 9, 11, std::vector<int64_t>{0, 5, 6, 22});
  const Transform transform{{RandomCrop{.height = 9, .width = 11, .padding = 1}}, {}};
  LoaderOptions options{.batch = 2, .workers = 1, .seed = 3};
  const Loader raising(broken, transform, options);
  for (const OnError on_error : {OnError::skip, OnError::replace}) {
    options.on_error = on_error;
    const Loader loader(broken, transform, options);
    for (const Device device : brim::tests::feeding_devices()) {
      for (const DeviceLoaderOptions& how :
           {DeviceLoaderOptions{}, {.augment_on = AugmentOn::device}, {.resident = true}}) {
        DeviceLoader feed(loader, device, how);
        for (const Batch& batch : feed.epoch(1))
          if (batch.index == 4) break;  // what was fetched ahead and is not used does not count
        const int64_t before = feed.skipped();
        EXPECT_EQ(all_of(feed.epoch(1)), expected(loader, 1)) << device.str();
        EXPECT_EQ(feed.skipped() - before, 4) << device.str();
        EXPECT_EQ(all_of(feed.epoch(2, 5)), expected(loader, 2, 5)) << device.str();
      }
      EXPECT_THROW(DeviceLoader(raising, device, {.resident = true}), FileError);
    }
  }
}

/// Every other picture, from the epoch's on.
class EvenPictures final : public Sampler {
 public:
  int64_t size() const override { return 12; }
  int64_t sample(int64_t epoch, int64_t position) const override {
    return (2 * position + 4 * epoch) % 24;
  }
};

TEST_P(BrokenPictures, WhatTheSamplerDrawsStandsInForBrokenPictures) {
  const auto broken =
      std::make_shared<RandomPictures>(24, 9, 11, std::vector<int64_t>{0, 6, 8, 22});
  const Loader loader(broken, {{HorizontalFlip{}}, {}},
                      {.batch = 5,
                       .workers = 1,
                       .rank = 1,
                       .world_size = 2,
                       .on_error = OnError::replace,
                       .sampler = std::make_shared<EvenPictures>()});
  for (const Device device : brim::tests::feeding_devices())
    for (const bool resident : {false, true}) {
      DeviceLoader feed(loader, device, {.resident = resident});
      for (const int64_t epoch : {0, 1, 2}) {
        const std::vector<Seen> batches = all_of(feed.epoch(epoch));
        EXPECT_EQ(batches, expected(loader, epoch)) << device.str() << resident;
        for (const Seen& batch : batches)
          for (const int64_t sample : batch.samples) EXPECT_EQ(sample % 2, 0);
      }
    }
}

TEST_P(BrokenPictures, AThousandPicturesMayStandInForABrokenOne) {
  for (const int64_t count : {1000, 1001}) {
    std::vector<int64_t> all(static_cast<size_t>(count));
    std::iota(all.begin(), all.end(), 0);
    const auto broken = std::make_shared<RandomPictures>(1002, 2, 2, all);
    const Loader loader(broken, {},
                        {.batch = 1, .workers = 0, .shuffle = false, .on_error = OnError::replace});
    for (const Device device : brim::tests::feeding_devices())
      for (const bool resident : {false, true}) {
        DeviceLoader feed(loader, device, {.resident = resident});
        const auto first = [&] {
          DeviceEpoch epoch = feed.epoch(0);
          return epoch.next()->samples[0];
        };
        if (count == 1000) {
          EXPECT_EQ(first(), 1000) << device.str() << resident;
          continue;
        }
        for (int again = 0; again < 2; ++again)
          EXPECT_NE(brim::tests::message_of<FileError>(first).find("none of the 1000 samples"),
                    std::string::npos)
              << device.str() << resident;
      }
  }
}

TEST_P(BrokenPictures, NotOneThatCanBeReadIsAnEmptyEpoch) {
  const auto broken = std::make_shared<RandomPictures>(3, 9, 11, std::vector<int64_t>{0, 1, 2});
  const Loader loader(broken, {}, {.batch = 2, .workers = 1, .on_error = OnError::skip});
  for (const Device device : brim::tests::feeding_devices()) {
    for (const bool resident : {false, true}) {
      DeviceLoader feed(loader, device, {.resident = resident});
      EXPECT_EQ(all_of(feed).size(), 0U) << device.str() << resident;
      EXPECT_EQ(feed.skipped(), 3);
    }
    const Loader replacing(broken, {}, {.batch = 2, .workers = 1, .on_error = OnError::replace});
    EXPECT_THROW(DeviceLoader(replacing, device, {.resident = true}), FileError);
  }
}

INSTANTIATE_TEST_SUITE_P(AtOnceAndPaced, BrokenPictures, ::testing::Values("", "h200"));

}  // namespace
}  // namespace brim::data
