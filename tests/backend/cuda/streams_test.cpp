// Streams that work on their own: what is ordered by waits and what is not. Runs on GPUs and over
// the emulation, whose streams do nothing before somebody needs it; what shows only there is
// skipped on GPUs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <brim/brim.h>
#include <brim/core/allocator.h>

#include "core/runtime.h"

namespace brim {
namespace {

constexpr int64_t kCount = 1 << 12;
constexpr size_t kBytes = kCount * sizeof(float);

class CudaStreams : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Device::count(DeviceKind::cuda) == 0)
      GTEST_SKIP() << "no GPU: " << runtime(DeviceKind::cuda).why_absent();
    first = Stream::create(gpu);
    second = Stream::create(gpu);
    synchronize(gpu);
  }
  /// Whether streams wait for somebody who needs what they do, so that a missing wait shows each
  /// time.
  static bool is_lazy() {
    const char* at_once = std::getenv("BRIM_EMULATED_AT_ONCE");
    return runtime(DeviceKind::cuda).description(0).starts_with("emulated") &&
           (!at_once || *at_once != '1');
  }
  void copy(void* to, Device to_device, const void* from, Device from_device, Stream stream) const {
    runtime(DeviceKind::cuda).copy(to, to_device, from, from_device, kBytes, stream);
  }
  /// What the memory has when the stream has come to it.
  std::vector<float> read(const Tensor& x, Stream stream) const {
    std::vector<float> result(kCount);
    copy(result.data(), cpu, x.raw(), gpu, stream);
    stream.synchronize();
    return result;
  }
  static bool all(const std::vector<float>& values, float wanted) {
    return std::ranges::all_of(values, [&](float v) { return v == wanted; });
  }
  Tensor filled(float value) const {
    Tensor x = full({kCount}, value, {.device = gpu});
    synchronize(gpu);
    return x;
  }
  void fill(Tensor& x, float value, Stream stream) const {
    const StreamGuard guard(stream);
    x.fill_(value);
  }
  const Device gpu = Device::cuda(0), cpu = Device::cpu();
  Stream first, second;
};

TEST_F(CudaStreams, AWaitThatIsMissingShows) {
  if (!is_lazy()) GTEST_SKIP() << "a GPU may have been fast enough";
  Tensor x = filled(1);
  fill(x, 2, first);
  EXPECT_TRUE(all(read(x, second), 1));  // nobody waited for the first stream
  Event event;
  event.record(first);
  event.wait(second);
  EXPECT_TRUE(all(read(x, second), 2));
}

TEST_F(CudaStreams, WaitsOrderWorkInBothDirections) {
  Tensor x = filled(0);
  for (int i = 1; i <= 20; ++i) {
    const Stream by = i % 2 ? first : second, next = i % 2 ? second : first;
    {
      const StreamGuard guard(by);
      x.add_(full({kCount}, static_cast<float>(i), {.device = gpu}));
    }
    Event event;
    event.record(by);
    event.wait(next);
  }
  EXPECT_TRUE(all(read(x, first), 210));
}

TEST_F(CudaStreams, AnEventIsWhereItWasRecordedLast) {
  Tensor x = filled(0), y = filled(0);
  Event event;
  fill(x, 1, first);
  event.record(first);
  event.wait(second);  // behind the first fill alone, whatever the event becomes
  fill(y, 1, first);
  event.record(first);
  EXPECT_TRUE(all(read(x, second), 1));
  if (is_lazy()) {
    EXPECT_TRUE(all(read(y, second), 0));
  }
  event.wait(second);
  EXPECT_TRUE(all(read(y, second), 1));
}

TEST_F(CudaStreams, WhatAnEventStandsForIsDoneWhenItIsWaitedFor) {
  Tensor x = filled(0);
  Event never, event;
  EXPECT_TRUE(never.query());  // of nothing
  fill(x, 3, first);
  event.record(first);
  event.synchronize();
  EXPECT_TRUE(event.query());
  EXPECT_TRUE(all(read(x, second), 3));
}

TEST_F(CudaStreams, PageableMemoryIsReadBeforeACopyReturnsAndPinnedMemoryLater) {
  Tensor x = filled(0);
  std::vector<float> pageable(kCount, 4);
  copy(x.raw(), gpu, pageable.data(), cpu, first);
  std::ranges::fill(pageable, 5.0F);
  EXPECT_TRUE(all(read(x, first), 4));
  if (!is_lazy()) GTEST_SKIP() << "a GPU may have read pinned memory already";
  auto* const values = static_cast<float*>(runtime(DeviceKind::cuda).allocate_host(kBytes));
  std::fill_n(values, kCount, 6.0F);
  runtime(DeviceKind::cuda).copy_from_pinned(x.raw(), gpu, values, kBytes, first);
  std::fill_n(values, kCount, 7.0F);  // without a wait for the copy
  EXPECT_TRUE(all(read(x, first), 7));
  runtime(DeviceKind::cuda).deallocate_host(values, kBytes);
}

TEST_F(CudaStreams, ResultsAreInPinnedMemoryBehindAWait) {
  Tensor x = filled(0);
  auto* const values = static_cast<float*>(runtime(DeviceKind::cuda).allocate_host(kBytes));
  std::fill_n(values, kCount, -1.0F);
  fill(x, 8, first);
  copy(values, cpu, x.raw(), gpu, first);
  if (is_lazy()) {
    EXPECT_EQ(values[0], -1);
  }
  first.synchronize();
  EXPECT_TRUE(std::all_of(values, values + kCount, [](float v) { return v == 8; }));
  runtime(DeviceKind::cuda).deallocate_host(values, kBytes);
}

TEST_F(CudaStreams, MemoryIsGivenBackBehindWhatUsesIt) {
  Tensor x = filled(0), y = filled(9);
  {
    const StreamGuard guard(first);
    Tensor made = y + 1;
    x.copy_(made);
  }
  y = Tensor();
  Allocator::of(gpu).release_cached();  // cudaFree waits for all that is queued
  EXPECT_TRUE(all(read(x, first), 10));
}

TEST_F(CudaStreams, ReplaysOfAGraphStandInTheirStreamsOrder) {
  Tensor total = filled(0);
  auto step = compile([&](const Tensor& x) { total.add_(x * 2); });
  Tensor x = filled(1);
  const StreamGuard guard(first);
  for (int i = 0; i < 6; ++i) {
    x.fill_(static_cast<float>(i));
    step(x);
  }
  EXPECT_TRUE(all(read(total, first), 30));
}

}  // namespace
}  // namespace brim
