// Memory that others give back where an allocator finds no room.
#include "core/reclaim.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include <brim/core/allocator.h>
#include <brim/core/error.h>
#include <brim/core/storage.h>

namespace brim {
namespace {

/// Holds memory until it is asked for.
class Holder final : public Reclaimable {
 public:
  Holder(Device device, size_t bytes) : device_(device), memory_(Storage::allocate(bytes, device)) {
    start_reclaiming();
  }
  ~Holder() override { stop_reclaiming(); }
  bool give_back(Device device) noexcept override {
    if (device != device_ || has_given_.exchange(true)) return false;
    memory_ = nullptr;
    return true;
  }
  bool has_given() const { return has_given_; }

 private:
  const Device device_;
  Ref<Storage> memory_;
  std::atomic<bool> has_given_ = false;
};

class Reclaim : public ::testing::Test {
 protected:
  static constexpr size_t kBytes = size_t{2} << 20;
  Reclaim() { memory.release_cached(); }
  ~Reclaim() override { memory.set_limit(0); }
  /// Room for what lives, and so much more.
  void leave(size_t bytes) { memory.set_limit(memory.stats().live + static_cast<int64_t>(bytes)); }
  const Device device = Device::sim(0);
  Allocator& memory = Allocator::of(device);
};

TEST_F(Reclaim, OnlyWhereThereIsNoRoom) {
  const Holder holder(device, kBytes), elsewhere(Device::sim(1), kBytes);
  leave(kBytes);
  const Ref<Storage> fits = Storage::allocate(kBytes, device);
  EXPECT_FALSE(holder.has_given());
  const Ref<Storage> in_its_place = Storage::allocate(kBytes, device);
  EXPECT_TRUE(holder.has_given());
  EXPECT_FALSE(elsewhere.has_given());
  EXPECT_THROW((void)Storage::allocate(kBytes, device), OutOfMemory);
}

TEST_F(Reclaim, NothingOfWhatHasEnded) {
  { const Holder holder(device, kBytes); }
  memory.release_cached();
  leave(kBytes / 2);
  EXPECT_THROW((void)Storage::allocate(kBytes, device), OutOfMemory);
}

/// Holders come and go while other threads find no room.
TEST_F(Reclaim, InManyThreads) {
  constexpr int kThreads = 4, kTimes = 50;
  leave(kThreads * kBytes);
  std::vector<std::thread> threads;
  std::atomic<int> found = 0;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < kTimes; ++i) try {
          const Holder holder(device, kBytes / 2);
          const Ref<Storage> more = Storage::allocate(kBytes / 2, device);
          ++found;
        } catch (const OutOfMemory&) {  // others have it all
        }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(found, kThreads * kTimes);  // all fit at one time
}

}  // namespace
}  // namespace brim
