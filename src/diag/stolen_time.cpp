#include "diag/stolen_time.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "diag/span.h"

namespace brim::diag {
namespace {

/// Seconds in which this thread waited in a run queue; `before` where that cannot be read.
double run_delay(double before) {
  const int file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  if (file < 0) return before;
  char text[96] = {};  // nanoseconds on a core, in a queue, and how often it was given one
  const ssize_t size = read(file, text, sizeof(text) - 1);
  close(file);
  if (size <= 0) return before;
  char* end = text;
  (void)std::strtoull(text, &end, 10);
  return static_cast<double>(std::strtoull(end, nullptr, 10)) * 1e-9;
}

/// What a thread does on a core. Its waits may end late as well, but are mostly waits.
constexpr Cause kOnCore[] = {Cause::compute,    Cause::staging,   Cause::dispatch,
                             Cause::user,       Cause::allocator, Cause::compile,
                             Cause::checkpoint, Cause::evaluation};

}  // namespace

StolenTime::StolenTime() : last_(run_delay(0)) {}

void StolenTime::charge(Cause cause, double seconds) {
  const double now = run_delay(last_);
  seconds_[static_cast<size_t>(cause)] += std::clamp(now - last_, 0.0, seconds);
  last_ = now;
}

void StolenTime::move(Account& account) const {
  double& stolen = account.seconds[static_cast<size_t>(Cause::stolen)];
  const auto take = [&](Cause cause, double seconds) {
    double& from = account.seconds[static_cast<size_t>(cause)];
    const double part = std::min(seconds, from);
    from -= part;
    stolen += part;
  };
  for (size_t i = 0; i < kCauseCount; ++i) take(static_cast<Cause>(i), seconds_[i]);
  double on_core = 0;
  for (const Cause cause : kOnCore) on_core += account.seconds[static_cast<size_t>(cause)];
  const double rest = run_delay(last_) - last_;
  if (rest <= 0 || on_core <= 0) return;
  for (const Cause cause : kOnCore)
    take(cause, rest * account.seconds[static_cast<size_t>(cause)] / on_core);
}

void charge_stolen(StolenTime& stolen, Cause cause, uint64_t ticks) {
  stolen.charge(cause, static_cast<double>(ticks) / ticks_per_us() * 1e-6);
}

}  // namespace brim::diag
