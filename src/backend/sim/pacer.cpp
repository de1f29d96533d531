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
  advance(Clock::now());
  profile_ = profile;
  slowdown_ = slowdown;
  paced_ = paced;
  free_at_ = {};
  temperature_ = profile ? profile->ambient + profile->warmth * profile->idle_power : 0;
  compute_.until = work_.until = advanced_to_;
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

Pacer::Clock::time_point Pacer::Busy::end(Clock::time_point from, Clock::time_point now) const {
  return running > 0 ? now : std::clamp(until, from, now);
}

void Pacer::advance(Clock::time_point now) {
  const Clock::time_point from = advanced_to_;
  if (now <= from) return;
  advanced_to_ = now;
  const Clock::time_point computed = compute_.end(from, now);
  sums_.seconds += Seconds(now - from).count();
  sums_.computed += Seconds(computed - from).count();
  sums_.worked += Seconds(work_.end(from, now) - from).count();
  sums_.played += Seconds(now - from).count() / slowdown_;
  if (!profile_ || !paced_) return;
  const auto draw = [&](double power, Clock::duration time) {
    const double played = Seconds(time).count() / slowdown_;
    temperature_ = profile_->heated(temperature_, power, played);
    sums_.energy += power * played;
  };
  draw(profile_->peak_power, computed - from);
  draw(profile_->idle_power, now - computed);
}

Pacer::Slot Pacer::reserve(const Work& work, Clock::time_point ready, bool scoped) {
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  const bool computes = work.engine == Engine::compute;
  Slot slot{.begin = now, .end = now, .reserved = now};
  if (!profile_ || !paced_) {
    advance(now);
  } else {
    Clock::time_point& free_at = free_at_[static_cast<size_t>(work.engine)];
    const Clock::time_point begin = std::max(ready, free_at);
    slot.begin = begin + kMostLate < now ? now : begin;
    advance(std::min(slot.begin, now));
    const double full = seconds(work) * slowdown_;
    double needed = full;
    if (computes && temperature_ > profile_->throttle_at) needed /= profile_->throttle_clock;
    slot.throttled = needed - full;
    slot.end = free_at = slot.begin + to_clock(needed);
    add_past(slot, computes, scoped);
    if (computes) compute_.until = free_at;
    if (!scoped) {
      work_.until = std::max(work_.until, free_at);
      sums_.worked -= slot.throttled;
    }
  }
  if (computes) ++compute_.running;
  if (!scoped) ++work_.running;
  return slot;
}

void Pacer::add_past(const Slot& slot, bool computes, bool scoped) {
  const auto past = [&](const Busy& busy) {
    if (busy.running > 0) return 0.0;
    const Clock::time_point from = std::max(slot.begin, busy.until);
    return std::max(Seconds(std::min(slot.end, advanced_to_) - from).count(), 0.0);
  };
  if (!scoped) sums_.worked += past(work_);
  if (!computes) return;
  const double seconds = past(compute_);
  sums_.computed += seconds;
  sums_.energy += (profile_->peak_power - profile_->idle_power) * seconds / slowdown_;
}

Pacer::Clock::time_point Pacer::computed(const Work& work, const Slot& slot, bool scoped) {
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  const bool computes = work.engine == Engine::compute;
  const bool is_paced = profile_ && paced_;
  // What comes from other ranks does not come before they send it.
  const bool computes_here = work.cause() != diag::Cause::communication;
  const Clock::time_point begin =
      computes_here ? std::min(slot.begin, slot.reserved) : slot.reserved;
  const Clock::time_point end = is_paced ? std::max(slot.end, begin + (now - slot.reserved)) : now;
  advance(std::min(end, now));
  if (computes) --compute_.running;
  if (!scoped) --work_.running;
  if (!is_paced) return end;
  Clock::time_point& free_at = free_at_[static_cast<size_t>(work.engine)];
  free_at = std::max(free_at, end);
  if (computes) compute_.until = std::max(compute_.until, end);
  if (!scoped) work_.until = std::max(work_.until, end);
  return end;
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
  advance(now);
  const bool is_busy = paced_ && (compute_.running > 0 || now < compute_.until);
  return {.temperature = temperature_,
          .power = is_busy ? profile_->peak_power : profile_->idle_power,
          .clock = temperature_ > profile_->throttle_at ? profile_->throttle_clock : 1,
          .energy = sums_.energy};
}

Pacer::Sums Pacer::sums() {
  const std::lock_guard lock(mutex_);
  advance(Clock::now());
  return sums_;
}

bool Pacer::draws_power() const {
  const std::lock_guard lock(mutex_);
  return profile_ && paced_;
}

void sleep_until(Pacer::Clock::time_point end) {
  constexpr auto kOversleep = std::chrono::microseconds(60);  // what the system's timer needs
  if (end > Pacer::Clock::now() + kOversleep) std::this_thread::sleep_until(end - kOversleep);
  while (Pacer::Clock::now() < end) std::this_thread::yield();
}

}  // namespace brim::sim
