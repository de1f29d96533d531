// Memory that devices read by themselves: cached, not reused before copies out of it are done, and
// given back when asked.
#include "core/pinned_memory.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include <brim/core/allocator.h>
#include <brim/core/sim.h>
#include <brim/core/tensor.h>
#include <brim/ops/create.h>
#include <brim/ops/matmul.h>

#include "backend/sim/sim_fixture.h"
#include "core/runtime.h"
#include "message_of.h"

namespace brim {
namespace {

using tests::message_of;

/// Virtual accelerators, slow enough that the host is far ahead of them.
class PinnedMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    set_sim_options({.profile = "h200", .slowdown = 1000, .check = true});
    memory().release_cached();
  }
  void TearDown() override {
    synchronize(device_);
    memory().release_cached();
    set_sim_options({});
  }
  static PinnedMemory& memory() { return PinnedMemory::of(DeviceKind::sim); }
  /// Work before which a copy that is queued now waits.
  void keep_busy() {
    const Tensor a = ones({256, 256}, {.device = device_});
    for (int i = 0; i < 4; ++i) (void)matmul(a, a);
  }
  static Tensor numbers(int64_t n, float value) {
    Tensor t = Tensor::empty_pinned({n}, f32, DeviceKind::sim);
    return t.fill_(value);
  }
  const Device device_ = Device::sim(0);
};

TEST_F(PinnedMemoryTest, IsPlainMemoryOfTheHost) {
  const Tensor t = numbers(5, 3);
  EXPECT_EQ(t.device(), Device::cpu());
  EXPECT_EQ(t.storage()->pinned_for(), DeviceKind::sim);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(t.raw()) % 64, 0u);
  EXPECT_EQ(t.to_vector<float>(), std::vector<float>(5, 3));
  EXPECT_EQ(Tensor::empty_pinned({2}, f32, DeviceKind::cpu).storage()->pinned_for(),
            DeviceKind::cpu);
  EXPECT_EQ(numbers(0, 0).numel(), 0);
}

TEST_F(PinnedMemoryTest, ServesAgain) {
  const int64_t before = memory().system_allocations();
  const void* const address = numbers(1000, 1).raw();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(numbers(1000, 1).raw(), address);
  EXPECT_EQ(memory().system_allocations(), before + 1);
  EXPECT_GT(memory().bytes(), 0);
  memory().release_cached();
  EXPECT_EQ(memory().bytes(), 0);
}

TEST_F(PinnedMemoryTest, MayBeLimited) {
  set_pinned_limit(DeviceKind::sim, 3 * 4096);
  EXPECT_EQ(memory().room(), 3 * 4096);
  {
    const Tensor a = numbers(1024, 1), b = numbers(1024, 2);
    EXPECT_EQ(memory().room(), 4096);
    const std::string what = message_of<OutOfMemory>([] { (void)numbers(2048, 3); });
    for (const char* part : {"8192 bytes of pinned memory for sim, 8192 are in use under the limit",
                             "of 12288", "set_pinned_limit"})
      EXPECT_NE(what.find(part), std::string::npos) << what;
    EXPECT_EQ(b.to_vector<float>(), std::vector<float>(1024, 2));
  }
  EXPECT_NO_THROW((void)numbers(3072, 3));  // what is cached gives way
  EXPECT_THROW(set_pinned_limit(DeviceKind::sim, -1), ValueError);
  set_pinned_limit(DeviceKind::sim, 0);
  EXPECT_NO_THROW((void)numbers(1 << 20, 3));
}

TEST_F(PinnedMemoryTest, IsWrittenAgainOnlyWhenItWasRead) {
  Tensor t = numbers(1000, 1);
  keep_busy();
  const Tensor first = t.copy_to(device_);
  t.storage()->finish_copies();
  t.fill_(2);
  const Tensor second = t.copy_to(device_);
  EXPECT_EQ(first.to_vector<float>(), std::vector<float>(1000, 1));
  EXPECT_EQ(second.to_vector<float>(), std::vector<float>(1000, 2));
}

TEST_F(PinnedMemoryTest, IsNotHandedOutBeforeItWasRead) {
  std::vector<Tensor> copies;
  for (int i = 0; i < 6; ++i) {
    keep_busy();
    copies.push_back(numbers(1000, static_cast<float>(i)).copy_to(device_));
  }
  for (int i = 0; i < 6; ++i)
    EXPECT_EQ(copies[static_cast<size_t>(i)].to_vector<float>(),
              std::vector<float>(1000, static_cast<float>(i)));
}

