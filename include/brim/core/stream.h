// Streams order the work of one device; events mark points in that order. On the CPU work is done
// when the call returns, so its streams are always idle and its events always complete.
#pragma once

#include <cstdint>
#include <memory>

#include <brim/core/device.h>

namespace brim {

/// A queue of work on one device. Id 0 is the device's default stream. A value: copying is free.
struct Stream {
  Device device;   ///< that it queues work on
  int32_t id = 0;  ///< which of the device's streams; 0 is the one that is there from the start

  /// The stream that ops on `device` use in this thread.
  static Stream current(Device device);
  /// A new stream, or on virtual accelerators, after 32 of them, one of these again: two that look
  /// independent may then be in one order. Throws DeviceError when the device is missing.
  static Stream create(Device device);

  /// Waits on the host until all work queued here is done.
  void synchronize() const;
  friend bool operator==(const Stream&, const Stream&) = default;  ///< whether all parts are equal
};

/// Makes `stream` the current one of its device in this thread, until the guard's end.
class StreamGuard {
 public:
  explicit StreamGuard(Stream stream);  ///< until the end of the guard
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  Stream previous_;
};

/// Options of Event.
struct EventOptions {
  bool timed = false;  ///< notes when the device came to it, for elapsed_ms()
};

/// A point in a stream's order. Nothing recorded: always complete. Copies share what was recorded.
class Event {
 public:
  Event() = default;
  explicit Event(const EventOptions& options) : options_(options) {}  ///< with these options
  /// From now on stands for what is queued on `stream` by now.
  void record(const Stream& stream);
  /// Work queued on `stream` after this call starts only when the event is complete.
  void wait(const Stream& stream) const;
  bool query() const;  ///< true when complete
  /// Waits on the host. Throws what the work before it met.
  void synchronize() const;
  /// Milliseconds from this event to `end` by the device's own clock, negative if `end` came first.
  /// Waits on the host for both. Throws ValueError unless both are timed and were recorded on one
  /// device, and what the work before them met.
  double elapsed_ms(const Event& end) const;

 private:
  EventOptions options_;
  std::shared_ptr<void> handle_;
  Device device_;
};

/// Waits on the host until all work of the device is done.
void synchronize(Device device);

}  // namespace brim
