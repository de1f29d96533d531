// The rules of the tuner (see tuner.h).
#include "data/loader/tuner.h"

#include <fmt/core.h>

#include <algorithm>

namespace brim::data {
namespace {

constexpr double kWaits = 0.05;   // of the loop's time: the loader is too slow
constexpr double kHardly = 0.01;  // of the loop's time: it is fast enough
constexpr double kIdle = 0.25;    // of the workers' time: they lack slots, not hands
constexpr double kSpare = 1.5;    // workers' worth of idle time: one is too many
constexpr double kGain = 1.03;    // a larger loader must be so much faster
constexpr double kNoLoss = 0.97;  // a smaller one may be so much slower

std::string workers(int count) { return fmt::format("{} worker{}", count, count == 1 ? "" : "s"); }

std::string name(const LoaderSizes& sizes) {
  return fmt::format("{}, {} slots", workers(sizes.workers), sizes.slots);
}

}  // namespace

bool Tuner::judge(double rate) {
  const Trial trial = *std::exchange(trial_, std::nullopt);
  const bool smaller = sizes_.workers < trial.before.workers;
  if (rate >= trial.rate * (smaller ? kNoLoss : kGain)) return false;
  if (smaller)
    limits_.least_workers = trial.before.workers;
  else if (sizes_.workers > trial.before.workers)
    limits_.max_workers = trial.before.workers;
  else
    limits_.max_slots = trial.before.slots;
  if (log_)
    log_(fmt::format("back to {}: {:.1f} batches/s with {}, {:.1f} before", name(trial.before),
                     rate, name(sizes_), trial.rate));
  sizes_ = trial.before;
  return true;
}

void Tuner::change(LoaderSizes to, double rate, const std::string& why) {
  trial_ = {sizes_, rate};
  if (log_) log_(fmt::format("{} instead of {}: {}", name(to), name(sizes_), why));
  sizes_ = to;
}

LoaderSizes Tuner::observe(const MeasurementWindow& window) {
  const double rate = static_cast<double>(window.batches) / window.seconds;
  if (trial_ && judge(rate)) return sizes_;
  const double waits = window.waited / window.seconds;
  const double spare = window.idle / window.seconds;  // in workers
  const std::string waited = fmt::format("the loop waited {:.0f} % of the time", 100 * waits);
  LoaderSizes next = sizes_;
  if (waits > kWaits && spare > kIdle * sizes_.workers) {
    next.slots = std::min(2 * sizes_.slots, limits_.max_slots);
    if (next != sizes_) change(next, rate, waited + " although workers had nothing to do");
  } else if (waits > kWaits && sizes_.workers < limits_.max_workers) {
    ++next.workers;
    next.slots = std::max(next.slots, std::min(2 * next.workers + 2, limits_.max_slots));
    change(next, rate, waited);
  } else if (waits < kHardly && spare > kSpare && sizes_.workers > limits_.least_workers) {
    --next.workers;
    change(next, rate, fmt::format("{:.1f} of the workers had nothing to do", spare));
  }
  return sizes_;
}

}  // namespace brim::data
