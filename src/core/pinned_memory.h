// Memory of the host that devices read by themselves, cached by size: page-locking is slow, so a
// ring of batches asks for its slots once and gets the same ones in every epoch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include <brim/core/device.h>
#include <brim/core/stream.h>

namespace brim {

/// All members may be called from any thread.
class PinnedMemory {
 public:
  /// That of one kind of device. Throws DeviceError where there is no such device.
  static PinnedMemory& of(DeviceKind kind);

  /// At least `bytes` bytes, 64-byte aligned. Throws OutOfMemory where the host has no more, or no
  /// more may be taken.
  void* allocate(size_t bytes);
  /// `bytes` as asked for; the memory serves again when `last_copy` is complete.
  void release(void* data, size_t bytes, Event last_copy) noexcept;
  /// Returns what nobody holds to the system, once copies out of and into it are done.
  void release_cached() noexcept;

  /// Limits what is held and cached; 0 lifts the limit.
  void set_limit(int64_t bytes);
  /// Bytes that may be taken still; very many where there is no limit.
  int64_t room() const;
  /// Keeps so many bytes of the room for who holds the result; null where there are no more so
  /// many.
  std::shared_ptr<void> reserve(int64_t bytes);

  /// Requests that reached the runtime so far.
  int64_t system_allocations() const;
  /// Bytes that are held or cached.
  int64_t bytes() const;

 private:
  struct Block {
    void* data;
    Event last_copy;
  };
  explicit PinnedMemory(DeviceKind kind) : kind_(kind) {}
  void* make(size_t size);
  int64_t room_now() const;  // locked

  const DeviceKind kind_;
  mutable std::mutex mutex_;
  std::multimap<size_t, Block> free_;  // by size
  int64_t system_allocations_ = 0, bytes_ = 0, limit_ = 0, reserved_ = 0;
};

}  // namespace brim
