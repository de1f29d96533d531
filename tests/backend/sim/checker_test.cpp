// The stream checker: each kind of missing wait is found, whatever the timing, and correct programs
// pass.
#include <gtest/gtest.h>

#include <brim/brim.h>
#include <brim/core/allocator.h>
#include <brim/core/sim.h>

#include "backend/sim/sim_fixture.h"
#include "message_of.h"

namespace brim {
namespace {

using tests::message_of;

class SimChecker : public SimTest {
 protected:
  void SetUp() override {
    SimTest::SetUp();
    set_sim_options({.devices = kDevices, .check = true});
  }
  const Device device_ = Device::sim(0);
  const Stream main_ = Stream::current(device_);
  const Stream side_ = Stream::create(device_);

  static Event after(const Stream& stream) {
    Event event;
    event.record(stream);
    return event;
  }
};

TEST_F(SimChecker, ReadingWhatIsStillWritten) {
  const Tensor x = ones({64}, {.device = device_});
  const StreamGuard guard(side_);
  const std::string what = message_of<StreamError>([&] { (void)(x + x); });
  for (const char* part : {"sim:0 stream", "reads 256 bytes", "'fill' writes", "record an Event"})
    EXPECT_NE(what.find(part), std::string::npos) << what;
  after(main_).wait(side_);
  EXPECT_EQ((x + x).to_vector<float>(), std::vector<float>(64, 2));
}

// Its memory is one for all streams, so it waits by itself.
TEST_F(SimChecker, APlanIsReplayedOnAnyStream) {
  const Tensor w = full({64}, 3, {.device = device_}), x = ones({64}, {.device = device_});
  auto step = compile([&](const Tensor& t) { return sum(relu(t * w) * exp(t)); });
  const float expected = step(x).to_vector<float>()[0];
  for (int i = 0; i < 3; ++i) {
    {
      const StreamGuard guard(side_);
      (void)step(x);
    }
    (void)step(x);
  }
  EXPECT_EQ(step(x).to_vector<float>()[0], expected);
}

TEST_F(SimChecker, WritingWhatIsStillRead) {
  Tensor x = ones({64}, {.device = device_});
  after(main_).wait(side_);
  Tensor y;
  {
    const StreamGuard guard(side_);
    y = x + x;
  }
  const std::string what = message_of<StreamError>([&] { x.fill_(3); });
  EXPECT_NE(what.find("writes 256 bytes that 'add' reads"), std::string::npos) << what;
  after(side_).wait(main_);
  x.fill_(3);
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>(64, 2));
}

TEST_F(SimChecker, WritingWhatIsStillWritten) {
  Tensor x = Tensor::empty({64}, f32, device_);
  x.fill_(1);
  const StreamGuard guard(side_);
  EXPECT_NE(message_of<StreamError>([&] { x.fill_(2); }), "no error");
}

TEST_F(SimChecker, CopyingWhatIsStillWritten) {
  const Tensor x = ones({64}, {.device = device_});
  const StreamGuard guard(side_);
  EXPECT_NE(message_of<StreamError>([&] { (void)x.to_vector<float>(); }).find("[copy]"),
            std::string::npos);
}

TEST_F(SimChecker, MemoryThatIsHandedOutTooEarly) {
  const StreamGuard guard(main_);
  Tensor x = ones({64}, {.device = device_});
  after(main_).wait(side_);
  Tensor y;
  {
    const StreamGuard inner(side_);
    y = x + x;
  }
  x = {};  // freed for main_, while side_ reads it
  const std::string what =
      message_of<StreamError>([&] { (void)Tensor::empty({64}, f32, device_); });
  EXPECT_NE(what.find("[allocate]"), std::string::npos) << what;
  EXPECT_NE(what.find("'add'"), std::string::npos) << what;
  after(side_).wait(main_);
  (void)Tensor::empty({64}, f32, device_);
}

TEST_F(SimChecker, MemoryOfARecordedStreamIsHandedOutBehindItsWork) {
  const Stream third = Stream::create(device_);
  for (int round = 0; round < 3; ++round) {
    Tensor x = full({64}, round, {.device = device_});
    const void* const address = x.raw();
    const Event made = after(main_);
    std::vector<Tensor> sums;
    for (const Stream& stream : {side_, third}) {
      made.wait(stream);
      x.record_stream(stream);
      const StreamGuard guard(stream);
      sums.push_back(x + x);
    }
    x = {};
    const Tensor next = full({64}, -1, {.device = device_});
    EXPECT_EQ(next.raw(), address);
    for (const Stream& stream : {side_, third}) {
      const StreamGuard guard(stream);
      EXPECT_EQ(sums.front().to_vector<float>(), std::vector<float>(64, 2.0F * round));
      sums.erase(sums.begin());
    }
  }
}

TEST_F(SimChecker, ResultsOfPlansThatAnotherStreamReadsAreNotOverwritten) {
  const Tensor x = ones({64}, {.device = device_});
  auto step = compile([](const Tensor& t) { return t * 2 + 1; });
  Tensor sum;
  for (int i = 0; i < 4; ++i) {
    Tensor y = step(x);
    after(main_).wait(side_);
    y.record_stream(side_);
    const StreamGuard guard(side_);
    sum = y + y;
  }
  const StreamGuard guard(side_);
  EXPECT_EQ(sum.to_vector<float>(), std::vector<float>(64, 6));
}

TEST_F(SimChecker, MemoryOfARecordedStreamGoesBackToTheDevice) {
  Tensor x = ones({64}, {.device = device_});
  after(main_).wait(side_);
  x.record_stream(side_);
  Tensor y;
  {
    const StreamGuard guard(side_);
    y = x + x;
  }
  x = {};
  Allocator::of(device_).release_cached();
  (void)ones({64}, {.device = device_});
  const StreamGuard guard(side_);
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>(64, 2));
}

