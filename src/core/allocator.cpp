// Free small blocks are kept in lists by size class (four classes per power of two), large ones in
// a pool that cuts and joins them; live blocks are linked so that an out-of-memory report can name
// the largest.
#include <brim/core/allocator.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <mutex>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/reclaim.h"
#include "core/runtime.h"
#include "core/segment_pool.h"
#include "diag/span.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define BRIM_ASAN 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define BRIM_ASAN 1
#endif
#if BRIM_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

namespace brim {

namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kMaxTouched = size_t{1} << 30;  // bytes of a new block
constexpr int kClasses = 4 * 64;
constexpr int kNoClass = -1;
constexpr size_t kLarge = size_t{8} << 10;  // bytes from which blocks have no classes
// When memory is needed, what is idle is given back that is more than 1/8 of the most that was live
// lately: at the last need, of which 1/16 is forgotten at each, or since.
constexpr int64_t kSlack = 8, kForgotten = 16;
// More than 1/2 where the same needs come again and again: steps that are all alike would give back
// what the next one has to ask for.
constexpr int64_t kSlackOfRepeated = 2;
constexpr size_t kMaxRanges = 4;  // streams beyond have segments
constexpr int32_t kNobodys = -1;  // a stream: the block stays cached until release_cached()

size_t round_up(size_t bytes, size_t granule) { return (bytes + granule - 1) / granule * granule; }

/// Rounds up to 1, 1.25, 1.5 or 1.75 times a power of two, at least kAlignment; returns the class.
int round_to_class(size_t& bytes) {
  bytes = std::max(bytes, kAlignment);
  const int shift = std::bit_width(bytes - 1) - 3;  // the class keeps the top three bits
  if (shift > 0) bytes = ((bytes + (size_t{1} << shift) - 1) >> shift) << shift;
  bytes = round_up(bytes, kAlignment);
  const int top = std::bit_width(bytes) - 1;
  return 4 * top + static_cast<int>((bytes >> (top - 2)) & 3);
}

/// The last times that memory was needed: for how many bytes, beside how many that were live.
class RecentNeeds {
 public:
  void add(size_t bytes, int64_t live) { needs_[count_++ % kCount] = {bytes, live}; }
  /// Whether the same few come again and again, as those of steps that are all alike.
  bool repeat() const {
    if (count_ < kCount) return false;
    const auto& newest = needs_[(count_ - 1) % kCount];
    if (std::ranges::count(needs_, newest) == 1) return false;  // steps have changed
    auto sorted = needs_;
    std::ranges::sort(sorted);
    return std::unique(sorted.begin(), sorted.end()) - sorted.begin() <= kCount / 4;
  }

 private:
  static constexpr int kCount = 16;
  std::array<std::pair<size_t, int64_t>, kCount> needs_{};
  size_t count_ = 0;
};

}  // namespace

struct Allocator::State {
  Device device;
  mutable std::mutex mutex;
  std::array<BlockStack, kClasses> free_blocks;
  SegmentPool large;
  Block* live = nullptr;
  MemoryStats stats;
  int64_t most_live = 0, live_since = 0;  // lately; since a segment was needed
  RecentNeeds needs;

