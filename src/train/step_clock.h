// Times from the start of a step to the start of the next, and their median. Holds the last
// million.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

namespace brim::train {

class StepClock {
 public:
  /// `count` steps start, as one launch: each counts as that part of the time to the next start.
  void start_steps(int64_t count) {
    const auto now = Clock::now();
    if (steps_ > 0) add(now);
    steps_ = count;
    last_ = now;
  }
  /// The last step ends here.
  void end() {
    if (steps_ > 0) add(Clock::now());
    steps_ = 0;
  }
  /// 0 when there was no step.
  double median_us() const {
    if (us_.empty()) return 0;
    std::vector<float> sorted = us_;
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    return *middle;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kHeld = 1 << 20;

  void add(Clock::time_point now) {
    const float us =
        std::chrono::duration<float, std::micro>(now - last_).count() / static_cast<float>(steps_);
    for (int64_t i = 0; i < steps_; ++i)
      if (us_.size() < kHeld)
        us_.push_back(us);
      else
        us_[next_++ % kHeld] = us;
  }

  int64_t steps_ = 0;  // that run; 0 before the first
  Clock::time_point last_;
  std::vector<float> us_;
  size_t next_ = 0;
};

}  // namespace brim::train
