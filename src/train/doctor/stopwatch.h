// Measures a training from within its thread, once its queues are full.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include <brim/core/device.h>
#include <brim/diag/account.h>

#include "train/doctor/short_run.h"

namespace brim::train {

constexpr double kTick = 0.01;         // seconds between looks at the clock
constexpr int64_t kRecordsEvery = 16;  // steps after which a CUDA device's records are asked for

class Stopwatch {
 public:
  /// `account`: of the device so far; asked for a few times.
  Stopwatch(double seconds, Device device, std::function<diag::Account()> account);

  /// After `step` steps. What was made ahead before the training is measured: `slots` batches of
  /// the loader, and a launch of so many steps. Whether all was measured.
  bool look(int64_t step, int64_t slots, int64_t steps_per_launch);

  /// Its steps, seconds_per_step and account.
  const ShortRun& run() const { return run_; }

 private:
  using Clock = std::chrono::steady_clock;
  /// What was queued is done: the host may be a thousand launches ahead. Of this thread's device
  /// alone; another one's work may wait for what this thread has yet to queue.
  Clock::time_point finished() const;

  const double seconds_;
  const Device device_;
  const std::function<diag::Account()> account_;
  bool began_ = false;
  Clock::time_point first_, begin_;
  int64_t first_step_ = 0;
  diag::Account before_;
  ShortRun run_;
};

}  // namespace brim::train
