#include "backend/sim/pacer.h"

#include <algorithm>
#include <thread>

namespace brim::sim {
namespace {

using Seconds = std::chrono::duration<double>;

Pacer::Clock::duration to_clock(double seconds) {
  return std::chrono::duration_cast<Pacer::Clock::duration>(Seconds(seconds));
}

}  // namespace

void Pacer::set(const std::optional<DeviceProfile>& profile, double slowdown, bool paced) {
  const std::lock_guard lock(mutex_);
  profile_ = profile;
  slowdown_ = slowdown;
  paced_ = paced;
  free_at_ = {};
  temperature_ = profile ? profile->ambient + profile->warmth * profile->idle_power : 0;
  warmed_at_ = Clock::now();
  busy_until_ = warmed_at_;
}

double Pacer::seconds(const Work& work) const {
  const DeviceProfile& p = *profile_;
  switch (work.engine) {
    case Engine::compute:
      return std::max(
          {p.kernel, work.operations / p.peak_of(work.dtype), work.bytes / p.bandwidth});
    case Engine::copy_in:
    case Engine::copy_out:
      return p.link_delay + work.bytes / p.host_link;
    case Engine::peer:
      return p.link_delay + work.bytes / p.peer_link;
  }
  __builtin_unreachable();
}

void Pacer::warm_up(Clock::time_point now) {
  const auto heat = [&](Clock::time_point until, double power) {
    if (until <= warmed_at_) return;
    const double passed = Seconds(until - warmed_at_).count() / slowdown_;
    temperature_ = profile_->heated(temperature_, power, passed);
    warmed_at_ = until;
  };
  heat(std::min(now, busy_until_), profile_->peak_power);
  heat(now, profile_->idle_power);
}

Pacer::Slot Pacer::reserve(const Work& work) {
  const std::lock_guard lock(mutex_);
  if (!profile_ || !paced_) return {};
  const Clock::time_point now = Clock::now();
  warm_up(now);
  const double full = seconds(work) * slowdown_;
  double needed = full;
  if (work.engine == Engine::compute && temperature_ > profile_->throttle_at)
    needed /= profile_->throttle_clock;
  Clock::time_point& free_at = free_at_[static_cast<size_t>(work.engine)];
  free_at = std::max(now, free_at) + to_clock(needed);
  if (work.engine == Engine::compute) busy_until_ = free_at;
  return {free_at, needed - full};
}

double Pacer::launch_seconds() const {
  const std::lock_guard lock(mutex_);
  return profile_ && paced_ ? profile_->launch * slowdown_ : 0;
}

double Pacer::estimate(const Work& work) const {
  const std::lock_guard lock(mutex_);
  return profile_ ? seconds(work) * slowdown_ : 0;
}

SimReadings Pacer::readings() {
  const std::lock_guard lock(mutex_);
  if (!profile_) return {};
  const Clock::time_point now = Clock::now();
  warm_up(now);
  return {.temperature = temperature_,
          .power = now < busy_until_ ? profile_->peak_power : profile_->idle_power,
          .clock = temperature_ > profile_->throttle_at ? profile_->throttle_clock : 1};
}

std::optional<double> sleep_until(Pacer::Clock::time_point end) {
  constexpr auto kOversleep = std::chrono::microseconds(60);  // what the system's timer needs
  auto now = Pacer::Clock::now();
  if (now >= end) return {};
  if (end > now + kOversleep) std::this_thread::sleep_until(end - kOversleep);
  while ((now = Pacer::Clock::now()) < end) std::this_thread::yield();
  return Seconds(now - end).count();
}

}  // namespace brim::sim
