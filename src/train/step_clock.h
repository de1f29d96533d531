// Times from the start of a step to the start of the next, and their median. Holds the last
// million.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

namespace brim::train {

class StepClock {
 public:
  void start_step() {
    const auto now = Clock::now();
    if (running_) add(now);
    running_ = true;
    last_ = now;
  }
  /// The last step ends here.
  void end() {
    if (running_) add(Clock::now());
    running_ = false;
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
    const float us = std::chrono::duration<float, std::micro>(now - last_).count();
    if (us_.size() < kHeld)
      us_.push_back(us);
    else
      us_[next_++ % kHeld] = us;
  }

  bool running_ = false;
  Clock::time_point last_;
  std::vector<float> us_;
  size_t next_ = 0;
};

}  // namespace brim::train
