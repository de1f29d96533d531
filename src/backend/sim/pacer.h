// How long work takes on the device that a profile describes (roofline: the longer of arithmetic
// and memory), how warm the device gets and what energy it takes. Heat and energy are those of the
// device that is played: where a slowdown stretches its times, theirs pass more slowly, too.
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
    Clock::time_point begin, end;
    double throttled = 0;        ///< seconds of it that a cool device would have spared
    Clock::time_point reserved;  ///< when this machine began the work
  };
  /// Takes the work's engine from when the work was `ready`, or the engine is free, until the work
  /// is done. Both may be past: a thread that wakes up late is no reason for a device to be late,
  /// up to kMostLate. `scoped`: an account charges it to a scope, so it is no part of Sums::worked.
  Slot reserve(const Work& work, Clock::time_point ready, bool scoped = false);
  Slot reserve(const Work& work) { return reserve(work, Clock::now()); }
  /// The same work was computed. Returns when the device is done with it: at the slot's end, or
  /// later where computing took this machine longer.
  Clock::time_point computed(const Work& work, const Slot& slot, bool scoped);
  /// Seconds of the host's time that queueing takes.
  double launch_seconds() const;
  /// Seconds that the work takes by itself; 0 without a profile.
  double estimate(const Work& work) const;
  SimReadings readings();

  /// What the device did since this was made. Nothing is sampled: each change is added up when it
  /// comes.
  struct Sums {
    double seconds = 0;   ///< of this machine's clock
    double played = 0;    ///< seconds of the device that is played
    double computed = 0;  ///< of `seconds`: the compute engine worked
    double worked = 0;    ///< of `seconds`: any engine did, without what heat has added
    double energy = 0;    ///< joules; 0 without a profile
  };
  Sums sums();
  /// What is paced by a profile draws power.
  bool draws_power() const;

 private:
  /// When something works: until a time that is known, and while work runs on this machine.
  struct Busy {
    int running = 0;
    Clock::time_point until{};
    Clock::time_point end(Clock::time_point from, Clock::time_point now) const;
  };
  double seconds(const Work& work) const;
  /// Adds up what happened since the last call.
  void advance(Clock::time_point now);
  /// Of work that began before that was added up as idle time.
  void add_past(const Slot& slot, bool computes, bool scoped);

  mutable std::mutex mutex_;
  std::optional<DeviceProfile> profile_;
  double slowdown_ = 1;
  bool paced_ = true;
  std::array<Clock::time_point, kEngineCount> free_at_{};
  double temperature_ = 0;
  Clock::time_point advanced_to_ = Clock::now();
  Busy compute_;  // that engine, for the power it draws
  Busy work_;     // any engine, with what no scope was charged for
  Sums sums_;
};

/// How late work may begin after it could have, before the device is taken to have been late. What
/// computes on time within it keeps the pace of its profile, however late threads wake up.
inline constexpr std::chrono::milliseconds kMostLate{4};

/// Sleeps until `end`, to within some microseconds.
void sleep_until(Pacer::Clock::time_point end);

}  // namespace brim::sim
