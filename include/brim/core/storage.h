// The memory behind one or more tensors. It remembers its device, its allocator, how often it was
// written in place, and the event of the last write from another stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include <brim/core/allocator.h>
#include <brim/core/ref.h>
#include <brim/core/stream.h>

namespace brim {

/// Memory on one device that tensors share; it returns to its allocator with the last of them.
class Storage final : public RefCounted {
 public:
  /// Uninitialised memory on `device`; `alone` as Allocator::allocate() says. Throws OutOfMemory.
  static Ref<Storage> allocate(size_t bytes, Device device, bool alone = false);
  /// Memory owned by somebody else; `release` is called with the last handle.
  static Ref<Storage> wrap(void* data, size_t bytes, Device device, std::function<void()> release);
  /// Memory of the host that devices of `kind` read by themselves: copies to them go on when their
  /// call has returned. Throws DeviceError, OutOfMemory.
  static Ref<Storage> pinned(size_t bytes, DeviceKind kind);
  ~Storage();

  /// First byte, on the device; null for what a recording made.
  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }    ///< how many bytes there are
  Device device() const { return device_; }  ///< where they are

  /// The kind of device that pinned memory is for; cpu: this is none.
  DeviceKind pinned_for() const { return pinned_for_; }
  /// Waits on the host until asynchronous copies out of and into pinned memory are done: it may be
  /// written, and read, then. Throws what the work before them met, and for copies into it what
  /// kernels of that device noted, such as an index out of range.
  void finish_copies();
  /// See Tensor::record_stream. Memory that is not brim's own is its owner's to keep.
  void record_stream(const Stream& stream);
  /// Whether a stream was recorded.
  bool is_used_elsewhere() const;

  /// Puts other memory behind all tensors of a wrapped storage.
  void rebind(void* data) { data_ = data; }
  /// Holds `memory` as long as this storage lives.
  void keep_alive(Ref<Storage> memory);

  /// Counts in-place writes; autograd compares it to notice overwritten saved tensors.
  uint32_t version() const { return version_; }
  void bump_version() { ++version_; }  ///< notes that they were written

  /// True for storages made by a step that is recorded; set by the recorder alone.
  bool recorded = false;
  /// The op that would have computed it, where a step was recorded and nothing came of it; else
  /// null.
  const char* uncomputed = nullptr;
  /// Throws CompileError if it is that.
  void check_computed() const;
  Event last_write;    ///< complete by default; set by asynchronous copies
  Event last_copy;     ///< the same, of copies out of and into pinned memory
  Device copied_from;  ///< the device of an asynchronous copy into it, until finish_copies()

 private:
  Storage() = default;
  void* data_ = nullptr;
  size_t bytes_ = 0;
  Device device_;
  DeviceKind pinned_for_ = DeviceKind::cpu;
  uint32_t version_ = 0;
  Allocator::Block* block_ = nullptr;
  Allocator* allocator_ = nullptr;
  Ref<Storage> kept_;
  std::function<void()> release_;
};

}  // namespace brim
