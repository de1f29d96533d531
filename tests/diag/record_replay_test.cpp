// Records of a device's work, told late: what the account makes of overlaps, of idle times and of
// records in a wrong order.
#include "diag/record_replay.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <brim/diag/trace.h>

#include "diag/host_timeline.h"

namespace brim::diag {
namespace {

/// A device that no test uses otherwise. Times are relative to `start`, which lies far in the
/// future, so that read() adds nothing of the time since the last work.
class Replay : public ::testing::Test {
 protected:
  void SetUp() override {
    outer_ = set_active_timeline(&timeline);
    before_ = meter.start();
    begin = meter.idle_since();
    start = begin + 1'000'000'000'000;
    replay.restart(begin);
  }
  void TearDown() override {
    meter.stop();
    set_active_timeline(outer_);
  }
  void work(Cause cause, uint64_t from, uint64_t to, uint64_t correlation = 0) {
    replay.add({.cause = cause,
                .begin = start + from,
                .end = start + to,
                .correlation = correlation,
                .name = "work"});
  }
  void queued(uint64_t correlation, uint64_t at, Cause waited = Cause::other) {
    replay.note(correlation, {.at = start + at, .thread = gettid(), .waited = waited});
  }
  uint64_t charged(Cause cause) {
    return meter.read()[static_cast<size_t>(cause)] - before_[static_cast<size_t>(cause)];
  }
  DeviceMeter& meter = DeviceMeter::of(Device::sim(62));
  RecordReplay replay{Device::sim(62)};
  HostTimeline timeline{0};
  uint64_t begin = 0, start = 0;

