// The cache of pinned memory (see pinned_memory.h).
#include "core/pinned_memory.h"

#include <brim/core/allocator.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "core/check.h"
#include "core/runtime.h"

namespace brim {
namespace {

constexpr size_t kPage = 4096;  // what the system locks

size_t rounded(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage + (bytes == 0) * kPage; }

}  // namespace

PinnedMemory& PinnedMemory::of(DeviceKind kind) {
  // Never destroyed: tensors with static lifetime may outlive any order we choose.
  static const auto* all = new std::array<PinnedMemory*, kDeviceKindCount>{
      new PinnedMemory(DeviceKind::cpu), new PinnedMemory(DeviceKind::cuda),
      new PinnedMemory(DeviceKind::sim)};
  for (PinnedMemory* memory : *all)
    if (memory->kind_ == kind) return *memory;
  raise<DeviceError>("[memory] there is no pinned memory for {}", name(kind));
}

void* PinnedMemory::allocate(size_t bytes) {
  const size_t size = rounded(bytes);
  {
    const std::lock_guard lock(mutex_);
    const auto [first, last] = free_.equal_range(size);
    for (auto at = first; at != last; ++at) {
      if (!at->second.last_copy.query()) continue;
      void* const data = at->second.data;
      free_.erase(at);
      return data;
    }
  }
  check_available({kind_, 0});
  void* data = make(size);
  if (!data) {
    release_cached();
    data = make(size);
  }
  if (data) return data;
  const std::lock_guard lock(mutex_);
  throw OutOfMemory(
      fmt::format("[memory] the host has no room for {} bytes of pinned memory for {}, {} are in "
                  "use{}; use a smaller batch or fewer loader workers{}",
                  size, name(kind_), bytes_,
                  limit_ > 0 ? fmt::format(" under the limit of {}", limit_) : "",
                  limit_ > 0 ? ", or a higher set_pinned_limit" : ""),
      static_cast<int64_t>(size), 0, 0);
}

void* PinnedMemory::make(size_t size) {
  const auto bytes = static_cast<int64_t>(size);
  {
    const std::lock_guard lock(mutex_);
    if (limit_ > 0 && bytes_ + bytes > limit_) return nullptr;
    bytes_ += bytes;
    ++system_allocations_;
  }
  const auto take_back = [&] {
    const std::lock_guard lock(mutex_);
    bytes_ -= bytes;
    --system_allocations_;
  };
  try {
    void* data = runtime(kind_).allocate_host(size);
    if (!data) take_back();
    return data;
  } catch (...) {
    take_back();
    throw;
  }
}

void PinnedMemory::set_limit(int64_t bytes) {
  BRIM_CHECK(bytes >= 0, ValueError, "[memory] a limit of {} bytes is negative", bytes);
  {
    const std::lock_guard lock(mutex_);
    limit_ = bytes;
    if (limit_ == 0 || bytes_ <= limit_) return;
  }
  release_cached();
}

int64_t PinnedMemory::room_now() const {
  if (limit_ == 0) return std::numeric_limits<int64_t>::max();
  int64_t cached = 0;
  for (const auto& [size, block] : free_) cached += static_cast<int64_t>(size);
  return std::max<int64_t>(0, limit_ - bytes_ + cached - reserved_);
}

int64_t PinnedMemory::room() const {
  const std::lock_guard lock(mutex_);
  return room_now();
}

std::shared_ptr<void> PinnedMemory::reserve(int64_t bytes) {
  bytes = static_cast<int64_t>(rounded(static_cast<size_t>(bytes)));
  const std::lock_guard lock(mutex_);
  if (bytes > room_now()) return nullptr;
  reserved_ += bytes;
  return {this, [bytes](PinnedMemory* memory) {
            const std::lock_guard held(memory->mutex_);
            memory->reserved_ -= bytes;
          }};
}

void PinnedMemory::release(void* data, size_t bytes, Event last_copy) noexcept {
  const std::lock_guard lock(mutex_);
  free_.emplace(rounded(bytes), Block{data, std::move(last_copy)});
}

void PinnedMemory::release_cached() noexcept {
  std::multimap<size_t, Block> blocks;
  {
    const std::lock_guard lock(mutex_);
    blocks.swap(free_);
    for (const auto& [size, block] : blocks) bytes_ -= static_cast<int64_t>(size);
  }
  for (const auto& [size, block] : blocks) {
    try {
      block.last_copy.synchronize();
    } catch (const Error&) {  // what failed on the device shows where somebody waits for it
    }
    runtime(kind_).deallocate_host(block.data, size);
  }
}

int64_t PinnedMemory::system_allocations() const {
  const std::lock_guard lock(mutex_);
  return system_allocations_;
}

int64_t PinnedMemory::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

void set_pinned_limit(DeviceKind kind, int64_t bytes) { PinnedMemory::of(kind).set_limit(bytes); }

}  // namespace brim