  void link(Block* b) {
    b->previous = nullptr;
    b->next = live;
    if (live) live->previous = b;
    live = b;
  }
  void unlink(Block* b) {
    (b->previous ? b->previous->next : live) = b->next;
    if (b->next) b->next->previous = b->previous;
  }
  void deallocate(void* data, size_t capacity) {
    ASAN_UNPOISON_MEMORY_REGION(data, capacity);
    runtime(device.kind).deallocate(device.index, data, capacity);
    stats.cached -= static_cast<int64_t>(capacity);
  }
  bool decommit(void* data, size_t capacity) {
    if (!runtime(device.kind).decommit(device.index, data, capacity)) return false;
    stats.cached -= static_cast<int64_t>(capacity);
    return true;
  }
  /// Whether what an event stands for is done.
  bool is_done(const std::shared_ptr<void>& event) const {
    try {
      return runtime(device.kind).query(event);
    } catch (const std::exception&) {
      return false;  // whoever waits for it meets what it met
    }
  }
  SegmentPool::IsDone asks_device() const {
    return [this](const std::shared_ptr<void>& event) { return is_done(event); };
  }
  void give_back_idle(size_t bytes, const SegmentPool::Growth& coming = {}) {
    large.give_back(bytes, coming, asks_device(),
                    [this](void* data, size_t capacity, bool is_part) {
                      if (is_part) return decommit(data, capacity);
                      deallocate(data, capacity);
                      return true;
                    });
  }
  void release_cached() {
    const diag::Span span("release", diag::Cause::allocator);
    for (BlockStack& blocks : free_blocks)
      while (Block* b = blocks.pop()) {
        deallocate(b->data, b->capacity);
        delete b;
      }
    give_back_idle(SIZE_MAX);
  }
  /// Before memory comes for a block of `capacity` bytes.
  void give_back_what_is_too_much(size_t capacity, Stream stream, bool alone) {
    const auto more = static_cast<int64_t>(capacity);
    most_live = std::max({most_live - most_live / kForgotten, live_since, stats.live + more});
    live_since = stats.live;
    const SegmentPool::Growth growth =
        alone ? SegmentPool::Growth() : large.growth_for(capacity, stream);
    const int64_t coming = growth.gap ? static_cast<int64_t>(growth.bytes) : more;
    const int64_t reserved = stats.live + stats.cached + coming;
    needs.add(capacity, stats.live);
    const int64_t slack = needs.repeat() ? kSlackOfRepeated : kSlack;
    if (const int64_t allowed = most_live + most_live / slack; reserved > allowed)
      give_back_idle(static_cast<size_t>(reserved - allowed), growth);
  }
  /// Reserves addresses where the device and the stream have none yet.
  void reserve(Stream stream) {
    if (large.has_range(stream) || large.ranges() == kMaxRanges) return;
    Runtime& r = runtime(device.kind);
    const size_t page = r.page(device.index);
    if (page == 0) return;
    const size_t bytes = r.memory(device.index).total / page * page;
    if (bytes == 0) return;  // less memory than a page
    if (void* data = r.reserve(device.index, bytes)) large.add_range(data, bytes, page, stream);
  }
  /// A cached block for so many bytes, or null. One that was freed on another stream may still be
  /// in use there; it waits for release_cached().
  Block* take(size_t capacity, int size_class, Stream stream, bool alone) {
    Block* found = nullptr;
    const bool may_wait = runtime(device.kind).may_wait(stream);
    if (size_class == kNoClass) {
      found = large.take(capacity, stream, alone, may_wait, asks_device());
    } else {
      found = free_blocks[static_cast<size_t>(size_class)].take(
          [&](const Block& b) { return b.stream == stream && (b.uses.empty() || may_wait); });
    }
    if (found) stats.cached -= static_cast<int64_t>(found->capacity);
    return found;
  }
  /// A block in the stream's range, which gets the memory that it lacks; null where it cannot.
  Block* grow(size_t capacity, Stream stream) {
    const SegmentPool::Growth growth = large.growth_for(capacity, stream);
    if (!growth.gap || over_limit(growth.bytes)) return nullptr;
    if (!runtime(device.kind).commit(device.index, growth.gap->data, growth.bytes)) return nullptr;
    ++stats.system_allocations;
    if (device.is_cpu()) ASAN_POISON_MEMORY_REGION(growth.gap->data, growth.bytes);
    stats.cached += static_cast<int64_t>(growth.bytes) - static_cast<int64_t>(capacity);
    return large.grow(growth, capacity);
  }
  /// A block of new memory, or null where there is none.
  Block* make(size_t capacity, int size_class, Stream stream, bool alone) {
    if (size_class == kNoClass && !alone)
      if (Block* block = grow(capacity, stream)) return block;
    if (over_limit(capacity)) return nullptr;
    void* data = runtime(device.kind).allocate(device.index, capacity);
    if (!data) return nullptr;
    ++stats.system_allocations;
    if (size_class == kNoClass) return large.add(data, capacity, stream, alone);
    return new Block{.data = data, .capacity = capacity, .size_class = size_class};
  }
  bool over_limit(size_t bytes) const {
    return stats.limit > 0 && stats.live + stats.cached + static_cast<int64_t>(bytes) > stats.limit;
  }
  [[noreturn]] void exhausted(size_t requested) const;
};

