// Free blocks are kept in lists by size class (four classes per power of two), large ones by their
// size; live blocks are linked so that an out-of-memory report can name the largest.
#include <brim/core/allocator.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/reclaim.h"
#include "core/runtime.h"
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

struct Allocator::Block {
  void* data = nullptr;
  size_t capacity = 0;   // a small one's is its class's size
  size_t requested = 0;  // what the tensor asked for
  int size_class = 0;
  Stream stream;
  std::atomic<bool> has_users = false;
  std::vector<Stream> users;  // streams beside its own that tensors in it were used on
  std::vector<std::shared_ptr<void>> uses;  // of a cached block: events its next use waits for
  Block* previous = nullptr;                // neighbours in the list of live blocks
  Block* next = nullptr;
};

namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kMaxTouched = size_t{1} << 30;  // bytes of a new block
constexpr int kClasses = 4 * 64;
constexpr int kNoClass = -1;
constexpr size_t kLarge = size_t{1} << 20;  // bytes from which blocks have no classes
constexpr size_t kSpare = 8;                // a large request takes blocks of up to 1/8 more
constexpr int32_t kNobodys = -1;  // a stream: the block stays cached until release_cached()

/// Rounds up to 1, 1.25, 1.5 or 1.75 times a power of two, at least kAlignment; returns the class.
int round_up(size_t& bytes) {
  bytes = std::max(bytes, kAlignment);
  const int shift = std::bit_width(bytes - 1) - 3;  // the class keeps the top three bits
  if (shift > 0) bytes = ((bytes + (size_t{1} << shift) - 1) >> shift) << shift;
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  const int top = std::bit_width(bytes) - 1;
  return 4 * top + static_cast<int>((bytes >> (top - 2)) & 3);
}

}  // namespace

struct Allocator::State {
  Device device;
  mutable std::mutex mutex;
  std::array<std::vector<Block*>, kClasses> free_blocks;
  std::multimap<size_t, Block*> free_large;  // by capacity, the newest first
  Block* live = nullptr;
  MemoryStats stats;

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
  void release_cached() {
    const diag::Span span("release", diag::Cause::allocator);
    for (auto& list : free_blocks) {
      for (Block* b : list) give_back(b);
      list.clear();
    }
    for (const auto& [_, b] : free_large) give_back(b);
    free_large.clear();
  }
  void give_back(Block* b) {
    ASAN_UNPOISON_MEMORY_REGION(b->data, b->capacity);
    runtime(device.kind).deallocate(device.index, b->data, b->capacity);
    stats.cached -= static_cast<int64_t>(b->capacity);
    delete b;
  }
  /// A cached block for so many bytes, or null. One that was freed on another stream may still be
  /// in use there; it waits for release_cached().
  Block* take(size_t capacity, int size_class, Stream stream) {
    const auto serves = [&](const Block& b) {
      return b.stream == stream && (b.uses.empty() || runtime(device.kind).may_wait(stream));
    };
    Block* found = nullptr;
    if (size_class == kNoClass) {
      const size_t most = capacity + capacity / kSpare;
      for (auto i = free_large.lower_bound(capacity); i != free_large.end() && i->first <= most;
           ++i)
        if (serves(*i->second)) {
          found = i->second;
          free_large.erase(i);
          break;
        }
    } else {
      auto& list = free_blocks[static_cast<size_t>(size_class)];
      for (size_t i = list.size(); i-- > 0 && !found;)
        if (serves(*list[i])) {
          found = list[i];
          list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
        }
    }
    if (found) stats.cached -= static_cast<int64_t>(found->capacity);
    return found;
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
  if (stats.limit > 0) free = std::min(free, std::max<int64_t>(0, stats.limit - stats.live));
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

Allocator::Block* Allocator::allocate(size_t bytes, Stream stream) {
  State& s = *state_;
  BRIM_CHECK(bytes <= (size_t{1} << 56), ValueError,
             "[memory] {} bytes are more than any device has; check the tensor's shape", bytes);
  size_t capacity = bytes;
  const int size_class = bytes < kLarge ? round_up(capacity) : kNoClass;
  if (size_class == kNoClass) capacity = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  std::unique_lock lock(s.mutex);
  Block* block = s.take(capacity, size_class, stream);
  const bool is_new = !block;
  if (is_new) {
    const diag::Span span("allocate", diag::Cause::allocator);
    Runtime& r = runtime(s.device.kind);
    const bool may_give_back = r.may_wait(stream);  // to free memory is to wait for the device
    if (s.over_limit(capacity) && may_give_back) s.release_cached();
    void* data = s.over_limit(capacity) ? nullptr : r.allocate(s.device.index, capacity);
    if (!data && s.stats.cached > 0 && may_give_back) {
      s.release_cached();
      data = s.over_limit(capacity) ? nullptr : r.allocate(s.device.index, capacity);
    }
    if (!data && may_give_back) {
      lock.unlock();  // what is given back comes here
      (void)reclaim(s.device);
      lock.lock();
      s.release_cached();  // another thread may have had it given back
      data = s.over_limit(capacity) ? nullptr : r.allocate(s.device.index, capacity);
    }
    if (!data) s.exhausted(bytes);
    ++s.stats.system_allocations;
    block = new Block{.data = data, .capacity = capacity, .size_class = size_class};
  }
  block->requested = bytes;
  block->stream = stream;
  s.link(block);
  capacity = block->capacity;
  s.stats.live += static_cast<int64_t>(capacity);
  s.stats.peak_live = std::max(s.stats.peak_live, s.stats.live);
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
  if (block->size_class == kNoClass)
    s.free_large.emplace_hint(s.free_large.lower_bound(block->capacity), block->capacity, block);
  else
    s.free_blocks[static_cast<size_t>(block->size_class)].push_back(block);
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
}

MemoryStats Allocator::stats() const {
  const std::lock_guard lock(state_->mutex);
  return state_->stats;
}

void Allocator::reset_peak() {
  const std::lock_guard lock(state_->mutex);
  state_->stats.peak_live = state_->stats.live;
}

}  // namespace brim
