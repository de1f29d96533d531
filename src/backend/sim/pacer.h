// How long work takes on the device that a profile describes (roofline: the longer of arithmetic
// and memory), and how warm the device gets.
#pragma once

#include <array>
#include <chrono>
#include <mutex>
#include <optional>

#include <brim/core/sim.h>

#include "backend/sim/profile.h"
#include "backend/sim/work.h"

namespace brim::sim {

class Pacer {
 public:
  using Clock = std::chrono::steady_clock;

  /// Without a profile nothing is paced, nor if not `paced`: then it is for estimate() alone.
  void set(const std::optional<DeviceProfile>& profile, double slowdown, bool paced = true);

  struct Slot {
    Clock::time_point end;  ///< when the work is done
    double throttled = 0;   ///< seconds of it that a cool device would have spared
  };
  /// Takes the work's engine from now, or from when it is free, until the work is done.
  Slot reserve(const Work& work);
  /// Seconds of the host's time that queueing takes.
  double launch_seconds() const;
  /// Seconds that the work takes by itself; 0 without a profile.
  double estimate(const Work& work) const;
  SimReadings readings();

 private:
  double seconds(const Work& work) const;
  void warm_up(Clock::time_point now);

  mutable std::mutex mutex_;
  std::optional<DeviceProfile> profile_;
  double slowdown_ = 1;
  bool paced_ = true;
  std::array<Clock::time_point, kEngineCount> free_at_{};
  double temperature_ = 0;
  Clock::time_point warmed_at_{};
  Clock::time_point busy_until_{};  // of the compute engine, for the power it draws
};

/// Sleeps until `end`, to within some microseconds. Returns by how many seconds it is over; nothing
/// if there was nothing to wait for.
std::optional<double> sleep_until(Pacer::Clock::time_point end);

}  // namespace brim::sim