void Allocator::State::exhausted(size_t requested) const {
  std::vector<int64_t> sizes;
  for (const Block* b = live; b; b = b->next) sizes.push_back(static_cast<int64_t>(b->requested));
  const size_t shown = std::min<size_t>(sizes.size(), 5);
  std::partial_sort(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(shown), sizes.end(),
                    std::greater<>());
  std::string largest;
  for (size_t i = 0; i < shown; ++i) largest += fmt::format("{}{}", i ? ", " : "", sizes[i]);
  int64_t free = static_cast<int64_t>(runtime(device.kind).memory(device.index).free);
  if (stats.limit > 0)
    free = std::min(free, std::max<int64_t>(0, stats.limit - stats.live - stats.cached));
  throw OutOfMemory(
      fmt::format("[memory] {} has no room for {} bytes: {} live, {} cached, {} free{}; largest "
                  "live tensors (bytes): {}; use a smaller batch or a higher Allocator::set_limit",
                  device.str(), requested, stats.live, stats.cached, free,
                  stats.limit > 0 ? fmt::format(" under the limit of {}", stats.limit) : "",
                  largest.empty() ? "none" : largest),
      static_cast<int64_t>(requested), free, stats.cached);
}

struct AllocatorTable {
  std::mutex mutex;
  std::array<std::vector<Allocator*>, kDeviceKindCount> allocators;

  Allocator& at(Device device) {
    check_available(device);
    const std::lock_guard lock(mutex);
    auto& list = allocators[static_cast<size_t>(device.kind)];
    const size_t index = static_cast<size_t>(device.index);
    if (list.size() <= index) list.resize(index + 1);
    if (!list[index]) list[index] = new Allocator(device);
    return *list[index];
  }
};

Allocator::Allocator(Device device) : state_(std::make_unique<State>()) { state_->device = device; }
Allocator::~Allocator() = default;

Allocator& Allocator::of(Device device) {
  // Allocators are never destroyed: tensors with static lifetime may outlive any order we choose.
  static auto* table = new AllocatorTable;
  static Allocator& cpu = table->at(Device::cpu());
  if (device == Device::cpu()) return cpu;
  return table->at(device);
}

