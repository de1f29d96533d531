#include <brim/train/heat_guard.h>

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace brim::train {
namespace {

constexpr double kCooler = 3;  // degrees below the limit, so that it does not pause at each reading
constexpr auto kLook = std::chrono::milliseconds(50);
constexpr double kSilentSeconds = 10, kSilentReadings = 5;

double passed(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
}

}  // namespace

HeatGuard::HeatGuard(HeatGuardOptions options) : options_(options) {
  BRIM_CHECK(options.limit >= 1 && options.limit <= 200, ValueError,
             "[heat] a limit of {} C is no temperature of a device; use 1 to 200", options.limit);
}

void HeatGuard::add_line(std::string line) {
  constexpr size_t kMost = 16;  // where nobody takes them
  if (lines_.size() < kMost) lines_.push_back(std::move(line));
}

const HeatGuard::Sensor* HeatGuard::hottest() const {
  const Sensor* most = nullptr;
  for (const Sensor& s : sensors_)
    if (s.answers && (!most || s.temperature > most->temperature)) most = &s;
  return most;
}

void HeatGuard::judge() {
  const Sensor* const most = hottest();
  hot_ = most && (hot_ ? most->temperature > options_.limit - kCooler
                       : most->temperature >= options_.limit);
  calls_ = hot_ || (told_ && !lines_.empty());
}

void HeatGuard::add(const diag::Reading& reading) {
  {
    const std::lock_guard lock(mutex_);
    read_at_ = Clock::now();
    for (const auto& gpu : reading.gpus) {
      auto found = std::ranges::find(sensors_, gpu.first, &Sensor::device);
      const diag::GpuReading& r = gpu.second;
      if (found == sensors_.end()) {
        if (!r.temperature) continue;  // it has no such sensor
        found = sensors_.insert(sensors_.end(), {.device = gpu.first});
      }
      found->answers = r.temperature.has_value();
      if (r.temperature) found->temperature = *r.temperature;
      if (found->answers || std::exchange(found->was_told, true)) continue;
      add_line(fmt::format(
          "{} no longer tells its temperature{}; "
          "HeatGuardOptions::limit={} cannot guard it",
          gpu.first.str(), r.error.empty() ? "" : " (" + r.error + ")", options_.limit));
    }
    judge();
  }
  changed_.notify_all();
}

void HeatGuard::tell(const Waiting& how, std::unique_lock<std::mutex>& lock) {
  if (!how.warn || lines_.empty()) return;
  const std::vector<std::string> lines = std::exchange(lines_, {});
  calls_ = hot_;
  lock.unlock();
  for (const std::string& line : lines) how.warn(line);
  lock.lock();
}

void HeatGuard::wait(const Waiting& how) {
  std::unique_lock lock(mutex_);
  told_ = told_ || how.warn;
  bool is_waiting = false;
  const auto is_stopped = [&] {  // whoever is asked may be long about it, and readings go on
    if (!how.stop) return false;
    lock.unlock();
    try {
      const bool stop = how.stop();
      lock.lock();
      return stop;
    } catch (...) {
      lock.lock();
      if (is_waiting) --waiting_;
      throw;
    }
  };
  if (hot_ && !is_stopped() && hot_) {
    is_waiting = true;
    if (waiting_++ == 0) {
      paused_at_ = Clock::now();
      ++pauses_;
      const Sensor& most = *hottest();
      add_line(fmt::format("{} is at {:.0f} C (HeatGuardOptions::limit={}): paused",
                           most.device.str(), most.temperature, options_.limit));
    }
    const double silent = std::max(kSilentSeconds, kSilentReadings * options_.period);
    while (hot_ && !is_stopped()) {
      tell(how, lock);
      if (how.paused) how.paused(passed(paused_at_));
      if (passed(read_at_) > silent) {
        for (Sensor& s : sensors_) s.answers = false;
        add_line(fmt::format("sensors have told nothing for {:.0f} s", passed(read_at_)));
        judge();
        changed_.notify_all();
        break;
      }
      changed_.wait_for(lock, kLook);
    }
    if (--waiting_ == 0) {
      const double took = passed(paused_at_);
      seconds_ += took;
      const Sensor* const most = hottest();
      add_line(most ? fmt::format("{} is at {:.0f} C: going on after {:.1f} s", most->device.str(),
                                  most->temperature, took)
                    : fmt::format("going on after {:.1f} s", took));
    }
    calls_ = hot_ || (told_ && !lines_.empty());
  }
  tell(how, lock);
}

bool HeatGuard::hot() const {
  const std::lock_guard lock(mutex_);
  return hot_;
}

int64_t HeatGuard::pauses() const {
  const std::lock_guard lock(mutex_);
  return pauses_;
}

double HeatGuard::seconds() const {
  const std::lock_guard lock(mutex_);
  return seconds_;
}

}  // namespace brim::train
