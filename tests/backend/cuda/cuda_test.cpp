// CUDA devices: copies, streams and events, memory, errors. Runs on GPUs, and over the emulation
// when BRIM_BACKEND_PATH names it; elsewhere it is skipped.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include <brim/brim.h>

#include "backend/cuda/emulation/watcher.h"
#include "backend/kernel.h"
#include "backend/queued_op.h"
#include "core/pinned_memory.h"
#include "core/plugin.h"
#include "core/runtime.h"
#include "environment.h"

namespace brim {
namespace {

constexpr Device kCpu = Device::cpu();

class CudaRuntime : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Device::count(DeviceKind::cuda) == 0)
      GTEST_SKIP() << "no GPU: " << runtime(DeviceKind::cuda).why_absent();
  }
  static bool emulated() {
    return runtime(DeviceKind::cuda).description(0).starts_with("emulated");
  }
  const Device gpu = Device::cuda(0);
};

Tensor counting(int64_t n) {
  std::vector<float> v(static_cast<size_t>(n));
  std::iota(v.begin(), v.end(), 1.0F);
  return Tensor::from<float>(v, {n});
}

std::vector<float> host(const Tensor& x) { return x.to(kCpu).to_vector<float>(); }

TEST_F(CudaRuntime, TheBackendIsThePluginsAndDescribesItsDevices) {
  EXPECT_FALSE(plugin(DeviceKind::cuda).path.empty());
  for (const Device device : Device::all("cuda")) {
    EXPECT_NE(runtime(DeviceKind::cuda).description(device.index).find("compute capability"),
              std::string::npos);
    const DeviceMemory memory = runtime(DeviceKind::cuda).memory(device.index);
    EXPECT_GT(memory.total, 0U);
    EXPECT_LE(memory.free, memory.total);
  }
  EXPECT_EQ(try_gpu(0), gpu);
  EXPECT_EQ(Device("gpu:0"), gpu);
}

TEST_F(CudaRuntime, PinnedMemoryIsReadAndServesAgain) {
  PinnedMemory& memory = PinnedMemory::of(DeviceKind::cuda);
  memory.release_cached();
  const int64_t held = memory.bytes(), before = memory.system_allocations();
  for (int i = 0; i < 5; ++i) {
    Tensor x = Tensor::empty_pinned({1001}, f32, DeviceKind::cuda);
    x.copy_(counting(1001));
    const Tensor y = x.to(gpu);
    x.storage()->finish_copies();
    x.zero_();
    EXPECT_EQ(host(y), host(counting(1001)));
    // Without an event behind it, a copy has read its source when the call returns.
    x.copy_(counting(1001));
    const Tensor z = Tensor::from(std::span<const float>(x.data<float>(), 1001), {1001}, gpu);
    x.zero_();
    EXPECT_EQ(host(z), host(counting(1001)));
  }
  EXPECT_EQ(memory.system_allocations(), before + 1);
  memory.release_cached();
  EXPECT_EQ(memory.bytes(), held);
}

TEST_F(CudaRuntime, CopiesBothWaysKeepEveryByte) {
  for (const int64_t n : {0, 1, 3, 1000, 300001}) {
    const Tensor x = counting(n);
    const Tensor y = x.to(gpu);
    EXPECT_EQ(y.device(), gpu);
    EXPECT_EQ(host(y), host(x)) << n;
    EXPECT_EQ(host(y.clone()), host(x)) << n;
  }
}

TEST_F(CudaRuntime, CopiesOfViews) {
  const Tensor x = counting(60).reshape({3, 4, 5});
  const Tensor y = x.to(gpu);
  EXPECT_EQ(host(y.transpose(0, 2)), host(x.transpose(0, 2).contiguous()));
  EXPECT_EQ(host(y.slice(1, 1, 3)), host(x.slice(1, 1, 3).contiguous()));
  EXPECT_EQ(host(x.transpose(0, 1).to(gpu)), host(x.transpose(0, 1).contiguous()));
}