 private:
  Shares before_{};
  HostTimeline* outer_ = nullptr;
};

TEST_F(Replay, EachInstantIsChargedOnce) {
  work(Cause::copy_to_device, 0, 100);
  work(Cause::compute, 50, 150);
  work(Cause::compute, 60, 140);  // on another stream
  work(Cause::communication, 140, 200);
  replay.replay(start + 1000);
  EXPECT_EQ(charged(Cause::copy_to_device), 50u);
  EXPECT_EQ(charged(Cause::compute), 100u);
  EXPECT_EQ(charged(Cause::communication), 50u);
  EXPECT_EQ(replay.size(), 0u);
}

TEST_F(Replay, IdleTimeIsWhatTheHostDidUntilItQueued) {
  timeline.add(Cause::input, start + 100);
  timeline.add(Cause::dispatch, start + 300);
  timeline.add(Cause::host_read, start + 1000);
  timeline.add(Cause::dispatch, start + 1200);
  work(Cause::compute, 0, 100, 1);
  queued(1, 0);
  work(Cause::compute, 350, 400, 2);  // queued at 320: 200 of input, 20 of dispatch
  queued(2, 320);
  work(Cause::compute, 1250, 1300, 3);
  queued(3, 1240);
  replay.replay(start + 5000);
  EXPECT_EQ(charged(Cause::input), 200u);
  EXPECT_EQ(charged(Cause::host_read), 200u);
  EXPECT_EQ(charged(Cause::compute), 200u);
}

TEST_F(Replay, WhatIsQueuedInAScopeIsChargedToIt) {
  timeline.add(Cause::checkpoint, start + 10);
  work(Cause::copy_to_host, 100, 300, 1);
  queued(1, 50);
  timeline.add(Cause::user, start + 320);
  work(Cause::copy_to_host, 400, 500, 2);
  queued(2, 390);
  replay.replay(start + 5000);
  EXPECT_EQ(charged(Cause::checkpoint),
            200u + 40u + 20u);  // the copy, and the host before and after
  EXPECT_EQ(charged(Cause::copy_to_host), 100u);
}

TEST_F(Replay, QueuedAndNotBegunIsDispatchOrWhatItWaitedFor) {
  timeline.add(Cause::input, start + 10);
  work(Cause::compute, 0, 100, 1);
  work(Cause::compute, 300, 400, 2);
  queued(2, 50, Cause::peer);  // another device made what it waited for
  replay.replay(start + 5000);
  EXPECT_EQ(charged(Cause::peer), 200u);
  EXPECT_EQ(charged(Cause::input), 0u);
}

TEST_F(Replay, WhatAThreadQueuesBehindAWaitForAPeerIsHeldUpByIt) {
  work(Cause::compute, 0, 100, 1);
  queued(1, 0);
  replay.wait_for_peer(start + 40, gettid(), -1);
  replay.wait_for_peer(start + 45, gettid() + 1, -1);  // of another thread, which queues nothing
  replay.wait_for_peer(start + 45, gettid(), 7);       // a stream that gets nothing
  work(Cause::compute, 300, 400, 2);
  queued(2, 50);
  work(Cause::compute, 500, 600, 3);  // by itself late
  queued(3, 60);
  const uint64_t before = charged(Cause::dispatch);
  replay.replay(start + 5000);
  EXPECT_EQ(charged(Cause::peer), 200u);
  EXPECT_EQ(charged(Cause::dispatch) - before, 100u);
}

TEST_F(Replay, OtherThreadsAreOther) {
  timeline.add(Cause::input, start + 10);
  work(Cause::compute, 0, 100);
  work(Cause::compute, 300, 400, 2);
  replay.note(2, {.at = start + 300, .thread = gettid() + 1});
  const uint64_t before = charged(Cause::other);
  replay.replay(start + 5000);
  EXPECT_EQ(charged(Cause::other) - before, 200u);
}

TEST_F(Replay, WorkWithoutANoteWasQueuedWhenItBegan) {
  timeline.add(Cause::checkpoint, start + 100);
  work(Cause::compute, 0, 100);
  work(Cause::compute, 300, 400);
  replay.replay(start + 5000);
  EXPECT_EQ(charged(Cause::checkpoint), 200u);
}

TEST_F(Replay, OrderOfArrivalDoesNotMatter) {
  std::mt19937 random(7);
  std::vector<std::pair<uint64_t, uint64_t>> pieces;
  for (uint64_t i = 0; i < 200; ++i) pieces.emplace_back(i * 10, i * 10 + 7);
  std::shuffle(pieces.begin(), pieces.end(), random);
  timeline.add(Cause::input, start);
  for (const auto& [begin, end] : pieces) {
    work(Cause::compute, begin, end, begin + 1);
    if (begin % 20 == 0) queued(begin + 1, begin);
  }
  for (const auto& [begin, end] : pieces)
    if (begin % 20 != 0) queued(begin + 1, begin);  // the note comes after the record
  replay.replay(start + 5000);
  EXPECT_EQ(charged(Cause::compute), 1400u);
  EXPECT_EQ(charged(Cause::input), 199 * 3u);
}

TEST_F(Replay, WhatIsStillRunningIsToldInParts) {
  work(Cause::compute, 0, 100);
  work(Cause::copy_to_device, 50, 500);
  work(Cause::compute, 300, 400);
  replay.replay(start + 200);
  EXPECT_EQ(replay.size(), 1u);
  EXPECT_EQ(meter.idle_since(), 0u);  // the copy runs
  replay.replay(start + 1000);
  EXPECT_EQ(charged(Cause::compute), 200u);
  EXPECT_EQ(charged(Cause::copy_to_device), 300u);
}

TEST_F(Replay, LateRecordsCountFromWhereTheMeterIs) {
  work(Cause::compute, 100, 200);
  replay.replay(start + 1000);
  work(Cause::compute, 150, 260);  // should have come before: 60 are new
  replay.replay(start + 1000);
  EXPECT_EQ(charged(Cause::compute), 160u);
}

TEST_F(Replay, WorkOfBeforeIsLeftOut) {
  replay.add({.begin = begin - 500, .end = begin - 100});
  replay.add({.begin = begin - 50, .end = begin + 25});
  replay.replay(start + 1000);
  EXPECT_EQ(charged(Cause::compute), 25u);
}

TEST_F(Replay, LoweredClocksTakeTheirShare) {
  work(Cause::compute, 0, 1000);
  replay.replay(start + 2000);
  meter.throttled(0.25, start + 2500);
  EXPECT_EQ(charged(Cause::throttle), 250u);
  EXPECT_EQ(charged(Cause::compute), 750u);
  work(Cause::compute, 3000, 3100);
  replay.replay(start + 4000);
  EXPECT_EQ(charged(Cause::throttle), 275u);  // as the last reading, so far
  EXPECT_EQ(charged(Cause::compute), 825u);
  meter.throttled(0, start + 4500);
  meter.throttled(1, start + 5000);  // nothing was computed since
  EXPECT_EQ(charged(Cause::throttle), 250u);
  EXPECT_EQ(charged(Cause::compute), 850u);
}

TEST_F(Replay, LoweredClocksTakeTheirShareOfWhatIsToldLater) {
  work(Cause::compute, 0, 100);
  replay.replay(start + 150);
  meter.throttled(0, start + 1000);
  meter.throttled(0.5, start + 2000);
  meter.throttled(0.5, start + 3000);  // one stretch with the one before
  meter.throttled(0, start + 4000);
  work(Cause::compute, 200, 300);           // cool
  work(Cause::compute, 950, 1050);          // 50 of it hot
  work(Cause::copy_to_device, 1100, 1200);  // nothing to take from
  work(Cause::compute, 1980, 2080);         // hot
  work(Cause::compute, 2990, 3030);         // 10 of it hot
  work(Cause::compute, 5000, 5100);         // after the last reading
  replay.replay(start + 6000);
  EXPECT_EQ(charged(Cause::throttle), (50u + 100 + 10) / 2);
  EXPECT_EQ(charged(Cause::compute), 540u - 80);
  meter.throttled(1, start + 6000);
  EXPECT_EQ(charged(Cause::throttle), 80u + 100);
}

TEST_F(Replay, WhatThreadsDidIsKnownToOthers) {
  timeline.add(Cause::input, start + 10);
  work(Cause::compute, 0, 100);
  work(Cause::compute, 300, 400, 2);
  queued(2, 300);
  work(Cause::compute, 500, 600);  // without a note
  std::thread([&] { replay.replay(start + 5000); }).join();
  EXPECT_EQ(charged(Cause::input), 300u);
}

TEST_F(Replay, NotesAreKeptWhileQueuesMayBeBehind) {
  timeline.add(Cause::input, start + 10);
  work(Cause::compute, 0, 100);
  queued(3, 50);  // behind what runs
  for (int i = 0; i < 3; ++i) replay.replay(start + 200);
  const uint64_t launch = charged(Cause::dispatch);
  work(Cause::compute, 300, 400, 3);
  replay.replay(start + 1000);
  EXPECT_EQ(charged(Cause::input), 0u);
  EXPECT_EQ(charged(Cause::dispatch) - launch, 200u);
  EXPECT_EQ(charged(Cause::compute), 200u);
}

TEST_F(Replay, TracesHaveNamesAndStreams) {
  std::string text;
  {
    Trace trace;
    replay.add({.begin = start, .end = start + 1000, .stream = 7, .name = "unary_kernel<float>"});
    replay.replay(start + 2000);
    trace.write([&](std::string_view piece) { text += piece; });
  }
  const auto json = nlohmann::json::parse(text);
  const auto& events = json["traceEvents"];
  const auto found = std::find_if(events.begin(), events.end(), [](const auto& e) {
    return e["ph"] == "X" && e["name"] == "unary_kernel<float>" && e["tid"] == 7;
  });
  EXPECT_NE(found, events.end());
}

}  // namespace
}  // namespace brim::diag
