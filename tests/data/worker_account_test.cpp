#include <brim/data/worker_account.h>

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>

#include <brim/data/loader.h>

#include "data/loader/worker_clock.h"

namespace brim::data {
namespace {

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

class SlowSource final : public Source {
 public:
  explicit SlowSource(int ms) : ms_(ms) {}
  int64_t size() const override { return 24; }
  const std::vector<std::string>& classes() const override { return classes_; }
  int64_t label(int64_t) const override { return 0; }
  ImageShape image_shape() const override { return {3, 2, 2}; }
  std::string describe(int64_t) const override { return "a picture"; }
  void read(int64_t, Image& out) const override {
    sleep_ms(ms_);
    out = {2, 2, 3, std::vector<uint8_t>(12, 7)};
  }

 private:
  int ms_;
  std::vector<std::string> classes_{"one"};
};

void expect_whole(const WorkerAccount& a) {
  EXPECT_NEAR(a.read + a.decode + a.augment + a.slot + a.stolen + a.idle, a.wall, 1e-6);
  for (const double part : {a.read, a.decode, a.augment, a.slot, a.stolen, a.idle})
    EXPECT_GE(part, 0);
}

TEST(WorkerAccount, ReadingIsTheSources) {
  const Loader loader(std::make_shared<SlowSource>(2), {}, {.batch = 4, .workers = 2});
  EXPECT_TRUE(loader.worker_accounts().empty());
  for (int e = 0; e < 2; ++e)
    for (const Batch& batch : loader.epoch(e)) EXPECT_EQ(batch.x.size(0), 4);
  const std::vector<WorkerAccount> workers = loader.worker_accounts();
  ASSERT_EQ(workers.size(), 2U);
  for (const WorkerAccount& worker : workers) expect_whole(worker);
  const WorkerAccount all = sum(workers);
  expect_whole(all);
  EXPECT_GE(all.read + all.stolen, 2 * 24 * 0.002);
  EXPECT_EQ(all.decode, 0);
  EXPECT_GE(all.wall, all.read);
}

TEST(WorkerAccount, ASlowLoopMakesWorkersWaitForSlots) {
  const Loader loader(std::make_shared<SlowSource>(0), {}, {.batch = 4, .workers = 1, .ahead = 0});
  for (const Batch& batch : loader.epoch(0)) {
    EXPECT_TRUE(batch.y.defined());
    sleep_ms(5);
  }
  const WorkerAccount all = sum(loader.worker_accounts());
  expect_whole(all);
  EXPECT_GE(all.slot + all.stolen, 0.01);  // of 24 / 4 * 5 ms, less what two slots hold
  EXPECT_LT(all.read, 0.5 * all.wall + all.stolen);
}

// What is left of a part that was stolen whole is 0, not a rounding below it.
TEST(WorkerAccount, NothingIsLessThanNothing) {
  for (uint64_t k = 1; k < 1000; ++k) {
    const WorkerTicks ticks{.wall = 4000 * k,
                            .read = 7 * k,
                            .decode = 2000 + k,
                            .augment = 3 * k * k % 1777,
                            .stolen = 9};
    expect_whole(ticks.account());
  }
}

TEST(WorkerAccount, AnEpochThatEndsEarlyCountsUntilThen) {
  const Loader loader(std::make_shared<SlowSource>(1), {}, {.batch = 4, .workers = 2});
  {
    auto epoch = loader.epoch(0);
    ASSERT_NE(epoch.next(), nullptr);
  }
  const std::vector<WorkerAccount> workers = loader.worker_accounts();
  ASSERT_EQ(workers.size(), 2U);
  for (const WorkerAccount& worker : workers) expect_whole(worker);
  EXPECT_GE(sum(workers).read + sum(workers).stolen, 4 * 0.001);
}

TEST(WorkerAccount, WithoutWorkersThereIsNone) {
  const Loader loader(std::make_shared<SlowSource>(0), {}, {.batch = 4, .workers = 0});
  for (const Batch& batch : loader.epoch(0)) EXPECT_TRUE(batch.x.defined());
  EXPECT_TRUE(loader.worker_accounts().empty());
  EXPECT_EQ(describe(loader.worker_accounts()), "no workers");
}

TEST(WorkerAccount, IsDescribedWithTheLargestPartFirst) {
  const std::vector<WorkerAccount> workers(
      2, {.wall = 10, .decode = 6, .augment = 3.97, .idle = 0.03});
  EXPECT_EQ(describe(workers), "2 workers: decode 60 %, augment 40 %");
}

}  // namespace
}  // namespace brim::data
