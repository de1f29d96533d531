// Streams, events and guards, as far as the CPU shows them.
#include <gtest/gtest.h>

#include <thread>

#include <brim/core/error.h>
#include <brim/core/stream.h>
#include <brim/core/threads.h>

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

TEST(Stream, MissingDevices) {
  EXPECT_THROW(Stream::create(Device(DeviceKind::cpu, 3)), DeviceError);
  EXPECT_THROW(synchronize(Device(DeviceKind::cpu, 3)), DeviceError);
}

TEST(Threads, CountIsChecked) {
  EXPECT_GE(available_cpus(), 1);
  const int before = num_threads();
  set_num_threads(3);
  EXPECT_EQ(num_threads(), 3);
  EXPECT_THROW(set_num_threads(0), ValueError);
  EXPECT_EQ(num_threads(), 3);
  set_num_threads(before);
}

}  // namespace
}  // namespace brim
