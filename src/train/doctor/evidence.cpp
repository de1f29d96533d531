#include "train/doctor/evidence.h"

#include <brim/core/threads.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace brim::train {
namespace {

using diag::Cause;
using Clock = std::chrono::steady_clock;

constexpr double kLittle = 0.05;          // cores, or a share of the time, not worth a word
constexpr double kFromStorage = 1 << 20;  // bytes/s; less are a file here and there

double seconds_at(Clock::time_point at) {
  return std::chrono::duration<double>(at.time_since_epoch()).count();
}

/// Workers that could make batches as fast as the device would use them.
double workers_needed(const Evidence& e, double input_share) {
  if (e.workers.wall <= 0) return 0;
  const double made = e.workers.read + e.workers.decode + e.workers.augment + e.workers.stolen;
  return e.worker_count * made / e.workers.wall / (1 - std::min(input_share, 0.99));
}

std::vector<std::string> of_input(const Evidence& e, double share) {
  std::vector<std::string> all;
  if (e.workers.wall <= 0) return all;
  const auto workers = static_cast<int>(std::lround(e.worker_count));
  all.push_back(
      fmt::format("{} worker{}: {}", workers, workers == 1 ? "" : "s", data::describe(e.workers)));
  if (const double needed = workers_needed(e, share); needed > e.worker_count)
    all.push_back(fmt::format(
        "{:.1f} workers could keep up{}", needed,
        needed > e.cpus ? fmt::format(", and there are {} CPUs", e.cpus) : std::string()));
  if (e.storage && e.workers.read >= kLittle * e.workers.wall)
    all.push_back(*e.storage >= kFromStorage
                      ? fmt::format("storage gives {:.1f} MB/s: what is read is not in memory yet",
                                    *e.storage * 1e-6)
                      : std::string("what is read comes from memory, or from no file"));
  if (e.io_pressure.value_or(0) >= kLittle)
    all.push_back(
        fmt::format("some task waits for storage {:.0f} % of the time", 100 * *e.io_pressure));
  return all;
}

std::vector<std::string> of_stolen(const Evidence& e) {
  std::vector<std::string> all;
  if (e.throttled.value_or(0) >= kLittle)
    all.push_back(
        fmt::format("the cgroup's CPU quota keeps the time of {:.1f} cores from it", *e.throttled));
  if (e.other_cores.value_or(0) >= kLittle)
    all.push_back(fmt::format("other processes use {:.1f} cores", *e.other_cores));
  if (e.cores && *e.cores >= 0.9 * e.cpus)
    all.push_back(
        fmt::format("this one uses {:.1f} of the {} CPUs that it may use", *e.cores, e.cpus));
  if (e.memory_pressure.value_or(0) >= kLittle)
    all.push_back(
        fmt::format("some task waits for memory {:.0f} % of the time", 100 * *e.memory_pressure));
  return all;
}

}  // namespace

MachineWatch::MachineWatch() : begin_(Clock::now()) { (void)reader_.read(seconds_at(begin_)); }

Evidence MachineWatch::evidence() {
  const diag::MachineReading r = reader_.read(seconds_at(Clock::now()));
  Evidence e{.cpus = available_cpus(),
             .cores = 0,
             .other_cores = 0,
             .throttled = r.limits.throttled,
             .memory_pressure = r.pressure.memory,
             .io_pressure = r.pressure.io};
  for (const diag::ProcessReading& process : r.processes) {
    *(process.pid == getpid() ? e.cores : e.other_cores) += process.cores;
    if (process.pid == getpid()) e.storage = process.read;
  }
  return e;
}

Evidence mean_of(const std::vector<Evidence>& all) {
  Evidence mean;
  if (all.empty()) return mean;
  const auto n = static_cast<double>(all.size());
  std::vector<data::WorkerAccount> workers;
  const auto add = [n](std::optional<double>& to, const std::optional<double>& value) {
    if (value) to = to.value_or(0) + *value / n;
  };
  for (const Evidence& e : all) {
    workers.push_back(e.workers);
    mean.worker_count += e.worker_count / n;
    add(mean.cores, e.cores);
    add(mean.other_cores, e.other_cores);
    add(mean.storage, e.storage);
    add(mean.throttled, e.throttled);
    add(mean.memory_pressure, e.memory_pressure);
    add(mean.io_pressure, e.io_pressure);
  }
  mean.workers = data::sum(workers);
  mean.cpus = all.back().cpus;
  mean.eager = all.back().eager;
  return mean;
}

std::vector<std::string> reasons(const Evidence& evidence, Cause cause, double share) {
  switch (cause) {
    case Cause::input:
      return of_input(evidence, share);
    case Cause::stolen:
      return of_stolen(evidence);
    case Cause::dispatch:
    case Cause::allocator:
      if (!evidence.eager.empty()) return {"steps are not compiled: " + evidence.eager};
      break;
    default:
      break;
  }
  return {};
}

}  // namespace brim::train
