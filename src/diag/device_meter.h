// The account of one device. Each instant is charged once: to compute while any kernel runs, else
// to communication, else to a copy, and when nothing runs to what the next piece of work had to
// wait for.
//
// A device whose streams are threads of ours (sim) calls begin_at() and end_at() while it works.
// The work of a real one is seen afterwards, in records that a RecordSource gets; these are put in
// order of time and told to the same functions (record_replay.h), so the rules stand in one place.
// Such a meter is behind the present, and up to date only when read() has collected. It may pause,
// as records cost the host something: see pause().
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>

#include <brim/core/device.h>
#include <brim/diag/detail.h>

#include "diag/host_timeline.h"

namespace brim::diag {

/// Why work begins no earlier than it does.
struct Reason {
  uint64_t queued = 0;          ///< when the host queued it
  Cause waited = Cause::other;  ///< what another device's event held it up for; other: nothing
  Cause scope = Cause::other;   ///< the scope that it was queued in; other: none
  int thread = 0;               ///< that queued it (gettid); 0: whichever measured last

  /// What the work itself is charged to.
  Cause charged(Cause work) const { return scope == Cause::other ? work : scope; }
};

/// Gets the records of devices whose work cannot be watched while it runs.
class RecordSource {
 public:
  virtual ~RecordSource() = default;
  /// Records what the device does from now on. It is idle.
  virtual void start(int device, Detail detail) = 0;
  /// Records it in another detail from now on. It is idle.
  virtual void change(int device, Detail detail) = 0;
  virtual void stop(int device) = 0;
  /// Tells the device's meter all that was recorded. The device is idle. Where others of its kind
  /// work, some of the latest may be told by a later call.
  virtual void collect(int device) = 0;
  /// Tells it what is certain by now. The device may work, and any thread may ask.
  virtual void advance(int device) = 0;
  /// How many records of work, and of calls that queued it, were taken so far, of all devices.
  virtual int64_t taken() const = 0;
};

/// From now on `source` sees what devices of `kind` do. It lives as long as the process.
void set_record_source(DeviceKind kind, RecordSource& source);

class DeviceMeter {
 public:
  /// The meter of `device`; null unless it is being measured. A backend asks before each report.
  static DeviceMeter* active(Device device);
  /// The meter of `device`, measuring or not. Lives as long as the process.
  static DeviceMeter& of(Device device);

  /// Measures until as many stop()s as start()s were called, with the same details; nodes, while
  /// anyone wants them. The device is idle at the first one.
  /// Returns what read() says now: the difference to later ones is what was measured since.
  Shares start(Detail detail = Detail::graphs);
  void stop(Detail detail = Detail::graphs);

  bool has_records() const { return source() != nullptr; }
  int64_t records_taken() const { return has_records() ? source()->taken() : 0; }
  /// From now on, until resume(), no records are taken, and the device's work is not seen. read()
  /// charges this time in the proportions of what is recorded after the first pause; while nothing
  /// was yet, it does not charge it. Nothing happens where there are no records, where a second
  /// user measures, or one wants nodes. The device is idle; for the thread that measures.
  void pause();
  void resume();
  bool is_paused() const { return paused_at_.load(std::memory_order_relaxed) != 0; }
  /// Ticks in pauses since the first start().
  uint64_t unrecorded() const;

  /// Called by the host when it queues work.
  static Reason queue_now();
  /// Called when work begins and ends, with what it is charged to.
  void begin(Cause cause, const Reason& reason) { begin_at(0, cause, reason); }
  void end(Cause cause) { end_at(0, cause); }
  /// The same for work of the past, told in the order of time. `throttled`: ticks of it that a cool
  /// device would have spared.
  void begin_at(uint64_t now, Cause cause, const Reason& reason);
  void end_at(uint64_t now, Cause cause, uint64_t throttled = 0);
  /// Since when nothing runs; 0 while something does.
  uint64_t idle_since() const { return idle_since_.load(std::memory_order_acquire); }

  /// A share, at most 1, that lowered clocks have added to the compute time between the last call
  /// (or the start) and tick `at`; 0: now. It counts for what was told and for what will be told of
  /// that time, and in read() for what came after it, until the next call says better.
  void throttled(double share, uint64_t at = 0);
  /// Has the source tell what it knows; read() and stop() do that first.
  void collect() const;
  /// Has the source tell what is certain by now, for those who must not wait for the device.
  void advance() const;

  /// Ticks by cause since the process began to measure. What is not known is `other`.
  Shares read() const;
  /// The same up to a tick, while the device may work.
  struct SoFar {
    Shares shares;
    uint64_t until = 0;
  };
  SoFar read_so_far() const;

 private:
  /// What throttled() said of the time from the slowdown before until this one.
  struct Slowdown {
    uint64_t until = 0;
    double share = 0;
  };
  void charge_until(uint64_t now);
  /// Has the slowdowns take their shares of compute that was charged from `from` to `to`.
  void rate(uint64_t from, uint64_t to);
  /// Moves `share` of these ticks of compute to throttle.
  static void slow_down(Shares& shares, uint64_t compute, double share);
  Device device() const;
  Detail detail() const { return users_of_nodes_ > 0 ? Detail::nodes : Detail::graphs; }
  RecordSource* source() const;
  void resume_paused();
  /// What nobody has explained since the device ran dry, until `now`.
  Shares idle_until(uint64_t now) const;
  /// What runs, from when it was charged until `now`.
  Shares busy_until(uint64_t now) const;
  /// `charged`, and what pauses until `now` are taken to have been.
  Shares with_pauses(Shares charged, uint64_t now) const;
  uint64_t unrecorded_until(uint64_t now) const;

  // Read whenever work is queued, and apart from what streams write all the time.
  alignas(64) std::atomic<bool> measuring_{false};
  std::mutex users_mutex_;  // while the measuring begins and ends
  alignas(64) mutable std::mutex mutex_;
  std::atomic<uint64_t> idle_since_{0};  // 0: busy
  int users_ = 0, users_of_nodes_ = 0;
  Shares shares_{};
  std::array<int, kCauseCount> running_{};
  int all_running_ = 0;
  uint64_t charged_until_ = 0;
  std::atomic<uint64_t> paused_at_{0};  // 0: no pause
  bool was_paused_ = false;
  uint64_t in_pauses_ = 0;                    // ticks, without the pause that goes on
  uint64_t resumed_at_ = 0, in_windows_ = 0;  // ticks recorded after the first pause
  Shares before_pauses_{};                    // what was charged by then
  std::deque<Slowdown> slowdowns_;            // of times not told in full yet; the oldest first
  uint64_t unrated_ = 0;                      // ticks of compute after the last slowdown
  double slowed_ = 0;                         // by the last slowdown
};

}  // namespace brim::diag
