// How long a thread was ready to run and had no core: others had them, or the group's quota was
// used up. Linux counts it (Documentation/scheduler/sched-stats.rst: /proc/<pid>/schedstat).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include <brim/diag/account.h>

namespace brim::diag {

/// Of the thread that makes it, from then on. Counts are read behind long spans, and what is found
/// belongs to them. What adds up over short ones is taken from what the thread did on a core, in
/// the proportions of that. Of a kernel that several threads work on, it is the mean over them:
/// with that much more time on cores it would have been done so much earlier.
class StolenTime {
 public:
  StolenTime();
  /// What was stolen since the last call, of so many seconds that were charged to `cause`.
  void charge(Cause cause, double seconds);
  /// At the end of a kernel the thread waited for its helpers, or they for it, so many seconds: as
  /// far as those that were waited for had no core, that is stolen from all of them. `delay`: the
  /// thread's run_delay() when it began to wait; negative if it did not.
  void charge_late(double waited, double alone, double delay, int threads);
  /// Moves what was stolen until now to Cause::stolen. Of the kernels, `helped` seconds were taken
  /// off this thread by helpers. Nothing where the system does not count.
  void move(Account& account, double helped) const;

 private:
  double last_;
  std::vector<double> helpers_;       // run delays at first
  double late_ = 0;                   // of kernels, because of threads without a core
  double own_late_;                   // the run delay when charge_late() was last
  std::vector<double> helpers_late_;  // and those of helpers
  std::array<double, kCauseCount> seconds_{};
};

}  // namespace brim::diag
