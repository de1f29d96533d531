// The caching allocator: reuse, limits, what OutOfMemory says, peaks, threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include <brim/core/allocator.h>
#include <brim/core/error.h>
#include <brim/core/tensor.h>

namespace brim {
namespace {

class AllocatorTest : public ::testing::Test {
 protected:
  AllocatorTest() {
    a_.release_cached();
    a_.reset_peak();
    base_ = a_.stats();
  }
  ~AllocatorTest() override { a_.set_limit(0); }

  Tensor bytes(int64_t n) { return Tensor::empty({n}, u8, Device::cpu()); }
  int64_t live() { return a_.stats().live - base_.live; }
  /// A stream that finds all ranges of addresses taken by others.
  static Stream with_segments() {
    for (int i = 0; i < 4; ++i) {
      const StreamGuard guard(Stream::create(Device::cpu()));
      (void)Tensor::empty({1 << 20}, u8, Device::cpu());
    }
    Allocator::of(Device::cpu()).release_cached();
    return Stream::create(Device::cpu());
  }
  static constexpr int64_t kPage = 64 << 10;  // the largest that systems have

  void check_changing_sizes() {
    // As the training of a transformer: layers' outputs, freed in the opposite order while
    // gradients are made, with another batch and another length in each step.
    a_.release_cached();
    a_.reset_peak();
    std::mt19937 random(1);
    const int64_t before = a_.stats().system_allocations;
    for (int step = 0; step < 2000; ++step) {
      const auto batch = static_cast<int64_t>(1 + random() % 16);
      const auto length = static_cast<int64_t>(16 + random() % 112);
      const int64_t size = batch * length * 512;
      std::vector<Tensor> kept;
      for (int layer = 0; layer < 6; ++layer) {
        for (const int64_t wide : {1, 3, 1, 1, 4, 4, 1}) kept.push_back(bytes(wide * size));
        const Tensor scores = bytes(batch * length * length * 16);
        kept.push_back(bytes(scores.numel()));
      }
      for (Tensor gradient; !kept.empty(); kept.pop_back()) gradient = bytes(kept.back().numel());
    }
    const MemoryStats stats = a_.stats();
    EXPECT_LE(static_cast<double>(stats.peak_reserved),
              1.15 * static_cast<double>(stats.peak_live));
    EXPECT_LE(stats.system_allocations - before, 2000);
  }

