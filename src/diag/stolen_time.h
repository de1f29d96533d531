// How long a thread was ready to run and had no core: others had them, or the group's quota was
// used up. Linux counts it (Documentation/scheduler/sched-stats.rst: /proc/<pid>/schedstat).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include <brim/diag/account.h>

namespace brim::diag {

/// Seconds that the thread, or the calling one for 0, has waited for a core so far. Reading them
/// takes some microseconds. Negative where that cannot be read.
double run_delay(int thread = 0);

/// Of the thread that makes it, from then on. Counts are read behind long spans, and what is found
/// belongs to them. What adds up over short ones is taken from what the thread did on a core, in
/// the proportions of that. Of a kernel that several threads work on, it is the mean over them:
/// with that much more time on cores it would have been done so much earlier.
class StolenTime {
 public:
  StolenTime();
  /// What was stolen since the last call, of so many seconds that were charged to `cause`.
  void charge(Cause cause, double seconds);
  /// Moves what was stolen until now to Cause::stolen. Of the kernels, `helped` seconds were taken
  /// off this thread by helpers. Nothing where the system does not count.
  void move(Account& account, double helped) const;

 private:
  double last_;
  std::vector<double> helpers_;  // run delays at first
  std::array<double, kCauseCount> seconds_{};
};

}  // namespace brim::diag
