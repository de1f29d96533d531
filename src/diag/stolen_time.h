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
  ~StolenTime();
  StolenTime(const StolenTime&) = delete;
  StolenTime& operator=(const StolenTime&) = delete;
  /// What was stolen since the last call, of so many seconds that were charged to `cause`.
  double charge(Cause cause, double seconds);
  /// Adds what an inner account of the thread, which ends, has found.
  void absorb(const StolenTime& inner);
  /// At the end of a kernel the thread begins to wait for its helpers.
  void begin_wait();
  /// The kernel is done. The thread waited for its helpers so many seconds (0 without
  /// begin_wait()), and before that had worked alone so many, as they had nothing left: as far as
  /// those that were waited for had no core, that is stolen from all `threads`.
  void end_wait(double waited, double alone, int threads);
  /// Seconds that threads of a kernel may end apart where all have a core, or that to ask about is
  /// a part of.
  double patience() const;
  /// Moves what was stolen until now to Cause::stolen. Of the kernels, `helped` seconds were taken
  /// off this thread by helpers. Nothing where the system does not count.
  void move(Account& account, double helped) const;

 private:
  const int thread_;
  // Run delays of this thread: when charge(), begin_wait() and end_wait() were last.
  double last_, waits_ = 0, late_;
  double on_core_;                                    // when charge() was last
  double before_ = 0;                                 // stolen from short spans
  std::vector<double> helpers_waits_, helpers_late_;  // and of each helper
  double helpers_ = 0;       // what helpers were stolen for this thread before
  double late_seconds_ = 0;  // of kernels, because of threads without a core
  std::array<double, kCauseCount> seconds_{};
};

}  // namespace brim::diag
