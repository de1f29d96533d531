// Profiles some steps after each report, so that what it costs is not felt.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include <brim/diag/op_profile.h>

namespace brim::train {

class OpWindows {
 public:
  static constexpr int64_t kSteps = 16;             ///< that a window has
  static constexpr int64_t kApart = 10 * kSteps;    ///< from one window to the next, at least
  static constexpr std::chrono::seconds kPause{1};  ///< the same; of short steps the greater one

  /// Off: nothing is profiled.
  OpWindows(bool on, Device device) {
    if (on) profile_.emplace(device);
  }

  /// So many steps were queued so far. `reported`: and the last one's loss was read.
  void moved_on(int64_t steps, bool reported) {
    if (!profile_) return;
    const bool is_new = opened_ < 0;  // the first step makes the plan, and is not measured
    if (is_new || (reported && steps - opened_ >= kApart && Clock::now() - opened_at_ >= kPause)) {
      profile_->start();
      opened_ = steps;
      opened_at_ = Clock::now();
    } else if (steps - opened_ >= kSteps) {
      profile_->stop();
    }
  }
  void end() {
    if (profile_) profile_->stop();
  }

  std::vector<diag::OpTime> read() const {
    return profile_ ? profile_->read() : std::vector<diag::OpTime>();
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::optional<diag::OpProfile> profile_;
  int64_t opened_ = -1;  // steps at the beginning of the newest window
  Clock::time_point opened_at_;
};

}  // namespace brim::train
