// Batches that are copied to the device a step ahead: the same ones, in order, safely overlapped
// (the stream checker watches), with the loader's errors at their place.
#include "train/device_feed.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include <brim/brim.h>
#include <brim/core/sim.h>

namespace brim::train {
namespace {

/// Pictures of one number each; picture 13 may be broken.
class Numbers final : public data::Source {
 public:
  explicit Numbers(bool broken) : broken_(broken) {}
  int64_t size() const override { return 22; }
  const std::vector<std::string>& classes() const override { return classes_; }
  int64_t label(int64_t i) const override { return i % 2; }
  std::string describe(int64_t i) const override { return "number " + std::to_string(i); }
  void read(int64_t i, data::Image& out) const override {
    if (broken_ && i == 13) throw FileError(describe(i) + ": broken");
    out = {2, 2, 3, std::vector<uint8_t>(12, static_cast<uint8_t>(i))};
  }

 private:
  bool broken_;
  std::vector<std::string> classes_{"even", "odd"};
};

class DeviceFeedTest : public testing::Test {
 protected:
  void SetUp() override { set_sim_options({.profile = "h200", .check = true}); }
  void TearDown() override {
    synchronize(device_);
    set_sim_options({});
  }
  const Device device_ = Device::sim(0);
};

/// What a loop with a step in flight per batch reads.
std::vector<double> sums(const data::Loader& loader, Device device, int64_t epoch,
                         DeviceFeed& feed) {
  std::vector<Tensor> steps;
  feed.start(epoch, 0);
  while (const data::Batch* batch = feed.next()) {
    EXPECT_EQ(batch->x.device(), device);
    steps.push_back(sum(batch->x * 2.0) + sum(batch->y.to(f32)));
    if (batch->index + 1 < loader.batches()) feed.ahead();
  }
  std::vector<double> result;
  for (const Tensor& t : steps) result.push_back(t.item());
  return result;
}

TEST_F(DeviceFeedTest, GivesTheSameBatchesAsTheLoader) {
  data::Loader loader(std::make_shared<Numbers>(false), {}, {.batch = 4, .workers = 2, .seed = 5});
  DeviceFeed host(loader, Device::cpu()), ahead(loader, device_);
  for (int64_t epoch = 0; epoch < 3; ++epoch)
    EXPECT_EQ(sums(loader, device_, epoch, ahead), sums(loader, Device::cpu(), epoch, host));
}

TEST_F(DeviceFeedTest, SlotsOfThePinnedRingAreReadBeforeTheyAreFilledAgain) {
  set_sim_options({.profile = "h200", .slowdown = 200, .check = true});  // copies come late
  for (const int workers : {0, 1, 3}) {
    data::Loader loader(std::make_shared<Numbers>(false), {},
                        {.batch = 2, .workers = workers, .ahead = 1, .seed = 5, .target = device_});
    DeviceFeed host(loader, Device::cpu()), ahead(loader, device_);
    for (int64_t epoch = 0; epoch < 3; ++epoch)
      EXPECT_EQ(sums(loader, device_, epoch, ahead), sums(loader, Device::cpu(), epoch, host))
          << workers << " workers";
  }
}

TEST_F(DeviceFeedTest, TheNextBatchArrivesWhileTheStepRuns) {
  // The step takes about a second; to queue it and to copy takes a fraction of that.
  set_sim_options({.profile = "h200", .slowdown = 8000, .check = true});
  data::Loader loader(std::make_shared<Numbers>(false), {},
                      {.batch = 2, .workers = 1, .ahead = 1, .seed = 5, .target = device_});
  DeviceFeed feed(loader, device_);
  feed.start(0, 0);
  ASSERT_NE(feed.next(), nullptr);
  const Tensor a = ones({1024, 1024}, {.device = device_});
  for (int i = 0; i < 4; ++i) (void)matmul(a, a);
  Event step;
  step.record(Stream::current(device_));
  feed.ahead();
  const data::Batch* const batch = feed.next();
  ASSERT_NE(batch, nullptr);
  batch->x.storage()->last_write.synchronize();
  EXPECT_FALSE(step.query()) << "the copy waited for the step";
}

TEST_F(DeviceFeedTest, BatchesThatAreDroppedMayStillBeRead) {
  set_sim_options({.profile = "h200", .slowdown = 200, .check = true});
  data::Loader loader(std::make_shared<Numbers>(false), {},
                      {.batch = 2, .workers = 1, .ahead = 1, .seed = 5, .target = device_});
  std::vector<Tensor> copies;
  std::vector<double> expected;
  for (const data::Batch& batch : loader.epoch(0)) {
    expected.push_back(sum(batch.x).item());
    copies.push_back(batch.x.to(device_));
  }
  for (size_t i = 0; i < copies.size(); ++i)
    EXPECT_EQ(sum(copies[i].to(Device::cpu())).item(), expected[i]) << i;
}

TEST_F(DeviceFeedTest, CopiesInLineWhereNothingWouldOverlap) {
  set_sim_options({.check = true});
  data::Loader loader(std::make_shared<Numbers>(false), {}, {.batch = 4, .workers = 2, .seed = 5});
  DeviceFeed host(loader, Device::cpu()), in_line(loader, device_);
  EXPECT_EQ(sums(loader, device_, 0, in_line), sums(loader, Device::cpu(), 0, host));
}

TEST_F(DeviceFeedTest, AnErrorComesWithItsBatch) {
  data::Loader loader(std::make_shared<Numbers>(true), {},
                      {.batch = 4, .workers = 1, .shuffle = false});
  DeviceFeed feed(loader, device_);
  feed.start(0, 0);
  for (int64_t i = 0; i < 3; ++i) {
    const data::Batch* batch = feed.next();
    ASSERT_NE(batch, nullptr);
    EXPECT_EQ(batch->index, i);
    feed.ahead();  // the third call meets the broken picture, and keeps silent
  }
  EXPECT_THROW((void)feed.next(), FileError);
}

TEST_F(DeviceFeedTest, CountsWhatIsLeftOutWithItsBatch) {
  data::Loader loader(
      std::make_shared<Numbers>(true), {},
      {.batch = 4, .workers = 0, .shuffle = false, .on_error = data::OnError::skip});
  DeviceFeed feed(loader, device_);
  feed.start(0, 0);
  for (int64_t i = 0; i < 3; ++i) {
    ASSERT_NE(feed.next(), nullptr);
    feed.ahead();
    EXPECT_EQ(feed.skipped(), 0) << i;
  }
  const data::Batch* batch = feed.next();
  ASSERT_NE(batch, nullptr);
  EXPECT_EQ(batch->y.numel(), 3);
  EXPECT_EQ(feed.skipped(), 1);
}

}  // namespace
}  // namespace brim::train
