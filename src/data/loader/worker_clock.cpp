#include "data/loader/worker_clock.h"

#include <fmt/core.h>

#include <array>

namespace brim::data {

void WorkerClock::read_delay() {
  const double now = diag::run_delay(0, delay_);
  ticks_.stolen += std::max(0.0, now - delay_);
  delay_ = now;
  unread_ = 0;
}

WorkerTicks& WorkerTicks::operator+=(const WorkerTicks& other) {
  wall += other.wall;
  read += other.read;
  decode += other.decode;
  augment += other.augment;
  slot += other.slot;
  stolen += other.stolen;
  return *this;
}

WorkerAccount WorkerTicks::account() const {
  const auto seconds = [](uint64_t ticks) {
    return static_cast<double>(ticks) / diag::ticks_per_us() * 1e-6;
  };
  WorkerAccount a{.wall = seconds(wall),
                  .read = seconds(read),
                  .decode = seconds(decode),
                  .augment = seconds(augment),
                  .slot = seconds(slot)};
  // It was on a core, or wanted to be, in proportion.
  const double on_core = a.read + a.decode + a.augment;
  a.stolen = std::min(stolen, on_core);
  const double kept = on_core > 0 ? 1 - a.stolen / on_core : 1;  // never below 0
  for (double* part : {&a.read, &a.decode, &a.augment}) *part *= kept;
  a.idle = std::max(0.0, a.wall - on_core - a.slot);
  return a;
}

WorkerAccount sum(const std::vector<WorkerAccount>& workers) {
  WorkerAccount all;
  for (const WorkerAccount& worker : workers)
    for (double WorkerAccount::*part :
         {&WorkerAccount::wall, &WorkerAccount::read, &WorkerAccount::decode,
          &WorkerAccount::augment, &WorkerAccount::slot, &WorkerAccount::stolen,
          &WorkerAccount::idle})
      all.*part += worker.*part;
  return all;
}

std::string describe(const std::vector<WorkerAccount>& workers) {
  if (workers.empty()) return "no workers";
  const WorkerAccount all = sum(workers);
  std::array<std::pair<const char*, double>, 6> parts{{{"read", all.read},
                                                       {"decode", all.decode},
                                                       {"augment", all.augment},
                                                       {"waiting for a slot", all.slot},
                                                       {"stolen", all.stolen},
                                                       {"idle", all.idle}}};
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text = fmt::format("{} worker{}", workers.size(), workers.size() == 1 ? "" : "s");
  const char* separator = ":";
  for (const auto& [name, seconds] : parts) {
    if (all.wall <= 0 || seconds < 0.005 * all.wall) continue;
    text += fmt::format("{} {} {:.0f} %", separator, name, 100 * seconds / all.wall);
    separator = ",";
  }
  return text;
}

}  // namespace brim::data
