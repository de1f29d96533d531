// Memory of one device, cached: a freed block serves the next request of its size class, or from
// 1 MiB on one that is up to an eighth smaller, so a training loop whose tensors keep their sizes
// stops asking the system for memory after its first step.
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
  int64_t cached = 0;              ///< freed by tensors, kept for reuse
  int64_t peak_live = 0;           ///< largest `live` since start or reset_peak()
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
  /// what was asked, free and cached, and the largest live blocks.
  Block* allocate(size_t bytes, Stream stream);
  /// The block is cached. Work that is queued by then comes before what uses the memory next, on
  /// its own stream and on those that it was used on.
  void release(Block* block) noexcept;
  /// The block is used on `stream` of its device, too.
  void used_on(Block* block, Stream stream);
  /// Whether it is used on another stream than its own.
  bool is_used_elsewhere(const Block* block) const;
  static void* address(const Block* block);

  /// Limits live + cached bytes; 0 lifts the limit.
  void set_limit(int64_t bytes);
  /// Returns cached blocks to the system.
  void release_cached();
  MemoryStats stats() const;
  void reset_peak();

 private:
  explicit Allocator(Device device);
  ~Allocator();
  struct State;
  std::unique_ptr<State> state_;
  friend struct AllocatorTable;
};

}  // namespace brim