  Allocator& a_ = Allocator::of(Device::cpu());
  MemoryStats base_;
};

TEST_F(AllocatorTest, FreedBlocksServeTheNextRequestOfTheirSize) {
  void* first = nullptr;
  {
    const Tensor x = bytes(5000);
    first = x.raw();
    EXPECT_GE(live(), 5000);
  }
  EXPECT_EQ(live(), 0);
  EXPECT_GE(a_.stats().cached, 5000);
  const int64_t before = a_.stats().system_allocations;
  const Tensor y = bytes(4999);
  EXPECT_EQ(y.raw(), first);
  EXPECT_EQ(a_.stats().system_allocations, before);
}

TEST_F(AllocatorTest, AlignmentAndRounding) {
  std::vector<Tensor> kept;
  for (int64_t n : {0, 1, 63, 64, 65, 100, 1000, 4097, 100000, 3000000}) {
    kept.push_back(bytes(n));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(kept.back().raw()) % 64, 0u);
    std::memset(kept.back().raw(), 1, static_cast<size_t>(n));
  }
  // Classes waste at most a quarter, beyond the smallest; large blocks less than a KiB.
  int64_t before = a_.stats().live;
  const Tensor x = bytes(5001);
  EXPECT_LE(a_.stats().live - before, 6252);
  before = a_.stats().live;
  const Tensor y = bytes(1000001);
  EXPECT_LE(a_.stats().live - before, 1001000);
}

TEST_F(AllocatorTest, SteadyLoopsStopAskingTheSystem) {
  int64_t after_first = 0;
  for (int step = 0; step < 5; ++step) {
    std::vector<Tensor> kept;
    for (int64_t n = 1; n < 200000; n = n * 3 + 1) kept.push_back(bytes(n));
    if (step == 0) after_first = a_.stats().system_allocations;
  }
  EXPECT_EQ(a_.stats().system_allocations, after_first);
}

TEST_F(AllocatorTest, LargeBlocksAreCutAndJoined) {
  void* first = nullptr;
  {
    const Tensor x = bytes(8 << 20);
    first = x.raw();
  }
  const int64_t before = a_.stats().system_allocations;
  {
    const Tensor x = bytes(3 << 20), y = bytes(4 << 20), z = bytes(1 << 20);
    EXPECT_EQ(x.raw(), first);
    EXPECT_EQ(y.raw(), static_cast<char*>(first) + (3 << 20));
    EXPECT_EQ(z.raw(), static_cast<char*>(first) + (7 << 20));
    EXPECT_EQ(a_.stats().idle, base_.idle);
  }
  const Tensor x = bytes(8 << 20);
  EXPECT_EQ(x.raw(), first);
  EXPECT_EQ(a_.stats().system_allocations, before);
}

TEST_F(AllocatorTest, IdlePagesBesideTensorsAreReturned) {
  { const Tensor x = bytes(8 << 20); }
  EXPECT_EQ(a_.stats().idle, a_.stats().cached);
  Tensor kept = bytes(1 << 20);
  kept.fill_(7);
  EXPECT_GE(a_.stats().cached, 7 << 20);
  EXPECT_GE(a_.stats().idle, 7 << 20);
  a_.release_cached();
  EXPECT_LT(a_.stats().cached, kPage);
  EXPECT_EQ(a_.stats().idle, 0);
  EXPECT_EQ(kept.to_vector<uint8_t>(), std::vector<uint8_t>(1 << 20, 7));
  kept = Tensor();
  a_.release_cached();
  EXPECT_EQ(a_.stats().cached, 0);
}

TEST_F(AllocatorTest, SegmentsAreReturnedWhole) {
  const StreamGuard guard(with_segments());
  Tensor kept;
  {
    const Tensor x = bytes(8 << 20);
    EXPECT_EQ(a_.stats().idle, base_.idle);
  }
  EXPECT_EQ(a_.stats().idle, base_.idle + (8 << 20));
  kept = bytes(1 << 20);
  EXPECT_GE(a_.stats().cached, 7 << 20);
  EXPECT_EQ(a_.stats().idle, base_.idle);
  a_.release_cached();
  EXPECT_GE(a_.stats().cached, 7 << 20);  // beside what is kept
  kept = Tensor();
  a_.release_cached();
  EXPECT_EQ(a_.stats().cached, 0);
}

TEST_F(AllocatorTest, ABlockGrowsByWhatItLacks) {
  const void* first = nullptr;
  {
    const Tensor x = bytes(8 << 20);
    first = x.raw();
  }
  const Tensor y = bytes(9 << 20);
  EXPECT_EQ(y.raw(), first);
  EXPECT_LT(a_.stats().peak_reserved, base_.live + base_.cached + (9 << 20) + kPage);
}

TEST_F(AllocatorTest, PagesMoveToWhereTheyAreNeeded) {
  const void* hole = nullptr;
  Tensor between;
  {
    const Tensor x = bytes(8 << 20);
    hole = x.raw();
    between = bytes(1 << 20);
    between.fill_(7);
  }
  {
    Tensor y = bytes(12 << 20);  // does not fit before what lies between
    EXPECT_GT(y.raw(), between.raw());
    y.fill_(1);
    const MemoryStats stats = a_.stats();
    EXPECT_LE(static_cast<double>(stats.peak_reserved),
              1.13 * static_cast<double>(stats.peak_live));
    Tensor z = bytes(8 << 20);  // where there are addresses
    EXPECT_EQ(z.raw(), hole);
    z.fill_(2);
    EXPECT_EQ(y.to_vector<uint8_t>(), std::vector<uint8_t>(12 << 20, 1));
  }
  EXPECT_EQ(between.to_vector<uint8_t>(), std::vector<uint8_t>(1 << 20, 7));
}

/// Steps that are all alike, of tensors whose sizes and ends were drawn, between some that stay.
TEST_F(AllocatorTest, StepsThatAreAlikeStopAskingTheSystem) {
  constexpr int kTensors = 8, kSteps = 60;
  for (unsigned seed = 0; seed < 100; ++seed) {
    std::mt19937 random(seed);
    a_.release_cached();
    a_.reset_peak();
    const int64_t before = live();
    std::array<int64_t, kTensors> sizes{};
    std::array<size_t, kTensors> ends{};
    for (int64_t& size : sizes) size = static_cast<int64_t>(1 + random() % 16) << 18;
    for (size_t& end : ends) end = random() % kTensors;
    std::vector<Tensor> that_stay;
    int64_t settled = 0;
    for (int step = 0; step < kSteps; ++step) {
      if (step == kSteps - 20) settled = a_.stats().system_allocations;
      std::array<Tensor, kTensors> tensors;
      for (size_t i = 0; i < kTensors; ++i) {
        tensors[i] = bytes(sizes[i]);
        tensors[ends[i]] = {};
        if (step == 0 && i % 3 == 2) that_stay.push_back(bytes(1 << 18));
      }
    }
    const MemoryStats stats = a_.stats();
    EXPECT_EQ(stats.system_allocations, settled) << seed;
    EXPECT_LE(stats.peak_reserved - base_.live - before,
              (stats.peak_live - base_.live - before) * 3 / 2 + kPage)
        << seed;
  }
}

TEST_F(AllocatorTest, WhatIsAloneIsNeverCut) {
  const Stream stream = Stream::current(Device::cpu());
  const Tensor much = bytes(256 << 20);  // beside it nothing below is too much
  Allocator::Block* arena = a_.allocate(8 << 20, stream, /*alone=*/true);
  void* const address = Allocator::address(arena);
  a_.release(arena);
  const Tensor x = bytes(2 << 20);
  EXPECT_NE(x.raw(), address);
  arena = a_.allocate(15 << 19, stream, /*alone=*/true);  // 1/16 less
  EXPECT_EQ(Allocator::address(arena), address);
  a_.release(arena);
  arena = a_.allocate(4 << 20, stream, /*alone=*/true);
  EXPECT_NE(Allocator::address(arena), address);
  a_.release(arena);
}

TEST_F(AllocatorTest, ChangingSizesHoldLittleMoreThanTheyNeed) {
  for (const bool has_range : {true, false}) {
    const StreamGuard guard(has_range ? Stream::current(Device::cpu()) : with_segments());
    SCOPED_TRACE(has_range ? "range" : "segments");
    check_changing_sizes();
  }
}

TEST_F(AllocatorTest, PeakAndReset) {
  { const Tensor x = bytes(1 << 20); }
  EXPECT_GE(a_.stats().peak_live - base_.live, 1 << 20);
  a_.reset_peak();
  EXPECT_EQ(a_.stats().peak_live, a_.stats().live);
}

TEST_F(AllocatorTest, ExhaustionSaysWhatIsThere) {
  const int64_t limit = base_.live + (4 << 20);
  a_.set_limit(limit);
  const Tensor large = bytes(2 << 20), small = bytes(1 << 20);
  try {
    bytes(3 << 20);
    FAIL() << "no error";
  } catch (const OutOfMemory& e) {
    EXPECT_EQ(e.requested, 3 << 20);
    EXPECT_EQ(e.free, 1 << 20);
    EXPECT_EQ(e.cached, 0);
    const std::string what = e.what();
    for (const char* part : {"[memory] cpu has no room for 3145728 bytes", "1048576 free",
                             "under the limit of", "2097152, 1048576", "Allocator::set_limit"})
      EXPECT_NE(what.find(part), std::string::npos) << part << " in " << what;
    EXPECT_EQ(what.find('\n'), std::string::npos);
  }
  EXPECT_NO_THROW(bytes(1 << 20));  // what is free still is
}

TEST_F(AllocatorTest, CachedBlocksGiveWayUnderALimit) {
  a_.set_limit(base_.live + (4 << 20));
  { const Tensor x = bytes(3 << 20); }
  EXPECT_EQ(a_.stats().cached, 3 << 20);
  const Tensor y = bytes((7 << 19) - 100);  // only fits once the cache is gone
  EXPECT_EQ(a_.stats().cached, 0);
}

TEST_F(AllocatorTest, LoweringTheLimitReleasesTheCache) {
  { const Tensor x = bytes(3 << 20); }
  a_.set_limit(base_.live + (1 << 20));
  EXPECT_EQ(a_.stats().cached, 0);
  EXPECT_THROW(bytes(2 << 20), OutOfMemory);
  a_.set_limit(0);
  EXPECT_NO_THROW(bytes(2 << 20));
  EXPECT_THROW(a_.set_limit(-1), ValueError);
}

TEST_F(AllocatorTest, AbsurdSizesAreErrors) {
  EXPECT_THROW(Tensor::empty({int64_t{1} << 62, 4}, f32, Device::cpu()), ShapeError);
  EXPECT_THROW(Tensor::empty({int64_t{1} << 57}, u8, Device::cpu()), ValueError);
  EXPECT_THROW(Tensor::empty({0, int64_t{1} << 62, 4}, f32, Device::cpu()), ShapeError);
  EXPECT_EQ(Tensor::empty({int64_t{1} << 62, 0}, f32, Device::cpu()).numel(), 0);
  EXPECT_THROW(Tensor::empty({-1}, f32, Device::cpu()), ShapeError);
  EXPECT_EQ(live(), 0);
}

TEST_F(AllocatorTest, ThreadsAllocateAndFree) {
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([this, t] {
      std::mt19937 random(t);
      std::vector<Tensor> kept(16);
      for (int i = 0; i < 2000; ++i) {
        Tensor& slot = kept[random() % kept.size()];
        slot = bytes(static_cast<int64_t>(random() % 10000));
        std::memset(slot.raw(), static_cast<int>(t), static_cast<size_t>(slot.numel()));
        if (i % 500 == 0) a_.release_cached();
        if (i % 97 == 0) (void)a_.stats();
      }
      for (const Tensor& x : kept) {
        const std::vector<uint8_t> v =
            x.defined() ? x.to_vector<uint8_t>() : std::vector<uint8_t>();
        EXPECT_TRUE(std::all_of(v.begin(), v.end(), [t](uint8_t b) { return b == t; }));
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(live(), 0);
}

TEST_F(AllocatorTest, TensorsMayEndInOtherThreads) {
  std::vector<Tensor> made;
  for (int i = 0; i < 100; ++i) made.push_back(bytes(1000));
  std::thread([moved = std::move(made)]() mutable { moved.clear(); }).join();
  EXPECT_EQ(live(), 0);
}

}  // namespace
}  // namespace brim
