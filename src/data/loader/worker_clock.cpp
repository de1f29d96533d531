#include "data/loader/worker_clock.h"

#include <fmt/core.h>

#include <array>

#include "data/loader/worker_parts.h"

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
    for (const auto& [name, part] : kWorkerParts) all.*part += worker.*part;
  return all;
}

std::string describe(const WorkerAccount& worker) {
  std::array<std::pair<const char*, double>, 6> parts{{{"read", worker.read},
                                                       {"decode", worker.decode},
                                                       {"augment", worker.augment},
                                                       {"waiting for a slot", worker.slot},
                                                       {"stolen", worker.stolen},
                                                       {"idle", worker.idle}}};
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (const auto& [name, seconds] : parts)
    if (worker.wall > 0 && seconds >= 0.005 * worker.wall)
      text +=
          fmt::format("{}{} {:.0f} %", text.empty() ? "" : ", ", name, 100 * seconds / worker.wall);
  return text;
}

std::string describe(const std::vector<WorkerAccount>& workers) {
  if (workers.empty()) return "no workers";
  const std::string shares = describe(sum(workers));
  return fmt::format("{} worker{}{}{}", workers.size(), workers.size() == 1 ? "" : "s",
                     shares.empty() ? "" : ": ", shares);
}

}  // namespace brim::data
