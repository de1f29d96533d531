// What a backend offers of memory: of its devices, of the host for them, and copies between both.
#pragma once

#include <cstddef>
#include <cstdlib>

#include <brim/core/device.h>
#include <brim/core/stream.h>

namespace brim {

struct DeviceMemory {
  size_t total = 0;
  size_t free = 0;
};

class MemoryRuntime {
 public:
  virtual ~MemoryRuntime() = default;

  virtual DeviceMemory memory(int device) const = 0;

  /// 64-byte aligned memory, or nullptr when there is none left.
  virtual void* allocate(int device, size_t bytes) = 0;
  /// Makes the pages of memory that allocate() gave present, where the system does so only when
  /// they are touched: so that kernels need not wait for it. Nothing where that fails.
  virtual void touch(void* /*data*/, size_t /*bytes*/) {}
  virtual void deallocate(int device, void* data, size_t bytes) noexcept = 0;

  /// What a range's parts with memory begin and end at multiples of; 0: the device has no ranges.
  virtual size_t page(int /*device*/) { return 0; }
  /// A range of addresses without memory, for as long as the process lives; null where it has none
  /// that large.
  virtual void* reserve(int /*device*/, size_t /*bytes*/) { return nullptr; }
  /// Gives a part of a range memory; false where there is none left.
  virtual bool commit(int /*device*/, void* /*data*/, size_t /*bytes*/) { return false; }
  /// Takes it away again, as deallocate() does. False where that cannot be done now: it stays.
  virtual bool decommit(int /*device*/, void* /*data*/, size_t /*bytes*/) noexcept { return false; }

  /// 64-byte aligned memory of the host for copy_from_pinned, or nullptr when there is none left.
  /// Page-locked where devices read the host's memory by themselves, and then slow to get. Giving
  /// it back waits for copies out of it and into it.
  virtual void* allocate_host(size_t bytes) {
    return std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  }
  virtual void deallocate_host(void* data, size_t bytes) noexcept {
    (void)bytes;
    std::free(data);
  }

  /// Memory that was used on `stream` before is about to serve it again. Throws StreamError where
  /// a backend checks that and another stream still uses it.
  virtual void check_reuse(const void* data, size_t bytes, Stream stream) {
    (void)data, (void)bytes, (void)stream;
  }

  /// Queues a copy on `stream`; one end is on this runtime's device, the other there or on the CPU.
  /// When the call returns, a source on the host has been read; a target there has been written
  /// once the stream was synchronized.
  virtual void copy(void* to, Device to_device, const void* from, Device from_device, size_t bytes,
                    Stream stream) = 0;

  /// The same from memory of allocate_host to this runtime's device. When the call returns, the
  /// source may be unread: it stays as it is until an event that is recorded behind is complete.
  virtual void copy_from_pinned(void* to, Device to_device, const void* from, size_t bytes,
                                Stream stream) {
    copy(to, to_device, from, Device::cpu(), bytes, stream);
  }
};

}  // namespace brim