TEST_F(PinnedMemoryTest, GivingItBackWaitsForItsCopies) {
  keep_busy();
  const Tensor copy = numbers(1000, 7).copy_to(device_);
  memory().release_cached();
  EXPECT_EQ(memory().bytes(), 0);
  EXPECT_EQ(copy.to_vector<float>(), std::vector<float>(1000, 7));
}

TEST_F(PinnedMemoryTest, TwoStreamsMayReadAtOnce) {
  Tensor t = numbers(1000, 1);
  const Stream other = Stream::create(device_);
  Tensor a, b;
  keep_busy();
  a = t.copy_to(device_);
  {
    const StreamGuard guard(other);
    b = t.copy_to(device_);
  }
  t.storage()->finish_copies();
  t.fill_(2);
  synchronize(device_);
  EXPECT_EQ(a.to_vector<float>(), std::vector<float>(1000, 1));
  const StreamGuard guard(other);
  EXPECT_EQ(b.to_vector<float>(), std::vector<float>(1000, 1));
}

TEST_F(PinnedMemoryTest, ResultsComeWithoutWaiting) {
  const Stream stream = Stream::current(device_), other = Stream::create(device_);
  Tensor t = numbers(1000, 0);
  const Tensor x = full({1000}, 5, {.device = device_});
  Gate first(stream);
  t.copy_(x, {.non_blocking = true});
  EXPECT_EQ(t.to_vector<float>(), std::vector<float>(1000, 0));
  first.open();
  t.storage()->finish_copies();
  EXPECT_EQ(t.to_vector<float>(), std::vector<float>(1000, 5));

  // Cast and broadcast on the device, as any copy; then straight back, on another stream.
  const Tensor y = full({1}, 7, {.dtype = f64, .device = device_});
  Gate second(stream);
  t.copy_(y, {.non_blocking = true});
  const StreamGuard guard(other);
  const Tensor back = t.copy_to(device_);
  second.open();
  EXPECT_EQ(back.to_vector<float>(), std::vector<float>(1000, 7));
}

TEST_F(PinnedMemoryTest, IsNotHandedOutBeforeItWasWritten) {
  const Tensor x = full({1000}, 5, {.device = device_});
  Gate gate(Stream::current(device_));
  const void* address = nullptr;
  {
    Tensor t = numbers(1000, 0);
    address = t.raw();
    t.copy_(x, {.non_blocking = true});
  }
  EXPECT_NE(numbers(1000, 1).raw(), address);
  gate.open();
  synchronize(device_);
}

TEST_F(PinnedMemoryTest, IsWrittenByTheNextStreamOnlyWhenItWasRead) {
  const Stream other = Stream::create(device_);
  const Tensor x = full({1000}, 5, {.device = device_});
  synchronize(device_);
  Tensor t = numbers(1000, 1);
  Gate gate(Stream::current(device_));
  const Tensor read = t.copy_to(device_);
  {
    const StreamGuard guard(other);
    t.copy_(x, {.non_blocking = true});
    Event written;
    written.record(other);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(written.query());
  }
  gate.open();
  t.storage()->finish_copies();
  EXPECT_EQ(t.to_vector<float>(), std::vector<float>(1000, 5));
  EXPECT_EQ(read.to_vector<float>(), std::vector<float>(1000, 1));
}

TEST_F(PinnedMemoryTest, CopiesIntoOtherMemoryOfTheHostAreWaitedFor) {
  const Tensor x = full({4, 6}, 5, {.device = device_});
  Tensor plain = zeros({4, 6});
  keep_busy();
  plain.copy_(x, {.non_blocking = true});
  EXPECT_EQ(plain.to_vector<float>(), std::vector<float>(24, 5));
  Tensor pinned = Tensor::empty_pinned({6, 4}, f32, DeviceKind::sim);
  Tensor turned = pinned.t();  // no dense target: packed on the way
  keep_busy();
  turned.copy_(x, {.non_blocking = true});
  EXPECT_EQ(pinned.to_vector<float>(), std::vector<float>(24, 5));
}

TEST_F(PinnedMemoryTest, ValuesOfTheHostAreReadAtOnce) {
  const Tensor t = numbers(1000, 1);
  keep_busy();
  const Tensor copy = Tensor::from(std::span<const float>(t.data<float>(), 1000), {1000}, device_);
  Tensor(t).fill_(2);
  EXPECT_EQ(copy.to_vector<float>(), std::vector<float>(1000, 1));
}

}  // namespace
}  // namespace brim
