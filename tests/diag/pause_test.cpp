// Records that are taken of a part of the time only: what the account makes of the rest.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "diag/device_meter.h"

namespace brim::diag {
namespace {

/// Notes what it is asked for; the test tells the meter what a device did.
struct Source final : RecordSource {
  std::string asked;
  void start(int, Detail) override { asked += "start "; }
  void change(int, Detail) override { asked += "change "; }
  void stop(int) override { asked += "stop "; }
  void collect(int) override {}
  void advance(int) override {}
  int64_t taken() const override { return 7; }
};

class Pause : public ::testing::Test {
 protected:
  void SetUp() override {
    static auto* const one = new Source;  // as the meters, it lives to the end
    source = one;
    source->asked.clear();
    set_record_source(DeviceKind::cuda, *source);
    before_ = meter.start();
  }
  void TearDown() override { meter.stop(); }
  void work(Cause cause, uint64_t from, uint64_t to) {
    meter.begin_at(from, cause, {.queued = from});
    meter.end_at(to, cause);
  }
  uint64_t since_begin(const Shares& shares, Cause cause) const {
    return shares[static_cast<size_t>(cause)] - before_[static_cast<size_t>(cause)];
  }
  uint64_t charged(Cause cause) const { return since_begin(meter.read(), cause); }
  static void let_pass(uint64_t some) {
    for (const uint64_t end = ticks() + some; ticks() < end;) {
    }
  }
  /// A pause of a million ticks and more.
  void pause() {
    meter.pause();
    let_pass(1'000'000);
    meter.resume();
  }
  Source* source = nullptr;
  DeviceMeter& meter = DeviceMeter::of(Device::cuda(61));

 private:
  Shares before_{};
};

TEST_F(Pause, TimeWithoutRecordsIsChargedAsTheWindowsAfterTheFirst) {
  work(Cause::communication, meter.idle_since(), meter.idle_since() + 500);
  pause();
  EXPECT_EQ(source->asked, "start stop start ");
  EXPECT_GE(meter.unrecorded(), 1'000'000U);
  const uint64_t at = meter.idle_since();
  let_pass(50'000);
  work(Cause::compute, at, at + 30'000);
  work(Cause::copy_to_device, at + 30'000, at + 40'000);
  meter.pause();
  const Shares all = meter.read();  // once, as the pause goes on
  const auto compute = static_cast<double>(since_begin(all, Cause::compute));
  const auto copy = static_cast<double>(since_begin(all, Cause::copy_to_device));
  EXPECT_NEAR(compute / copy, 3, 1e-3);
  EXPECT_GT(copy, 10'000);
  EXPECT_LT(compute + copy, static_cast<double>(meter.unrecorded() + (ticks() - at)));
  EXPECT_EQ(charged(Cause::communication), 500U);  // of the first window, and not more
}

TEST_F(Pause, WithoutALaterWindowItIsNotCharged) {
  work(Cause::compute, meter.idle_since(), meter.idle_since() + 700);
  meter.pause();
  let_pass(100'000);
  EXPECT_TRUE(meter.is_paused());
  EXPECT_EQ(charged(Cause::compute), 700U);
  EXPECT_EQ(DeviceMeter::active(Device::cuda(61)), nullptr);
}

TEST_F(Pause, ASecondUserHasAllRecorded) {
  meter.pause();
  meter.pause();  // once is enough
  EXPECT_EQ(source->asked, "start stop ");
  (void)meter.start();
  EXPECT_FALSE(meter.is_paused());
  meter.pause();
  EXPECT_FALSE(meter.is_paused());
  EXPECT_EQ(source->asked, "start stop start ");
  meter.stop();
  meter.pause();
  EXPECT_TRUE(meter.is_paused());
}

TEST_F(Pause, NodesAreRecordedAll) {
  (void)meter.start(Detail::nodes);
  meter.stop();
  meter.pause();
  EXPECT_FALSE(meter.is_paused());
  (void)meter.start();
  meter.stop(Detail::nodes);
}

TEST_F(Pause, AnEndInAPauseEndsIt) {
  meter.pause();
  meter.stop();
  EXPECT_EQ(source->asked, "start stop ");
  (void)meter.start();
  EXPECT_EQ(source->asked, "start stop start ");
  EXPECT_EQ(meter.unrecorded(), 0U);
  EXPECT_NE(DeviceMeter::active(Device::cuda(61)), nullptr);
}

TEST_F(Pause, DevicesWithoutRecordsHaveNone) {
  DeviceMeter& live = DeviceMeter::of(Device::sim(61));
  EXPECT_FALSE(live.has_records());
  EXPECT_EQ(live.records_taken(), 0);
  (void)live.start();
  live.pause();
  EXPECT_FALSE(live.is_paused());
  live.stop();
  EXPECT_EQ(meter.records_taken(), 7);
}

}  // namespace
}  // namespace brim::diag
