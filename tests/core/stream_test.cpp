// Streams, events and guards, as far as the CPU shows them.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

#include <brim/core/error.h>
#include <brim/core/stream.h>
#include <brim/core/threads.h>

#include "message_of.h"
#include "threads.h"

namespace brim {
namespace {

TEST(Stream, GuardsNestAndBelongToTheirThread) {
  const Device cpu = Device::cpu();
  const Stream first = Stream::current(cpu);
  EXPECT_EQ(first.id, 0);
  const Stream a = Stream::create(cpu), b = Stream::create(cpu);
  EXPECT_NE(a, b);
  {
    const StreamGuard outer(a);
    EXPECT_EQ(Stream::current(cpu), a);
    {
      const StreamGuard inner(b);
      EXPECT_EQ(Stream::current(cpu), b);
      std::thread([&] { EXPECT_EQ(Stream::current(cpu), first); }).join();
    }
    EXPECT_EQ(Stream::current(cpu), a);
  }
  EXPECT_EQ(Stream::current(cpu), first);
}

TEST(Stream, CpuEventsAreComplete) {
  const Stream s = Stream::create(Device::cpu());
  Event event;
  EXPECT_TRUE(event.query());
  event.record(s);
  event.wait(Stream::current(Device::cpu()));
  event.synchronize();
  EXPECT_TRUE(event.query());
  s.synchronize();
  synchronize(Device::cpu());
}

TEST(Stream, TimedEventsOfTheCpu) {
  const Stream s = Stream::current(Device::cpu());
  Event begin({.timed = true}), end({.timed = true});
  begin.record(s);
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  end.record(s);
  EXPECT_GE(begin.elapsed_ms(end), 3);
  EXPECT_EQ(begin.elapsed_ms(end), -end.elapsed_ms(begin));
}

TEST(Stream, TimesBetweenWhatHasNone) {
  const Stream s = Stream::current(Device::cpu());
  Event timed({.timed = true}), untimed, idle({.timed = true});
  timed.record(s);
  untimed.record(s);
  const auto error_of = [](const Event& begin, const Event& end) {
    return tests::message_of<ValueError>([&] { (void)begin.elapsed_ms(end); });
  };
  EXPECT_NE(error_of(timed, untimed).find("is not timed"), std::string::npos);
  EXPECT_NE(error_of(untimed, timed).find("Event({.timed = true})"), std::string::npos);
  EXPECT_NE(error_of(timed, idle).find("was not recorded"), std::string::npos);
  Event far({.timed = true});
  far.record(Stream::current(Device::sim(0)));
  EXPECT_NE(error_of(timed, far).find("from an event of cpu to one of sim:0"), std::string::npos);
}

TEST(Stream, MissingDevices) {
  EXPECT_THROW(Stream::create(Device(DeviceKind::cpu, 3)), DeviceError);
  EXPECT_THROW(synchronize(Device(DeviceKind::cpu, 3)), DeviceError);
}

TEST(Threads, CountIsChecked) {
  EXPECT_GE(available_cpus(), 1);
  const tests::Threads guard(3);
  EXPECT_EQ(num_threads(), 3);
  EXPECT_THROW(set_num_threads(0), ValueError);
  EXPECT_EQ(num_threads(), 3);
}

}  // namespace
}  // namespace brim
