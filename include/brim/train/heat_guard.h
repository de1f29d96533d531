// Keeps devices from getting too hot: a training waits between two steps while one of them is.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include <brim/core/device.h>
#include <brim/diag/monitor.h>

namespace brim::train {

/// Options of HeatGuard.
struct HeatGuardOptions {
  double limit = 85;  ///< degrees Celsius: from there on the training waits, until 3 degrees below
  double period = 1;  ///< seconds between two readings, as MonitorOptions has them
};

/// Of the devices of this process, for TrainOptions::heat. A device whose sensor stops answering is
/// told once and no longer waited for, until it answers again.
class HeatGuard {
 public:
  /// Throws ValueError for a limit that is no temperature.
  explicit HeatGuard(HeatGuardOptions options);

  /// What a diag::Monitor's sink is told; for any thread.
  void add(const diag::Reading& reading);

  /// Whether wait() has anything to do. A load, for each step.
  bool calls() const { return calls_.load(std::memory_order_relaxed); }
  bool hot() const;  ///< whether some device is above the limit now
  /// How wait() waits.
  struct Waiting {
    std::function<bool()> stop = {};                         ///< asked some twenty times a second
    std::function<void(double seconds)> paused = {};         ///< told as often: how long by now
    std::function<void(const std::string& line)> warn = {};  ///< null: another thread tells, if any
  };
  /// Returns at once, or when all are cool, their sensors no longer answer, or stop() says so.
  void wait(const Waiting& how);

  int64_t pauses() const;  ///< that have begun
  double seconds() const;  ///< in all pauses that have ended

 private:
  using Clock = std::chrono::steady_clock;
  struct Sensor {
    Device device;
    double temperature = 0;
    bool answers = true, was_told = false;
  };
  void judge();
  void add_line(std::string line);
  void tell(const Waiting& how, std::unique_lock<std::mutex>& lock);
  const Sensor* hottest() const;

  const HeatGuardOptions options_;
  std::atomic<bool> calls_{false};  // hot, or there are lines to tell
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Sensor> sensors_;
  std::vector<std::string> lines_;
  bool told_ = false;  // somebody takes the lines
  bool hot_ = false;
  Clock::time_point read_at_;
  int waiting_ = 0;  // threads
  Clock::time_point paused_at_;
  int64_t pauses_ = 0;
  double seconds_ = 0;
};

}  // namespace brim::train
