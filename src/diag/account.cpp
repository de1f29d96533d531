// The account of one thread: its meter's ticks, scaled by the steady clock over the same time.
#include <brim/diag/account.h>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "diag/span.h"

namespace brim::diag {

thread_local constinit Meter* active_meter = nullptr;

std::string_view name(Cause cause) {
  constexpr std::string_view kName[kCauseCount] = {
      "compute", "communication", "copy",       "input",    "host read",
      "launch",  "allocator",     "checkpoint", "throttle", "other"};
  return kName[static_cast<int>(cause)];
}

double Account::fraction(Cause cause) const {
  if (wall <= 0) return cause == Cause::other ? 1 : 0;
  return seconds[static_cast<size_t>(cause)] / wall;
}

std::array<double, kCauseCount> Account::percent() const {
  std::array<int, kCauseCount> tenths{}, order{};
  std::array<double, kCauseCount> rest{};
  for (size_t i = 0; i < kCauseCount; ++i) {
    const double exact = fraction(static_cast<Cause>(i)) * 1000;
    tenths[i] = static_cast<int>(std::floor(exact));
    rest[i] = exact - tenths[i];
  }
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return rest[static_cast<size_t>(a)] > rest[static_cast<size_t>(b)];
  });
  const int missing = 1000 - std::accumulate(tenths.begin(), tenths.end(), 0);
  for (int i = 0; i < missing; ++i)
    ++tenths[static_cast<size_t>(order[static_cast<size_t>(i) % kCauseCount])];
  std::array<double, kCauseCount> percent{};
  for (size_t i = 0; i < kCauseCount; ++i) percent[i] = tenths[i] / 10.0;
  return percent;
}

std::string Account::table() const {
  const auto share = percent();
  std::array<size_t, kCauseCount> order{};
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end() - 1,
                   [&](size_t a, size_t b) { return seconds[a] > seconds[b]; });
  std::string text;
  double sum = 0;
  for (const size_t i : order) {
    const Cause cause = static_cast<Cause>(i);
    if (seconds[i] <= 0 && cause != Cause::other) continue;
    sum += share[i];
    text += fmt::format("  {:<14}{:>10.3f} s {:>6.1f} %\n", name(cause), seconds[i], share[i]);
  }
  return text + fmt::format("  {:<14}{:>10.3f} s {:>6.1f} %\n", "total", wall, sum);
}

struct Accountant::State {
  Meter meter;
  Meter* outer = active_meter;
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  uint64_t begin_ticks = ticks();
};

Accountant::Accountant() : state_(std::make_unique<State>()) { active_meter = &state_->meter; }
Accountant::~Accountant() { active_meter = state_->outer; }

Account Accountant::read() const {
  const uint64_t now_ticks = ticks();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - state_->begin;
  Account account{.wall = elapsed.count()};
  const double total = static_cast<double>(now_ticks - state_->begin_ticks);
  double charged = 0;
  for (size_t i = 0; i < kCauseCount; ++i) charged += static_cast<double>(state_->meter.self[i]);
  // Spans lie within the total; only a clock that jumped could make them more.
  const double scale = charged <= total ? account.wall / std::max(total, 1.0)
                                        : account.wall / std::max(charged, 1.0);
  double known = 0;
  for (size_t i = 0; i < kCauseCount; ++i) {
    account.seconds[i] = static_cast<double>(state_->meter.self[i]) * scale;
    known += account.seconds[i];
  }
  account.seconds[static_cast<size_t>(Cause::other)] += std::max(0.0, account.wall - known);
  return account;
}

}  // namespace brim::diag
