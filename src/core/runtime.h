// What a backend must offer for its devices: memory, copies, streams and events. One Runtime serves
// all devices of its kind. Kinds without a backend get one that counts 0 devices and throws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include <brim/core/device.h>
#include <brim/core/stream.h>

namespace brim {

struct DeviceMemory {
  size_t total = 0;
  size_t free = 0;
};

class Runtime {
 public:
  virtual ~Runtime() = default;

  virtual int device_count() const = 0;
  /// Where device_count() is 0: why, and what to do, in one line; empty if there is no more to say.
  virtual std::string why_absent() const { return ""; }
  virtual std::string description(int device) const = 0;  ///< "AMD EPYC ..., 2 threads"
  virtual DeviceMemory memory(int device) const = 0;

  /// 64-byte aligned memory, or nullptr when there is none left.
  virtual void* allocate(int device, size_t bytes) = 0;
  virtual void deallocate(int device, void* data, size_t bytes) noexcept = 0;

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

  /// Calls `queue_work`, which queues work on `stream` alone and waits for nothing. Devices whose
  /// launches cost something take it all in one. The caller, who repeats the work, keeps `kept` for
  /// the backend from one time to the next; `signature` holds all that may differ between times
  /// (addresses, numbers). A backend that has met it before need not call `queue_work` again (CUDA
  /// replays a graph).
  virtual void launch_as_one(Stream stream, std::span<const uint64_t> signature,
                             std::shared_ptr<void>& kept, const std::function<void()>& queue_work) {
    (void)stream, (void)signature, (void)kept;
    queue_work();
  }

  virtual Stream create_stream(int device) = 0;
  virtual void synchronize(Stream stream) = 0;
  virtual void synchronize(int device) = 0;
  virtual std::shared_ptr<void> record(Stream stream) = 0;
  virtual void wait(const std::shared_ptr<void>& event, Stream stream) = 0;
  virtual bool query(const std::shared_ptr<void>& event) = 0;
  virtual void synchronize(const std::shared_ptr<void>& event) = 0;
};

/// The runtime of a kind; one that throws DeviceError ("cuda is not available; ...") if absent.
Runtime& runtime(DeviceKind kind);
/// Backends call this when they are loaded. The runtime lives as long as the process.
void register_runtime(DeviceKind kind, Runtime& runtime);
/// Throws DeviceError naming `device` and how many of its kind there are, or why there are none.
void check_available(Device device);

}  // namespace brim
