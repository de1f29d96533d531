// Where a worker's time goes, by ticks (diag/span.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include <brim/data/worker_account.h>

#include "diag/span.h"

namespace brim::data {

struct WorkerTicks {
  uint64_t wall = 0, read = 0, decode = 0, augment = 0, slot = 0;
  double stolen = 0;  ///< seconds, which the others still hold

  WorkerTicks& operator+=(const WorkerTicks& other);
  /// What is left of `wall` is idle.
  WorkerAccount account() const;
};

/// What one worker does, from its start on. `begin` is when that was asked for.
class WorkerClock {
 public:
  explicit WorkerClock(uint64_t begin)
      : last_(begin), delay_(diag::run_delay(0, diag::kUnknownDelay)) {}

  /// Since the last call it waited for a slot, or was idle.
  void waited(bool for_slot) {
    const uint64_t passed = pass();
    if (for_slot) ticks_.slot += passed;
  }
  /// Since then it made a batch, and so long were these parts of that; the rest was augmenting.
  void made(uint64_t read, uint64_t decode, uint64_t copies) {
    const uint64_t passed = pass();
    ticks_.read += read;
    ticks_.decode += decode;
    ticks_.slot += copies;
    ticks_.augment += passed - std::min(passed, read + decode + copies);
    unread_ += passed;
    if (unread_ >= kUnread) read_delay();
  }
  /// What came since the last call.
  WorkerTicks take() { return std::exchange(ticks_, {}); }
  /// Before the last take().
  void read_delay();

 private:
  static constexpr uint64_t kUnread = 4'000'000;  // some 2 ms: reading the delay takes 4 us

  uint64_t pass() {
    const uint64_t now = diag::ticks();
    return now - std::exchange(last_, now);
  }

  WorkerTicks ticks_;
  uint64_t last_;
  uint64_t unread_ = 0;  // of making batches, since the delay was read
  double delay_;
};

}  // namespace brim::data