TEST_F(CudaRuntime, CopiesBetweenDevices) {
  if (Device::count(DeviceKind::cuda) < 2) GTEST_SKIP() << "one GPU only";
  const Tensor x = counting(100000);
  const Tensor second = x.to(gpu).to(Device::cuda(1));
  EXPECT_EQ(second.device(), Device::cuda(1));
  EXPECT_EQ(host(second), host(x));
  EXPECT_EQ(host(second.to(gpu)), host(x));
  EXPECT_THROW((void)(x.to(gpu) + second), DeviceError);
}

TEST_F(CudaRuntime, CopiesBetweenDevicesDoNotGoThroughTheHost) {
  if (!emulated()) GTEST_SKIP() << "a GPU does not tell which way a copy went";
  using Watch = decltype(&brim_emulation_watch);
  auto* const watch = reinterpret_cast<Watch>(dlsym(RTLD_DEFAULT, "brim_emulation_watch"));
  ASSERT_NE(watch, nullptr);
  static std::set<std::string> kinds;
  watch([](const char* kind, int, int) { kinds.insert(kind); });
  (void)counting(10).to(gpu).to(Device::cuda(1)).to(gpu);
  watch(nullptr);
  EXPECT_EQ(kinds, (std::set<std::string>{"to device", "between"}));
}

TEST_F(CudaRuntime, TheHostsMemoryMayChangeAfterACopy) {
  Tensor x = counting(1 << 20);
  const Tensor y = x.to(gpu);
  x.fill_(-1);
  EXPECT_EQ(host(y), host(counting(1 << 20)));
}

TEST_F(CudaRuntime, StreamsAndEventsOrderWork) {
  const Stream first = Stream::create(gpu), second = Stream::create(gpu);
  EXPECT_NE(first, second);
  Event event;
  Tensor x;
  {
    const StreamGuard guard(first);
    x = counting(1 << 20).to(gpu);
    for (int i = 0; i < 20; ++i) x = x + 1;
    event.record(first);
  }
  Tensor y;
  {
    const StreamGuard guard(second);
    event.wait(second);
    y = x * 2;
    second.synchronize();
  }
  EXPECT_TRUE(event.query());
  event.synchronize();
  const std::vector<float> got = host(y);
  EXPECT_EQ(got.front(), 42);
  EXPECT_EQ(got.back(), 2 * ((1 << 20) + 20.0F));
  synchronize(gpu);
}

TEST_F(CudaRuntime, TimedEventsTellHowLongWorkTook) {
  const Stream stream = Stream::current(gpu);
  const Tensor x = counting(1 << 20).to(gpu);
  Event begin({.timed = true}), middle({.timed = true}), end({.timed = true});
  begin.record(stream);
  Tensor y = x + 1;
  middle.record(stream);
  for (int i = 0; i < 20; ++i) y = y + 1;
  end.record(stream);
  EXPECT_GT(begin.elapsed_ms(end), 0);
  EXPECT_GE(begin.elapsed_ms(end), middle.elapsed_ms(end));
  EXPECT_LE(end.elapsed_ms(begin), 0);
  Event untimed;
  untimed.record(stream);
  EXPECT_THROW((void)begin.elapsed_ms(untimed), ValueError);
}

TEST_F(CudaRuntime, MemoryOfARecordedStreamServesAgainBehindItsWork) {
  const Stream side = Stream::create(gpu);
  for (int round = 0; round < 5; ++round) {
    Tensor x = full({1 << 20}, round, {.device = gpu});
    Event made;
    made.record(Stream::current(gpu));
    Tensor y;
    {
      const StreamGuard guard(side);
      made.wait(side);
      y = Tensor::empty({1 << 20}, f32, gpu).fill_(0);
      for (int i = 0; i < 20; ++i) y.add_(x);
    }
    x.record_stream(side);
    const void* const address = x.raw();
    x = {};
    const Tensor next = full({1 << 20}, -1, {.device = gpu});
    EXPECT_EQ(next.raw(), address);
    const StreamGuard guard(side);
    EXPECT_EQ(host(y).back(), 20.0F * static_cast<float>(round));
  }
}

