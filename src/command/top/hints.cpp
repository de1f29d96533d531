#include "command/top/hints.h"

#include <fmt/core.h>

#include <algorithm>

namespace brim::top {
namespace {

// Below these, numbers of half a second mean little.
constexpr double kMuch = 0.25;          // of a device's time
constexpr double kIdleGpu = 0.6;        // its load, at most
constexpr double kOneCore = 0.9;        // of one thread's time
constexpr double kPressure = 0.2;       // of the time in which some task waited
constexpr double kLittleMemory = 0.05;  // of all

double share_of(const RunAccount& account, const char* cause) {
  const auto found = std::ranges::find(account.seconds, cause, &Named::value_type::first);
  if (found == account.seconds.end() || account.wall <= 0) return 0;
  return found->second / account.wall;
}

/// The load of the run's first GPU, by its own reading or by ours. Ours may have another number
/// (CUDA_VISIBLE_DEVICES), so that the card decides.
std::optional<double> gpu_load(const Moment& moment, const Run& run) {
  for (const RunDevice& device : run.devices) {
    const auto load = [](const auto& gpu, const auto& end) -> std::optional<double> {
      if (gpu == end || !gpu->answers) return {};
      return gpu->reading.utilisation;
    };
    if (const auto told =
            load(std::ranges::find(run.gpus, device.name, &Gpu::device), run.gpus.end()))
      return told;
    if (device.uuid.empty()) continue;
    if (const auto seen =
            load(std::ranges::find(moment.gpus, device.uuid, &Gpu::uuid), moment.gpus.end()))
      return seen;
  }
  return {};
}

/// Whether one thread keeps a GPU waiting: the process's first, or one that works nearly alone. Of
/// many that work, any may be busy without being waited for, as a loader's.
bool is_host_bound(const diag::ProcessReading& process, double gpu_load) {
  constexpr double kFewMore = 1.3;  // cores, of which one thread may have nearly all
  if (gpu_load >= kIdleGpu) return false;
  const bool is_alone = process.cores < kFewMore;
  if (!process.busiest) return is_alone && process.cores >= kOneCore;
  return process.busiest->cores >= kOneCore && (is_alone || process.busiest->tid == process.pid);
}
std::string host_is_the_limit(double gpu_load) {
  return fmt::format("one core at 100 %, GPU at {:.0f} %: the host is the limit", gpu_load * 100);
}

struct Advice {
  const char* cause;
  const char* meaning;
};
constexpr Advice kAdvice[] = {
    {"input", "more loader workers may help"},
    {"stolen", "other processes take the CPU"},
    {"throttle", "heat or power lower the clocks"},
    {"communication", "ranks or links are the limit"},
    {"peer", "waiting for another device"},
    {"host read", "the host reads values and waits"},
    {"dispatch", "the host is the limit"},
    {"copy to device", "copies are the limit"},
    {"checkpoint", "writing checkpoints"},
};

/// By the run's own account.
std::string advice(const Run& run) {
  for (const RunDevice& device : run.devices)
    for (const Advice& advice : kAdvice)
      if (const double share = share_of(device.recent, advice.cause); share >= kMuch)
        return fmt::format("{} {:.0f} % {}: {}", device.name, std::min(share, 1.0) * 100,
                           advice.cause, advice.meaning);
  return "";
}

}  // namespace

std::string hint(const Moment& moment, const Run& run) {
  if (!run.trouble.empty()) return "";
  if (std::string known = advice(run); !known.empty()) return known;
  const auto process =
      std::ranges::find(moment.machine.processes, run.pid, &diag::ProcessReading::pid);
  const auto load = gpu_load(moment, run);
  if (load && process != moment.machine.processes.end() && is_host_bound(*process, *load))
    return host_is_the_limit(*load);
  return "";
}

std::string hint(const Moment& moment, const diag::ProcessReading& process) {
  const auto use = gpu_use(moment, process.pid);
  if (!use || !use->utilisation || !is_host_bound(process, *use->utilisation)) return "";
  return host_is_the_limit(*use->utilisation);
}

std::optional<GpuUse> gpu_use(const Moment& moment, int64_t pid) {
  std::optional<GpuUse> use;
  for (const Gpu& gpu : moment.gpus)
    for (const diag::GpuProcess& p : gpu.processes) {
      if (!gpu.answers || p.pid != pid) continue;
      if (!use) use.emplace();
      use->memory += static_cast<double>(p.memory.value_or(0));
      if (p.utilisation) use->utilisation = std::max(use->utilisation.value_or(0), *p.utilisation);
    }
  return use;
}

std::string machine_hint(const Moment& moment) {
  const auto& [total, available, swap_total, swap_used] = moment.machine.memory;
  const diag::PressureReading& pressure = moment.machine.pressure;
  const diag::LimitReading& limits = moment.machine.limits;
  if (limits.memory && limits.memory_used &&
      static_cast<double>(*limits.memory_used) >
          (1 - kLittleMemory) * static_cast<double>(*limits.memory))
    return "the cgroup's memory is nearly used up";
  if (total > 0 && static_cast<double>(available) < kLittleMemory * static_cast<double>(total))
    return "memory is nearly used up";
  if (pressure.memory.value_or(0) > kPressure) return "processes wait for memory";
  if (limits.throttled.value_or(0) > kPressure)
    return fmt::format("the cgroup's quota holds back threads for {:.1f} cores", *limits.throttled);
  for (const diag::CoreReading& core : moment.machine.cores)
    if (core.steal > kPressure)
      return fmt::format("another machine has core {} {:.0f} % of the time", core.index,
                         core.steal * 100);
  return "";
}

}  // namespace brim::top
