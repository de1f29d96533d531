#include "train/doctor/stopwatch.h"

#include <brim/core/stream.h>

#include <algorithm>
#include <utility>

namespace brim::train {
namespace {

// Of training, until it is measured: batches that were made ahead are gone by then, and a graph was
// launched twice.
constexpr int64_t kLeastWarmSteps = 8;
constexpr double kMostWarmTimes = 4;  // of the measured time, where steps take long
constexpr int64_t kLeastSteps = 4;    // that are measured

template <class TimePoint>
double passed(TimePoint from, TimePoint to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

Stopwatch::Stopwatch(double seconds, Device device, std::function<diag::Account()> account)
    : seconds_(seconds), device_(device), account_(std::move(account)) {}

Stopwatch::Clock::time_point Stopwatch::finished() const {
  synchronize(device_);
  return Clock::now();
}

bool Stopwatch::look(int64_t step, int64_t slots, int64_t steps_per_launch) {
  const Clock::time_point now = Clock::now();
  if (first_ == Clock::time_point()) first_ = now;
  if (!began_) {
    const int64_t warm = std::max({kLeastWarmSteps, 2 * slots + 2, 2 * steps_per_launch});
    const bool is_long = passed(first_, now) > kMostWarmTimes * seconds_ && step >= 2;
    if (step < warm && !is_long) return false;
    began_ = true;
    begin_ = finished();
    first_step_ = step;
    return false;
  }
  const double took = passed(begin_, now);
  const int64_t steps = step - first_step_;
  // The device had nothing queued at the beginning, which is no cause of the training's.
  if (before_.wall == 0) {
    if (took >= 2 * kTick || steps >= kLeastSteps / 2) before_ = account_();
    return false;
  }
  if (took < seconds_ || steps < kLeastSteps) return false;
  diag::Account account = account_();
  if (account.wall <= before_.wall) return false;
  run_.steps = steps;
  run_.seconds_per_step = passed(begin_, finished()) / static_cast<double>(steps);
  account.wall -= before_.wall;
  for (size_t i = 0; i < before_.seconds.size(); ++i)
    account.seconds[i] = std::max(account.seconds[i] - before_.seconds[i], 0.0);
  run_.account = account;
  return true;
}

}  // namespace brim::train