TEST_F(SimChecker, MemoryThatIsStillUsedStaysApartFromWhatIsFree) {
  constexpr int64_t kHalf = 4 << 20;
  const auto bytes = [&](int64_t n) { return Tensor::empty({n}, u8, device_); };
  Allocator& memory = Allocator::of(device_);
  memory.release_cached();
  const void* const whole = bytes(2 * kHalf).raw();
  Tensor x = bytes(kHalf), y = bytes(kHalf);
  ASSERT_EQ(x.raw(), whole);
  const void* const second = y.raw();
  x.record_stream(side_);
  const int64_t before = memory.stats().system_allocations;
  {
    Gate gate(side_);
    x = y = {};
    EXPECT_EQ(bytes(kHalf).raw(), second);  // for the first there is something to wait for
  }
  side_.synchronize();
  EXPECT_EQ((y = bytes(kHalf)).raw(), second);
  y = {};  // finds its neighbour free
  EXPECT_EQ(bytes(2 * kHalf).raw(), whole);
  EXPECT_EQ(memory.stats().system_allocations, before);
}

TEST_F(SimChecker, MemoryThatWasUsedIsJoinedOnceThatIsDone) {
  constexpr int64_t kHalf = 4 << 20;
  const auto bytes = [&](int64_t n) { return Tensor::empty({n}, u8, device_); };
  Allocator& memory = Allocator::of(device_);
  memory.release_cached();
  const Tensor much = bytes(128 << 20);  // beside it nothing below is given back
  const void* const whole = bytes(2 * kHalf).raw();
  Tensor x = bytes(kHalf), y = bytes(kHalf);
  ASSERT_EQ(x.raw(), whole);
  x.record_stream(side_);
  y.record_stream(side_);
  const int64_t before = memory.stats().system_allocations;
  {
    Gate gate(side_);
    x = y = {};
    (void)bytes(3 * kHalf);  // looks for neighbours, of which none may be joined yet
  }
  side_.synchronize();
  EXPECT_EQ(bytes(2 * kHalf).raw(), whole);
  EXPECT_EQ(memory.stats().system_allocations, before + 1);
}