Allocator::Block* Allocator::allocate(size_t bytes, Stream stream, bool alone) {
  State& s = *state_;
  BRIM_CHECK(bytes <= (size_t{1} << 56), ValueError,
             "[memory] {} bytes are more than any device has; check the tensor's shape", bytes);
  size_t capacity = bytes;
  const int size_class = bytes < kLarge ? round_to_class(capacity) : kNoClass;
  if (size_class == kNoClass) capacity = round_up(bytes, SegmentPool::kGranule);
  std::unique_lock lock(s.mutex);
  Block* block = s.take(capacity, size_class, stream, alone);
  const bool is_new = !block;
  if (is_new) {
    const diag::Span span("allocate", diag::Cause::allocator);
    // To free memory is to wait for the device.
    const bool may_give_back = runtime(s.device.kind).may_wait(stream);
    if (size_class == kNoClass && !alone) s.reserve(stream);
    if (may_give_back && size_class == kNoClass)
      s.give_back_what_is_too_much(capacity, stream, alone);
    block = s.make(capacity, size_class, stream, alone);
    if (!block && may_give_back && s.stats.cached > 0) {
      s.release_cached();
      block = s.make(capacity, size_class, stream, alone);
    }
    if (!block && may_give_back) {
      lock.unlock();  // what is given back comes here
      (void)reclaim(s.device);
      lock.lock();
      s.release_cached();  // another thread may have had it given back
      block = s.make(capacity, size_class, stream, alone);
    }
    if (!block) s.exhausted(bytes);
  }
  block->requested = bytes;
  block->stream = stream;
  s.link(block);
  capacity = block->capacity;
  s.stats.live += static_cast<int64_t>(capacity);
  s.stats.peak_live = std::max(s.stats.peak_live, s.stats.live);
  s.stats.peak_reserved = std::max(s.stats.peak_reserved, s.stats.live + s.stats.cached);
  s.live_since = std::max(s.live_since, s.stats.live);
  if (s.device.is_cpu()) {
    ASAN_UNPOISON_MEMORY_REGION(block->data, capacity);
    ASAN_POISON_MEMORY_REGION(static_cast<char*>(block->data) + bytes, capacity - bytes);
    lock.unlock();
    // Page faults in a kernel could not be told from it. Not of memory that may be sparse.
    if (is_new && diag::active_meter && bytes <= kMaxTouched) {
      const diag::Span span("touch", diag::Cause::allocator);
      runtime(s.device.kind).touch(block->data, bytes);
    }
    return block;
  }
  lock.unlock();  // a stream that is full is waited for
  try {
    for (const auto& use : block->uses) runtime(s.device.kind).wait_until_done(use, stream);
  } catch (...) {
    block->stream = {s.device, kNobodys};
    release(block);
    throw;
  }
  try {
    runtime(s.device.kind).check_reuse(block->data, capacity, stream);
  } catch (...) {
    release(block);
    throw;
  }
  block->uses.clear();
  return block;
}

void Allocator::used_on(Block* block, Stream stream) {
  if (state_->device.is_cpu()) return;  // what was queued there is done
  const std::lock_guard lock(state_->mutex);
  auto& users = block->users;
  if (stream != block->stream && std::find(users.begin(), users.end(), stream) == users.end())
    users.push_back(stream);
  block->has_users.store(!users.empty(), std::memory_order_release);
}

bool Allocator::is_used_elsewhere(const Block* block) const {
  return block->has_users.load(std::memory_order_acquire);  // plans ask in each step
}

void Allocator::release(Block* block) noexcept {
  State& s = *state_;
  block->has_users.store(false, std::memory_order_relaxed);
  for (const Stream user : std::exchange(block->users, {})) {
    try {
      block->uses.push_back(runtime(s.device.kind).record(user, false));
    } catch (const std::exception&) {
      block->stream = {s.device, kNobodys};
    }
  }
  const std::lock_guard lock(s.mutex);
  s.unlink(block);
  s.stats.live -= static_cast<int64_t>(block->capacity);
  s.stats.cached += static_cast<int64_t>(block->capacity);
  if (s.device.is_cpu()) ASAN_POISON_MEMORY_REGION(block->data, block->capacity);
  if (!block->segment) {
    s.free_blocks[static_cast<size_t>(block->size_class)].push(block);
    return;
  }
  s.large.put(block);
}

void* Allocator::address(const Block* block) { return block->data; }

void Allocator::set_limit(int64_t bytes) {
  BRIM_CHECK(bytes >= 0, ValueError, "[memory] a limit of {} bytes is negative", bytes);
  const std::lock_guard lock(state_->mutex);
  state_->stats.limit = bytes;
  if (state_->over_limit(0)) state_->release_cached();
}

void Allocator::release_cached() {
  const std::lock_guard lock(state_->mutex);
  state_->release_cached();
  state_->most_live = state_->live_since = state_->stats.live;
}

MemoryStats Allocator::stats() const {
  const std::lock_guard lock(state_->mutex);
  MemoryStats stats = state_->stats;
  const SegmentPool& large = state_->large;
  stats.idle = stats.cached - static_cast<int64_t>(large.free_bytes() - large.idle_bytes());
  return stats;
}

void Allocator::reset_peak() {
  const std::lock_guard lock(state_->mutex);
  MemoryStats& stats = state_->stats;
  stats.peak_live = stats.live;
  stats.peak_reserved = stats.live + stats.cached;
}

}  // namespace brim