TEST_F(CudaRuntime, ResultsComeIntoPinnedMemoryWithoutWaiting) {
  Tensor t = Tensor::empty_pinned({1 << 20}, f32, DeviceKind::cuda);
  const Tensor x = counting(1 << 20).to(gpu);
  t.copy_(x + 1, {.non_blocking = true});
  t.storage()->finish_copies();
  EXPECT_EQ(t.data<float>()[0], 2);
  EXPECT_EQ(t.data<float>()[(1 << 20) - 1], (1 << 20) + 1);
}

TEST_F(CudaRuntime, WhoReadsResultsInPinnedMemoryIsToldOfBadIndices) {
  const Tensor wrong = Tensor::from<int64_t>({5}, {1}).to(gpu);
  Tensor t = Tensor::empty_pinned({1, 2}, f32, DeviceKind::cuda);
  t.copy_(index_select(zeros({3, 2}, {.device = gpu}), 0, wrong), {.non_blocking = true});
  EXPECT_THROW(t.storage()->finish_copies(), IndexError);
  EXPECT_NO_THROW(t.storage()->finish_copies());
  EXPECT_NO_THROW(synchronize(gpu));
}

TEST_F(CudaRuntime, MemoryOfALostGpuIsNotHandedOutAgain) {
  if (!emulated()) GTEST_SKIP() << "needs a GPU that can be lost";
  Tensor x = zeros({12345}, {.device = gpu});
  const void* const address = x.raw();
  x.record_stream(Stream::create(gpu));
  {
    const tests::Environment lost("BRIM_EMULATED_LOST", "0");
    x = {};
  }
  EXPECT_NE(zeros({12345}, {.device = gpu}).raw(), address);
  Allocator::of(gpu).release_cached();
}

TEST_F(CudaRuntime, WhatAKernelNotedIsForWhoWaitsForTheStream) {
  const Device device = Device::cuda(0);
  const Tensor wrong = Tensor::from<int64_t>({5}, {1}).to(device);
  const Tensor taken = index_select(zeros({3, 2}, {.device = device}), 0, wrong);
  Runtime& cuda = runtime(DeviceKind::cuda);
  const Stream stream = Stream::current(device);
  const auto event = cuda.record(stream, false);
  EXPECT_NO_THROW(cuda.synchronize(event));
  EXPECT_NO_THROW((void)cuda.query(event));
  EXPECT_THROW(cuda.synchronize(stream), IndexError);
  EXPECT_NO_THROW(cuda.synchronize(stream));
}

TEST_F(CudaRuntime, ManyStreamsAndEvents) {
  std::vector<Tensor> results;
  std::vector<Stream> streams;
  for (int i = 0; i < 8; ++i) streams.push_back(Stream::create(gpu));
  for (int i = 0; i < 64; ++i) {
    const StreamGuard guard(streams[static_cast<size_t>(i) % streams.size()]);
    results.push_back(counting(1000).to(gpu) + i);
    Event event;
    event.record(Stream::current(gpu));
    event.synchronize();
    EXPECT_TRUE(event.query());
  }
  synchronize(gpu);
  for (size_t i = 0; i < results.size(); ++i)
    EXPECT_EQ(host(results[i]).front(), 1 + static_cast<float>(i));
}

TEST_F(CudaRuntime, StreamsComeInTurnsWhenThereAreMany) {
  std::set<int32_t> ids;
  for (int i = 0; i < 100; ++i) ids.insert(Stream::create(gpu).id);
  EXPECT_LE(ids.size(), 32U);
  EXPECT_FALSE(ids.contains(0));  // the default stream is nobody's own
}

TEST_F(CudaRuntime, MissingDevicesAndStreams) {
  const int count = Device::count(DeviceKind::cuda);
  const Device beyond = Device::cuda(count);
  EXPECT_FALSE(beyond.available());
  try {
    (void)counting(3).to(beyond);
    FAIL() << "no error";
  } catch (const DeviceError& e) {
    const std::string what = e.what();
    EXPECT_NE(what.find(beyond.str() + " does not exist"), std::string::npos) << what;
    EXPECT_NE(what.find(std::to_string(count) + " cuda device"), std::string::npos) << what;
  }
  EXPECT_THROW(Stream::create(beyond), DeviceError);
  EXPECT_THROW((Stream{gpu, 1 << 20}.synchronize()), DeviceError);
}

