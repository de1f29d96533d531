// Memory of one device, cached: a freed block serves the next request of its size class; from 8 KiB
// on it is cut to what is asked for, joined with free neighbours, and grows by what it lacks. So a
// training loop whose tensors keep their sizes stops asking the system for memory after its first
// step, and one whose sizes change holds little more than its tensors take at most.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <brim/core/device.h>
#include <brim/core/stream.h>

namespace brim {

/// Bytes of one device's allocator.
struct MemoryStats {
  int64_t live = 0;                ///< held by tensors
  int64_t cached = 0;              ///< kept for reuse, held by none
  int64_t idle = 0;                ///< of `cached`: what release_cached() returns to the system
  int64_t peak_live = 0;           ///< largest `live` since start or reset_peak()
  int64_t peak_reserved = 0;       ///< largest `live + cached` since then
  int64_t limit = 0;               ///< 0: no limit
  int64_t system_allocations = 0;  ///< requests that reached the device's runtime
};

/// The caching allocator of one device. All members may be called from any thread.
class Allocator {
 public:
  struct Block;

  /// The allocator of `device`. Throws DeviceError when the device is missing.
  static Allocator& of(Device device);

  /// At least `bytes` bytes, 64-byte aligned, for use on `stream`. Throws OutOfMemory, which names
  /// what was asked, free and cached, and the largest live blocks. One that is `alone` shares what
  /// the system gave with no other, now or later: for what is large and comes back whole.
  Block* allocate(size_t bytes, Stream stream, bool alone = false);
  /// The block is cached. Work that is queued by then comes before what uses the memory next, on
  /// its own stream and on those that it was used on.
  void release(Block* block) noexcept;
  /// The block is used on `stream` of its device, too.
  void used_on(Block* block, Stream stream);
  /// Whether it is used on another stream than its own.
  bool is_used_elsewhere(const Block* block) const;
  static void* address(const Block* block);  ///< first byte of a block

  /// Limits live + cached bytes; 0 lifts the limit.
  void set_limit(int64_t bytes);
  /// Returns cached memory to the system, but for what lies beside tensors in one of its pages, or
  /// blocks where a device gives memory only by the block.
  void release_cached();
  MemoryStats stats() const;  ///< what this device's allocator holds now, in bytes
  void reset_peak();          ///< the peak begins again at what is live now

 private:
  explicit Allocator(Device device);
  ~Allocator();
  struct State;
  std::unique_ptr<State> state_;
  friend struct AllocatorTable;
};

/// Limits the bytes of the host's memory that is pinned for devices of `kind`: the slots of
/// loaders, and what plans move there; 0 lifts the limit. Throws ValueError for a negative one.
void set_pinned_limit(DeviceKind kind, int64_t bytes);

}  // namespace brim
