// What a backend must offer for its devices: memory, copies, streams and events. One Runtime serves
// all devices of its kind. Kinds without a backend get one that counts 0 devices and throws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
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

/// Work on one stream that is repeated, such as the step of a plan, or several steps of it.
struct RepeatedWork {
  /// An argument of a kernel that may differ each time: a key of random numbers, a learning rate.
  struct Parameter {
    const void* argument;  ///< where the kernel gets it from; the same each time
    size_t words;          ///< of 8 bytes
    const char* op;        ///< whose argument it is
  };

  /// What else may differ, addresses above all.
  std::span<const uint64_t> signature;
  std::span<const Parameter> parameters;
  /// The words of the parameters in their order, for each step: steps * all their words.
  std::span<const uint64_t> values;
  int steps = 1;
  /// Puts the values of a step (0, 1, ...) where its kernels get them from, and queues it; waits
  /// for nothing. False if it used memory that is not its own for good: it may not be repeated
  /// without being queued anew.
  std::function<bool(int step)> queue;
};

/// What became of repeated work.
struct RepeatedStats {
  int64_t graphs = 0;    ///< that are kept
  int64_t nodes = 0;     ///< kernels, copies and fills in one step of the one used last
  int64_t replayed = 0;  ///< times that a graph was launched
  int64_t renewed = 0;   ///< times that parameters were written for it before
  int64_t queued = 0;    ///< times that the work was queued launch by launch
  std::string why_not;   ///< empty, or what keeps it from being a graph
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

  /// Queues all steps of the work. Devices whose launches cost something take them in one, and a
  /// backend that has met the signature before need not have them queued again (CUDA replays a
  /// graph). The caller keeps `kept` for the backend from one time to the next.
  virtual void launch_as_one(Stream stream, const RepeatedWork& work, std::shared_ptr<void>& kept) {
    (void)stream, (void)kept;
    for (int step = 0; step < work.steps; ++step) (void)work.queue(step);
  }
  /// `kept`: of launch_as_one. All 0 where the backend keeps nothing.
  virtual RepeatedStats repeated(const std::shared_ptr<void>& kept) const {
    (void)kept;
    return {};
  }

  virtual Stream create_stream(int device) = 0;
  virtual void synchronize(Stream stream) = 0;
  virtual void synchronize(int device) = 0;
  /// An event; `timed`: for elapsed_ms, and then not null.
  virtual std::shared_ptr<void> record(Stream stream, bool timed) = 0;
  virtual void wait(const std::shared_ptr<void>& event, Stream stream) = 0;
  /// The same for memory that is to serve again: what the work before the event met is no concern
  /// of the stream's.
  virtual void wait_until_done(const std::shared_ptr<void>& event, Stream stream) {
    wait(event, stream);
  }
  /// False while what is queued on `stream` goes into a graph: it cannot wait for work outside.
  virtual bool may_wait(Stream stream) {
    (void)stream;
    return true;
  }
  /// Throws the deferred errors of kernels of the device, where a backend has them and only who
  /// waits for a stream is told: for who waited for an event and reads what the work before it
  /// made.
  virtual void rethrow_deferred(int device) { (void)device; }
  virtual bool query(const std::shared_ptr<void>& event) = 0;
  virtual void synchronize(const std::shared_ptr<void>& event) = 0;
  /// Between timed events of one device that are complete.
  virtual double elapsed_ms(const std::shared_ptr<void>& begin,
                            const std::shared_ptr<void>& end) = 0;
};

/// The runtime of a kind; one that throws DeviceError ("cuda is not available; ...") if absent.
Runtime& runtime(DeviceKind kind);
/// Backends call this when they are loaded. The runtime lives as long as the process.
void register_runtime(DeviceKind kind, Runtime& runtime);
/// Throws DeviceError naming `device` and how many of its kind there are, or why there are none.
void check_available(Device device);

}  // namespace brim