TEST_F(CudaRuntime, OpsWithoutAKernelSaySo) {
  const backend::Kernel<void(const Context&, const Tensor&, Tensor&)> op("no_such_op");
  const Tensor x = counting(3).to(gpu);
  Tensor y = Tensor::empty({3}, f32, gpu);
  try {
    op(gpu, f32, x, y);
    FAIL() << "no error";
  } catch (const Error& e) {
    const std::string what = e.what();
    EXPECT_NE(what.find("[no_such_op] is not implemented on cuda for f32"), std::string::npos)
        << what;
  }
}

TEST_F(CudaRuntime, DtypesWithoutAKernelAreNamed) {
  const backend::Kernel<void(const Context&, const Tensor&, Tensor&, int)> op("softmax");
  const Tensor x = Tensor::empty({3}, i32, gpu);
  Tensor y = Tensor::empty({3}, i32, gpu);
  try {
    op(gpu, i32, x, y, 0);
    FAIL() << "no error";
  } catch (const NotImplemented& e) {
    const std::string what = e.what();
    EXPECT_NE(what.find("[softmax] is not implemented on cuda for i32"), std::string::npos) << what;
    EXPECT_EQ(what.find('\n'), std::string::npos);
  }
}

/// A tensor that finds no block grows into what is behind the last one; pages in front of that one,
/// which nobody uses, go.
TEST_F(CudaRuntime, MemoryComesAndGoesPageByPage) {
  const Device device = Device::cuda();
  if (runtime(DeviceKind::cuda).page(0) == 0) GTEST_SKIP() << "the driver has no ranges";
  const auto page = static_cast<int64_t>(runtime(DeviceKind::cuda).page(0));
  Allocator& allocator = Allocator::of(device);
  allocator.release_cached();
  const MemoryStats before = allocator.stats();
  const auto of_pages = [&](int64_t pages, double value) {
    return full({pages * page}, value, {.dtype = u8, .device = device});
  };
  {
    Tensor gone = of_pages(8, 1);
    const Tensor kept = of_pages(8, 2);
    gone = Tensor();
    const Tensor larger = of_pages(10, 3);
    const MemoryStats stats = allocator.stats();
    EXPECT_GE(stats.live - before.live, 18 * page);
    EXPECT_LE(stats.live + stats.cached - before.live - before.cached,
              18 * page * 9 / 8 + 2 * page);
    EXPECT_EQ(kept.to(kCpu).to_vector<uint8_t>(),
              std::vector<uint8_t>(static_cast<size_t>(8 * page), 2));
    EXPECT_EQ(larger.to(kCpu).to_vector<uint8_t>(),
              std::vector<uint8_t>(static_cast<size_t>(10 * page), 3));
  }
  allocator.release_cached();
  EXPECT_LE(allocator.stats().cached, before.cached);
}

TEST_F(CudaRuntime, TheMemoryLimitHoldsAndExplainsItself) {
  Allocator& memory = Allocator::of(gpu);
  memory.release_cached();
  memory.set_limit(memory.stats().live + (4 << 20));
  const Tensor kept = Tensor::empty({2 << 20}, u8, gpu);
  try {
    (void)Tensor::empty({3 << 20}, u8, gpu);
    ADD_FAILURE() << "no error";
  } catch (const OutOfMemory& e) {
    const std::string what = e.what();
    EXPECT_EQ(e.requested, 3 << 20);
    for (const char* part : {"[memory] cuda:0 has no room for 3145728 bytes", "under the limit of",
                             "2097152", "Allocator::set_limit"})
      EXPECT_NE(what.find(part), std::string::npos) << part << " in " << what;
    EXPECT_EQ(what.find('\n'), std::string::npos);
  }
  memory.set_limit(0);
  EXPECT_NO_THROW((void)Tensor::empty({3 << 20}, u8, gpu));
}

