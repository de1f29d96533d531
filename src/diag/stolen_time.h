// How long a thread was ready to run and had no core: others had them, or the group's quota was
// used up. Linux counts it (Documentation/scheduler/sched-stats.rst: /proc/<pid>/schedstat).
#pragma once

#include <array>
#include <cstdint>

#include <brim/diag/account.h>

namespace brim::diag {

/// Of the thread that makes it, from then on. Reading the count takes some microseconds: it is read
/// behind long spans, and what is found belongs to them. What adds up over short ones is taken
/// from what the thread did on a core, in the proportions of that.
class StolenTime {
 public:
  StolenTime();
  /// What was stolen since the last call, of so many seconds that were charged to `cause`.
  void charge(Cause cause, double seconds);
  /// Moves what was stolen until now to Cause::stolen. Nothing where the kernel does not count.
  void move(Account& account) const;

 private:
  double last_;
  std::array<double, kCauseCount> seconds_{};
};

}  // namespace brim::diag