// Sizes that change wait for nothing: what a stream freed is its own, in whatever pieces.
TEST_F(SimChecker, MemoryGrowsBehindWorkThatIsQueued) {
  Allocator& memory = Allocator::of(device_);
  memory.release_cached();
  const Tensor much = Tensor::empty({128 << 20}, u8, device_);  // beside it nothing is given back
  const int64_t live = memory.stats().live, cached = memory.stats().cached;
  memory.reset_peak();
  const StreamGuard guard(main_);
  Tensor last;
  {
    Gate gate(main_);
    for (int64_t n = 1 << 20; n <= 4 << 20; n += 300 << 10) {
      last = {};
      last = full({n}, 3, {.device = device_}) + 1;
    }
  }
  EXPECT_EQ(last.to_vector<float>(), std::vector<float>(static_cast<size_t>(last.numel()), 4));
  EXPECT_LT(memory.stats().peak_reserved - live - cached,
            static_cast<int64_t>(1.15 * 8) * last.numel() + (1 << 20));
}

TEST_F(SimChecker, PagesThatAreStillUsedAreWaitedFor) {
  Allocator& memory = Allocator::of(device_);
  memory.release_cached();
  memory.reset_peak();
  Tensor x = ones({2 << 20}, {.device = device_});
  const Tensor between = full({1 << 18}, 7, {.device = device_});
  const Tensor y = sum(x * 2);
  x = {};
  const Tensor more = full({3 << 20}, 5, {.device = device_});  // takes the pages of x
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>(1, 4 << 20));
  EXPECT_EQ(between.to_vector<float>(), std::vector<float>(1 << 18, 7));
  EXPECT_EQ(more.to_vector<float>(), std::vector<float>(3 << 20, 5));
}

TEST_F(SimChecker, ReuseOfAPartOfJoinedMemoryIsSeen) {
  constexpr int64_t kHalf = 1 << 20;  // floats
  Allocator::of(device_).release_cached();
  { const Tensor whole = Tensor::empty({2 * kHalf}, f32, device_); }
  Tensor x = ones({kHalf}, {.device = device_}), y = ones({kHalf}, {.device = device_});
  after(main_).wait(side_);
  Tensor z;
  {
    const StreamGuard guard(side_);
    z = y + y;  // and nobody records that
  }
  x = y = {};
  const std::string what =
      message_of<StreamError>([&] { (void)Tensor::empty({2 * kHalf}, f32, device_); });
  EXPECT_NE(what.find("still uses"), std::string::npos) << what;
  side_.synchronize();
}

// Who gets the memory has nothing to do with what went wrong where it was used before.
TEST_F(SimChecker, ErrorsOfARecordedStreamStayThere) {
  const Tensor wrong = Tensor::from<int64_t>({99}, {1}, device_);
  Tensor x = ones({64}, {.device = device_});
  x.record_stream(side_);
  after(main_).wait(side_);
  {
    const StreamGuard guard(side_);
    (void)index_select(x, 0, wrong);
  }
  const void* const address = x.raw();
  x = {};
  EXPECT_THROW(side_.synchronize(), IndexError);
  const Tensor next = full({64}, 3, {.device = device_});
  EXPECT_EQ(next.raw(), address);
  EXPECT_EQ(next.to_vector<float>(), std::vector<float>(64, 3));
}

TEST_F(SimChecker, ARecordedStreamIsOfTheTensorsDevice) {
  const Tensor x = ones({64}, {.device = device_});
  const auto message = [](const Tensor& t, const Stream& stream) {
    return message_of([&] { t.record_stream(stream); });
  };
  EXPECT_EQ(message(x, main_), "no error");
  EXPECT_NE(message(x, Stream::current(Device::cpu())).find("[record_stream] a tensor on sim:0"),
            std::string::npos);
  EXPECT_NE(message(x, Stream::current(Device::sim(1))), "no error");
  EXPECT_NE(message(ones({64}), main_), "no error");
  EXPECT_EQ(message(Tensor::empty_pinned({64}, f32, DeviceKind::sim), main_), "no error");
  EXPECT_EQ(message(ones({64}), Stream::create(Device::cpu())), "no error");
  auto step = compile([&](const Tensor& t) {
    Tensor y = t + t;
    y.record_stream(side_);
    return y;
  });
  try {
    (void)step(x);
    ADD_FAILURE() << "no error";
  } catch (const CompileError& e) {
    EXPECT_NE(std::string(e.what()).find("record_stream"), std::string::npos) << e.what();
  }
}