TEST_F(CudaRuntime, MoreThanTheDeviceHasIsOutOfMemory) {
  const auto more = static_cast<int64_t>(runtime(DeviceKind::cuda).memory(0).total) + 1;
  try {
    (void)Tensor::empty({more}, u8, gpu);
    FAIL() << "no error";
  } catch (const OutOfMemory& e) {
    EXPECT_NE(std::string(e.what()).find("[memory] cuda:0 has no room"), std::string::npos);
  }
  EXPECT_EQ(host(counting(10).to(gpu)), host(counting(10)));  // the device still works
}

TEST_F(CudaRuntime, RefusedLaunchesNameTheOpAndTheCure) {
  if (!emulated()) GTEST_SKIP() << "a GPU refuses nothing on purpose";
  const Tensor x = counting(10).to(gpu);
  const auto refused_with = [&](const char* error) {
    const tests::Environment refusal("BRIM_EMULATED_REFUSAL", error);
    (void)relu(x);
  };
  try {
    refused_with("209");  // cudaErrorNoKernelImageForDevice
    FAIL() << "no error";
  } catch (const DeviceError& e) {
    const std::string what = e.what();
    for (const char* part : {"[relu] this build of brim has no kernels for cuda:0",
                             "of compute capability 9.0", "-DBRIM_CUDA_ARCHITECTURES=90"})
      EXPECT_NE(what.find(part), std::string::npos) << part << " in " << what;
  }
  try {
    refused_with("2");  // cudaErrorMemoryAllocation: no room to load the kernel
    FAIL() << "no error";
  } catch (const OutOfMemory& e) {
    EXPECT_NE(std::string(e.what()).find("[relu] CUDA found no room on cuda:0"), std::string::npos)
        << e.what();
  }
  EXPECT_EQ(host(relu(x)), host(counting(10)));
}

TEST_F(CudaRuntime, LaunchesThatFindNoRoomTakeWhatIsCached) {
  if (!emulated()) GTEST_SKIP() << "how much a GPU needs for a launch is not known";
  Allocator& memory = Allocator::of(gpu);
  const Tensor x = counting(10).to(gpu);
  memory.release_cached();
  const size_t free = runtime(DeviceKind::cuda).memory(0).free;
  (void)Tensor::empty({8 << 20}, u8, gpu);  // whole pages
  ASSERT_GE(memory.stats().cached, 8 << 20);
  tests::Environment needed("BRIM_EMULATED_LAUNCH_BYTES", std::to_string(free - 4096));
  EXPECT_EQ(host(relu(x)), host(counting(10)));
  EXPECT_LT(memory.stats().cached, 8 << 20);
  needed.set(std::to_string(free + 1));
  EXPECT_THROW((void)relu(x), OutOfMemory);
}

TEST_F(CudaRuntime, ErrorsDoNotNameAnOpThatFailedBefore) {
  if (!emulated()) GTEST_SKIP() << "a GPU refuses nothing on purpose";
  const Tensor x = counting(10).to(gpu);
  {
    const tests::Environment refusal("BRIM_EMULATED_REFUSAL", "209");
    EXPECT_THROW((void)relu(x), DeviceError);
  }
  EXPECT_EQ(backend::queued_op, nullptr);
}

TEST_F(CudaRuntime, FailuresOfQueuedWorkNameTheOpsQueuedLast) {
  if (!emulated()) GTEST_SKIP() << "a GPU is not broken on purpose";
  const Tensor x = relu(counting(10).to(gpu));
  const tests::Environment lost("BRIM_EMULATED_LOST", "1");
  try {
    synchronize(gpu);
    FAIL() << "no error";
  } catch (const DeviceError& e) {
    const std::string what = e.what();
    for (const char* part : {"work queued on cuda:0 failed", "relu", "Xid"})
      EXPECT_NE(what.find(part), std::string::npos) << part << " in " << what;
    EXPECT_EQ(what.find('\n'), std::string::npos);
  }
  try {  // every other call says the same
    (void)counting(10).to(gpu);
    FAIL() << "no error";
  } catch (const DeviceError& e) {
    EXPECT_NE(std::string(e.what()).find("work queued on cuda:0 failed"), std::string::npos);
  }
}

}  // namespace
}  // namespace brim
