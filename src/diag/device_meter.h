// The account of one device, kept while it works. Each instant is charged once: to compute while
// any kernel runs, else to communication, else to a copy, and when nothing runs to what the next
// piece of work had to wait for.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include <brim/core/device.h>

#include "diag/host_timeline.h"

namespace brim::diag {

/// Why work begins no earlier than it does.
struct Reason {
  uint64_t queued = 0;          ///< when the host queued it
  Cause waited = Cause::other;  ///< what made the event that its stream waited for; other: none
  Shares host{};                ///< what the host did since the device ran dry, if it was then idle
};

class DeviceMeter {
 public:
  /// The meter of `device`; null unless it is being measured. A backend asks before each report.
  static DeviceMeter* active(Device device);
  /// The meter of `device`, measuring or not. Lives as long as the process.
  static DeviceMeter& of(Device device);

  /// Measures until as many stop()s as start()s were called. The device is idle at the first one.
  /// Returns what read() says now: the difference to later ones is what was measured since.
  Shares start();
  void stop();

  /// Called by the host when it queues work.
  Reason queue_now() const;
  /// Called by the device's streams. `throttled`: ticks of the work that a cool device would have
  /// spared.
  void begin(Cause cause, const Reason& reason);
  void end(Cause cause, uint64_t throttled = 0);

  /// Ticks by cause since the process began to measure. What is not known is `other`.
  Shares read() const;

 private:
  static int place_of(Cause cause);
  void charge_until(uint64_t now);

  std::atomic<bool> measuring_{false};
  std::atomic<uint64_t> idle_since_{0};  // 0: busy
  mutable std::mutex mutex_;
  int users_ = 0;
  Shares shares_{};
  int running_[3] = {};  // compute, communication, copy
  uint64_t charged_until_ = 0;
};

}  // namespace brim::diag
