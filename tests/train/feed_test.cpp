// Every way to feed a loop gives the batches that the loader makes on the host, to the bit: raw
// batches augmented on the device, and a data set that lives there.
#include "train/feed.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include <brim/brim.h>
#include <brim/core/sim.h>

#include "backend/launches.h"
#include "core/pinned_memory.h"
#include "train/device_feed.h"
#include "train/pictures.h"
#include "train/resident_feed.h"

namespace brim::train {
namespace {

using tests::RandomPictures;

struct Seen {
  int64_t index;
  Shape shape;
  std::vector<float> x;
  std::vector<int64_t> y, samples;
  bool operator==(const Seen&) const = default;
};

Seen seen(const data::Batch& batch) {
  return {batch.index, batch.x.shape(), batch.x.to_vector<float>(), batch.y.to_vector<int64_t>(),
          batch.samples};
}

/// All of an epoch from `first` on. The numbers are read at its end, as a loop does.
std::vector<Seen> epoch_of(Feed& feed, int64_t epoch, int64_t first = 0) {
  std::vector<data::Batch> kept;
  feed.start(epoch, first);
  while (const data::Batch* batch = feed.next()) {
    kept.push_back({batch->x.clone(), batch->y.clone(), {}, {}, batch->index, batch->samples});
    feed.ahead();
  }
  feed.finish();
  std::vector<Seen> result;
  for (const data::Batch& batch : kept) result.push_back(seen(batch));
  return result;
}

std::vector<Seen> expected(const data::Loader& loader, int64_t epoch, int64_t first = 0) {
  std::vector<Seen> result;
  for (const data::Batch& batch : loader.epoch(epoch, first)) result.push_back(seen(batch));
  return result;
}

/// Transforms whose last part, of every kind, a device does.
std::vector<data::Transform> transforms() {
  const data::Normalize scale{{0.4914f, 0.4822f, 0.4465f}, {0.2470f, 0.2435f, 0.2616f}};
  return {
      {},
      {{}, scale},
      {{data::HorizontalFlip{}}, scale},
      {{data::RandomCrop{.height = 9, .width = 12, .padding = 3, .fill = 7}}, scale},
      {{data::RandomCrop{.height = 9, .width = 11, .padding = 4}, data::HorizontalFlip{}}, scale},
      {{data::HorizontalFlip{}, data::RandomCrop{.height = 5, .width = 7, .padding = 2}}, scale},
      {{data::Resize{.height = 13}, data::CenterCrop{.height = 8},
        data::RandomCrop{.height = 8, .padding = 1}, data::HorizontalFlip{}},
       scale},
      // Two crops: the first one stays with the host.
      {{data::RandomCrop{.height = 8, .padding = 2, .fill = 9}, data::HorizontalFlip{},
        data::RandomCrop{.height = 8, .padding = 2}, data::HorizontalFlip{}},
       scale},
      {{data::RandomResizedCrop{.height = 8}, data::HorizontalFlip{}}, scale},
  };
}

class FeedTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { set_sim_options({.profile = GetParam(), .check = true}); }
  void TearDown() override {
    synchronize(Device::sim(0));
    set_sim_options({});
  }
  const std::shared_ptr<data::Source> pictures_ = std::make_shared<RandomPictures>(23, 9, 11);
};

TEST_P(FeedTest, RawBatchesBecomeTheLoadersFloats) {
  for (const data::Transform& transform : transforms()) {
    const data::Loader host(pictures_, transform, {.batch = 4, .workers = 1, .seed = 5});
    for (const Device device : tests::feeding_devices()) {
      for (const int workers : {0, 2}) {
        data::Loader loader(
            pictures_, transform,
            {.batch = 4, .workers = workers, .seed = 5, .target = device, .raw = true});
        DeviceFeed feed(loader, device);
        for (int64_t epoch = 0; epoch < 2; ++epoch)
          EXPECT_EQ(epoch_of(feed, epoch), expected(host, epoch))
              << device.str() << ", " << transform.steps.size() << " steps, epoch " << epoch;
        EXPECT_EQ(epoch_of(feed, 1, 3), expected(host, 1, 3)) << device.str();
      }
    }
  }
}

TEST_P(FeedTest, DataOnTheDeviceIsTheLoadersData) {
  for (const data::Transform& transform : transforms()) {
    const data::Loader host(pictures_, transform, {.batch = 4, .workers = 1, .seed = 5});
    for (const Device device : tests::feeding_devices()) {
      const data::Loader loader(
          pictures_, transform,
          {.batch = 4, .workers = 1, .seed = 5, .target = device, .raw = true});
      if (!loader.has_windows()) {
        EXPECT_THROW(ResidentFeed(loader, device), ValueError);
        continue;
      }
      ResidentFeed feed(loader, device);
      for (const int64_t epoch : {0, 1, 1, 0})
        EXPECT_EQ(epoch_of(feed, epoch), expected(host, epoch))
            << device.str() << ", " << transform.steps.size() << " steps, epoch " << epoch;
      EXPECT_EQ(epoch_of(feed, 2, 3), expected(host, 2, 3)) << device.str();
    }
  }
}

TEST_P(FeedTest, BrokenPicturesAreLeftOutEverywhere) {
  const auto broken =
      std::make_shared<RandomPictures>(23, 9, 11, std::vector<int64_t>{0, 5, 6, 22});
  const data::Transform transform{{data::RandomCrop{.height = 9, .width = 11, .padding = 1}}, {}};
  data::LoaderOptions options{.batch = 2, .workers = 1, .seed = 3};
  options.on_error = data::OnError::skip;
  const data::Loader host(broken, transform, options);
  for (const Device device : tests::feeding_devices()) {
    options.target = device, options.raw = true;
    data::Loader loader(broken, transform, options);
    DeviceFeed raw(loader, device);
    ResidentFeed resident(loader, device);
    for (Feed* feed : std::vector<Feed*>{&raw, &resident}) {
      EXPECT_EQ(epoch_of(*feed, 1), expected(host, 1)) << device.str();
      EXPECT_EQ(feed->skipped(), 4) << device.str();
      EXPECT_EQ(epoch_of(*feed, 2, 5), expected(host, 2, 5)) << device.str();
    }
    options.on_error = data::OnError::raise;
    EXPECT_THROW(ResidentFeed(data::Loader(broken, transform, options), device), FileError);
    options.on_error = data::OnError::skip;
  }
}

TEST_P(FeedTest, BatchesOfSeveralStepsAreQueuedAtOnce) {
  for (const Device device : tests::feeding_devices()) {
    const data::Loader loader(pictures_, {{data::HorizontalFlip{}}, {}},
                              {.batch = 4, .workers = 1, .seed = 5, .target = device, .raw = true});
    ResidentFeed feed(loader, device);
    const std::vector<Seen> all = epoch_of(feed, 3);
    feed.start(3, 1);
    EXPECT_EQ(feed.whole_batches(3), 3);
    EXPECT_EQ(feed.whole_batches(100), 4);  // 23 = 5 x 4 + 3
    for (size_t i = 1; i <= 4; ++i) {
      const data::Batch& batch = feed.queue_next();
      EXPECT_EQ(batch.x.to_vector<float>(), all[i].x) << device.str();
      EXPECT_EQ(batch.y.to_vector<int64_t>(), all[i].y) << device.str();
    }
    feed.pass(4);
    EXPECT_EQ(feed.whole_batches(1), 0);
    EXPECT_EQ(seen(*feed.next()), all.back());
    EXPECT_EQ(feed.next(), nullptr);
  }
}

TEST_P(FeedTest, ABatchOfDataOnTheDeviceIsOneLaunch) {
  using Names = std::vector<std::string>;
  for (const Device device : tests::feeding_devices()) {
    const data::Loader loader(pictures_, {{data::HorizontalFlip{}}, {}},
                              {.batch = 4, .workers = 1, .seed = 5, .target = device, .raw = true});
    ResidentFeed feed(loader, device);
    feed.start(0, 0);
    synchronize(device);
    Names names = launches([&] { (void)feed.queue_next(); });
    feed.pass(1);
    for (const std::string& name : launches([&] { (void)feed.next(); }))
      if (name != "batch") names.push_back(name);  // the span around it
    // Where a thread of ours is the device, its work may show beside its launch.
    if (device.kind != DeviceKind::sim) {
      EXPECT_EQ(names.size(), 2U) << device.str();
    }
    for (const std::string& name : names) EXPECT_EQ(name, "picture_batch") << device.str();
  }
}

INSTANTIATE_TEST_SUITE_P(AtOnceAndPaced, FeedTest, ::testing::Values("", "h200"));

TEST(FeedRoom, IsAskedForBeforeAnythingIsUploaded) {
  const auto pictures = std::make_shared<RandomPictures>(100, 32, 32);
  for (const Device device : tests::feeding_devices()) {
    const data::Loader loader(pictures, {}, {.batch = 4, .target = device, .raw = true});
    Allocator& allocator = Allocator::of(device);
    allocator.release_cached();
    allocator.set_limit(allocator.stats().live + 200000);
    try {
      const ResidentFeed feed(loader, device);
      ADD_FAILURE() << "100 pictures of 3072 bytes had room in 200000 on " << device.str();
    } catch (const OutOfMemory& e) {
      const std::string text = e.what();
      EXPECT_NE(text.find("100 pictures of 3 x 32 x 32 take 309600 bytes on " + device.str()),
                std::string::npos)
          << text;
      EXPECT_NE(text.find("--data-on-device"), std::string::npos) << text;
    }
    allocator.set_limit(0);
  }
}

TEST(FeedRing, IsPinnedOnceAndGivenBack) {
  set_sim_options({.profile = "h200", .check = true});
  const PinnedMemory& memory = PinnedMemory::of(DeviceKind::sim);
  const int64_t before = memory.system_allocations(), held = memory.bytes();
  {
    const auto pictures = std::make_shared<RandomPictures>(40, 8, 8);
    data::Loader loader(
        pictures, {},
        {.batch = 4, .workers = 2, .ahead = 3, .target = Device::sim(0), .raw = true});
    DeviceFeed feed(loader, Device::sim(0));
    for (int64_t epoch = 0; epoch < 5; ++epoch) (void)epoch_of(feed, epoch);
    EXPECT_GT(memory.bytes(), held);
    EXPECT_LE(memory.system_allocations() - before, 5 + 5);  // slots; some may still be read
  }
  EXPECT_EQ(memory.bytes(), held);
  set_sim_options({});
}

}  // namespace
}  // namespace brim::train