TEST_F(SimChecker, WaitingOnTheHostCounts) {
  const Tensor x = ones({64}, {.device = device_});
  main_.synchronize();
  const StreamGuard guard(side_);
  EXPECT_EQ((x + x).to_vector<float>(), std::vector<float>(64, 2));
}

TEST_F(SimChecker, WaitsReachThroughOtherStreamsAndDevices) {
  const Stream other = Stream::current(Device::sim(1));
  const Tensor x = ones({64}, {.device = device_});
  after(main_).wait(other);
  after(other).wait(side_);
  const StreamGuard guard(side_);
  EXPECT_EQ((x + x).to_vector<float>(), std::vector<float>(64, 2));
}

TEST_F(SimChecker, SeeingThatAnEventIsCompleteCounts) {
  const Tensor x = ones({64}, {.device = device_});
  const Event done = after(main_);
  while (!done.query()) {
  }
  const StreamGuard guard(side_);
  EXPECT_EQ((x + x).to_vector<float>(), std::vector<float>(64, 2));
}

TEST_F(SimChecker, RunningStatisticsAreWritten) {
  const Tensor x = rand({4, 3, 2, 2}, {.device = device_});
  const Tensor mean = zeros({3}, {.device = device_}), var = ones({3}, {.device = device_});
  after(main_).wait(side_);
  {
    const StreamGuard guard(side_);
    (void)batch_norm(x, {}, {}, mean, var, {.training = true});
  }
  EXPECT_NE(message_of<StreamError>([&] { (void)(mean + var); }).find("'batch_norm' writes"),
            std::string::npos);
  after(side_).wait(main_);
  (void)batch_norm(x, {}, {}, mean, var, {.training = false});
  after(main_).wait(side_);
  const StreamGuard guard(side_);
  (void)batch_norm(x, {}, {}, mean, var, {.training = false});  // two may read them
}

TEST_F(SimChecker, OldEventsDoNotVouchForNewWork) {
  for (int i = 0; i < 10; ++i) (void)ones({64}, {.device = device_});
  const Event old = after(main_);
  set_sim_options({.devices = kDevices, .check = true});  // forgets what it knew
  const Tensor x = ones({64}, {.device = device_});
  old.wait(side_);
  const StreamGuard guard(side_);
  EXPECT_NE(message_of<StreamError>([&] { (void)(x + x); }), "no error");
}

TEST_F(SimChecker, AnEarlierEventIsNotEnough) {
  Tensor x = ones({64}, {.device = device_});
  const Event early = after(main_);
  x.fill_(2);
  early.wait(side_);
  const StreamGuard guard(side_);
  EXPECT_NE(message_of<StreamError>([&] { (void)(x + x); }), "no error");
}

TEST_F(SimChecker, TrainingOnOneStreamAndPeerCopiesPass) {
  manual_seed(1);
  nn::Sequential net;
  net.push<nn::Linear>({.in = 6, .out = 8}).push<nn::ReLU>().push<nn::Linear>({.in = 8, .out = 2});
  net.to(device_);
  optim::SGD sgd(net.parameters(), {.lr = 0.1});
  for (int step = 0; step < 5; ++step) {
    const Tensor x = randn({3, 6}).to(Device::sim(1)).to(device_);
    sgd.zero_grad();
    mean(net(x)).backward();
    sgd.step();
  }
  synchronize(device_);
}

}  // namespace
}  // namespace brim
