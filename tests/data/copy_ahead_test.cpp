// Batches that are copied to the device a step ahead: the same ones, in order, safely overlapped
// (the stream checker watches), with the loader's errors at their place.
#include <brim/data/device_loader.h>

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include <brim/brim.h>
#include <brim/core/sim.h>

namespace brim::data {
namespace {

/// Pictures of one number each; picture 13 may be broken.
class Numbers final : public Source {
 public:
  explicit Numbers(bool broken) : broken_(broken) {}
  int64_t size() const override { return 22; }
  const std::vector<std::string>& classes() const override { return classes_; }
  int64_t label(int64_t i) const override { return i % 2; }
  ImageShape image_shape() const override { return {3, 2, 2}; }
  std::string describe(int64_t i) const override { return "number " + std::to_string(i); }
  void read(int64_t i, Image& out) const override {
    if (broken_ && i == 13) throw FileError(describe(i) + ": broken");
    out = {2, 2, 3, std::vector<uint8_t>(12, static_cast<uint8_t>(i))};
  }

 private:
  bool broken_;
  std::vector<std::string> classes_{"even", "odd"};
};

class DeviceLoaderAhead : public testing::Test {
 protected:
  void SetUp() override { set_sim_options({.profile = "h200", .check = true}); }
  void TearDown() override {
    synchronize(device_);
    set_sim_options({});
  }
  const Device device_ = Device::sim(0);
};

/// What a loop with a step in flight per batch reads.
std::vector<double> sums(DeviceLoader& feed, int64_t epoch) {
  std::vector<Tensor> steps;
  for (const Batch& batch : feed.epoch(epoch)) {
    EXPECT_EQ(batch.x.device(), feed.devices()[0]);
    steps.push_back(sum(batch.x * 2.0) + sum(batch.y.to(f32)));
  }
  std::vector<double> result;
  for (const Tensor& t : steps) result.push_back(t.item());
  return result;
}

TEST_F(DeviceLoaderAhead, GivesTheSameBatchesAsTheLoader) {
  const Loader loader(std::make_shared<Numbers>(false), {}, {.batch = 4, .workers = 2, .seed = 5});
  DeviceLoader host(loader, Device::cpu()), ahead(loader, device_);
  for (int64_t epoch = 0; epoch < 3; ++epoch) EXPECT_EQ(sums(ahead, epoch), sums(host, epoch));
}

TEST_F(DeviceLoaderAhead, SlotsOfThePinnedRingAreReadBeforeTheyAreFilledAgain) {
  set_sim_options({.profile = "h200", .slowdown = 200, .check = true});  // copies come late
  for (const int workers : {0, 1, 3}) {
    const Loader loader(std::make_shared<Numbers>(false), {},
                        {.batch = 2, .workers = workers, .ahead = 1, .seed = 5});
    DeviceLoader host(loader, Device::cpu()), ahead(loader, device_);
    for (int64_t epoch = 0; epoch < 3; ++epoch)
      EXPECT_EQ(sums(ahead, epoch), sums(host, epoch)) << workers << " workers";
  }
}

TEST_F(DeviceLoaderAhead, ALoopMayUseStreamsOfItsOwn) {
  set_sim_options({.profile = "h200", .slowdown = 200, .check = true});
  const Stream side = Stream::create(device_);
  for (const AugmentOn augment_on : {AugmentOn::host, AugmentOn::device}) {
    for (const char* profile : {"h200", ""}) {
      set_sim_options({.profile = profile, .slowdown = 200, .check = true});
      const Loader loader(std::make_shared<Numbers>(false), {},
                          {.batch = 2, .workers = 1, .ahead = 1, .seed = 5});
      DeviceLoader host(loader, Device::cpu()), ahead(loader, device_, {.augment_on = augment_on});
      for (int64_t epoch = 0; epoch < 3; ++epoch) {
        const StreamGuard guard(epoch == 1 ? side : Stream{device_, 0});
        EXPECT_EQ(sums(ahead, epoch), sums(host, epoch)) << profile << epoch;
      }
    }
  }
}

/// Work on a batch that is queued after its turn, by who kept it, and is still running when the
/// memory is given back.
TEST_F(DeviceLoaderAhead, WhatIsHeldBeyondItsTurnIsNotWrittenUnderLateWork) {
  set_sim_options({.profile = "h200", .slowdown = 200, .check = true});
  const Loader loader(std::make_shared<Numbers>(false), {},
                      {.batch = 4, .workers = 1, .ahead = 1, .seed = 5});
  DeviceLoader feed(loader, device_), again(loader, Device::cpu());
  for (int64_t epoch = 0; epoch < 4; ++epoch) {
    Tensor last, want;
    for (const Batch& batch : feed.epoch(epoch)) last = batch.x;
    for (const Batch& batch : again.epoch(epoch)) want = batch.x.clone();
    Tensor late = sum(last);
    for (int i = 0; i < 20; ++i) late = late + sum(last);
    last = {};
    DeviceEpoch next = feed.epoch(epoch + 1);
    ASSERT_NE(next.next(), nullptr);
    EXPECT_NEAR(late.item(), 21 * sum(want).item(), 1e-2) << epoch;
  }
}

TEST_F(DeviceLoaderAhead, TheNextBatchArrivesWhileTheStepRuns) {
  // The step takes about a second; to queue it and to copy takes a fraction of that.
  set_sim_options({.profile = "h200", .slowdown = 8000, .check = true});
  const Loader loader(std::make_shared<Numbers>(false), {},
                      {.batch = 2, .workers = 1, .ahead = 1, .seed = 5});
  DeviceLoader feed(loader, device_);
  DeviceEpoch epoch = feed.epoch(0);
  ASSERT_NE(epoch.next(), nullptr);
  const Tensor a = ones({1024, 1024}, {.device = device_});
  for (int i = 0; i < 4; ++i) (void)matmul(a, a);
  Event step;
  step.record(Stream::current(device_));
  const Batch* const batch = epoch.next();
  ASSERT_NE(batch, nullptr);
  batch->x.storage()->last_write.synchronize();
  EXPECT_FALSE(step.query()) << "the copy waited for the step";
}

TEST_F(DeviceLoaderAhead, PartsOfSeveralDevicesArriveWhileTheStepRuns) {
  if (Device::count("sim") < 2) GTEST_SKIP() << "needs two virtual accelerators";
  set_sim_options({.profile = "h200", .slowdown = 8000, .check = true});
  const Loader loader(std::make_shared<Numbers>(false), {},
                      {.batch = 2, .workers = 1, .ahead = 1, .seed = 5});
  const std::vector<Device> devices = {Device::sim(0), Device::sim(1)};
  DeviceLoader feed(loader, devices);
  DeviceEpoch epoch = feed.epoch(0);
  ASSERT_NE(epoch.next(), nullptr);
  std::vector<Event> steps(2);
  for (size_t k = 0; k < 2; ++k) {
    const Tensor a = ones({1024, 1024}, {.device = devices[k]});
    for (int i = 0; i < 4; ++i) (void)matmul(a, a);
    steps[k].record(Stream::current(devices[k]));
  }
  const Batch* const batch = epoch.next();
  ASSERT_NE(batch, nullptr);
  for (const Batch& part : batch->parts) part.x.storage()->last_write.synchronize();
  for (const Event& step : steps) EXPECT_FALSE(step.query()) << "a copy waited for the step";
  for (const Device device : devices) synchronize(device);
}

TEST_F(DeviceLoaderAhead, BatchesThatAreDroppedMayStillBeRead) {
  set_sim_options({.profile = "h200", .slowdown = 200, .check = true});
  Loader loader(std::make_shared<Numbers>(false), {},
                {.batch = 2, .workers = 1, .ahead = 1, .seed = 5, .target = device_});
  std::vector<Tensor> copies;
  std::vector<double> expected;
  for (const Batch& batch : loader.epoch(0)) {
    expected.push_back(sum(batch.x).item());
    copies.push_back(batch.x.to(device_));
  }
  for (size_t i = 0; i < copies.size(); ++i)
    EXPECT_EQ(sum(copies[i].to(Device::cpu())).item(), expected[i]) << i;
}

TEST_F(DeviceLoaderAhead, CopiesInLineWhereNothingWouldOverlap) {
  set_sim_options({.check = true});
  const Loader loader(std::make_shared<Numbers>(false), {}, {.batch = 4, .workers = 2, .seed = 5});
  DeviceLoader host(loader, Device::cpu()), in_line(loader, device_);
  EXPECT_EQ(sums(in_line, 0), sums(host, 0));
}

TEST_F(DeviceLoaderAhead, AnErrorComesWithItsBatch) {
  const Loader loader(std::make_shared<Numbers>(true), {},
                      {.batch = 4, .workers = 1, .shuffle = false});
  for (const Device device : {Device::cpu(), device_}) {
    DeviceLoader feed(loader, device);
    DeviceEpoch epoch = feed.epoch(0);
    for (int64_t i = 0; i < 3; ++i) {
      const Batch* batch = epoch.next();
      ASSERT_NE(batch, nullptr);
      EXPECT_EQ(batch->index, i);
      epoch.prefetch();  // the third call meets the broken picture, and keeps silent
    }
    EXPECT_THROW((void)epoch.next(), FileError);
    EXPECT_EQ(epoch.next(), nullptr) << "it is at its end";
    EXPECT_EQ(feed.skipped(), 0);
    ASSERT_NE(feed.epoch(0).next(), nullptr);
  }
}

TEST_F(DeviceLoaderAhead, CountsWhatIsLeftOutWithItsBatch) {
  const Loader loader(std::make_shared<Numbers>(true), {},
                      {.batch = 4, .workers = 0, .shuffle = false, .on_error = OnError::skip});
  DeviceLoader feed(loader, device_);
  DeviceEpoch epoch = feed.epoch(0);
  for (int64_t i = 0; i < 3; ++i) {
    ASSERT_NE(epoch.next(), nullptr);
    epoch.prefetch();
    EXPECT_EQ(feed.skipped(), 0) << i;
  }
  const Batch* batch = epoch.next();
  ASSERT_NE(batch, nullptr);
  EXPECT_EQ(batch->y.numel(), 3);
  EXPECT_EQ(feed.skipped(), 1);
}

}  // namespace
}  // namespace brim::data
