// See best_device.h. Each round keeps the candidates that are within a tolerance of the best one:
// compared in pairs, "about equal" would depend on the order.
#include "diag/device_choice.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <memory>
#include <thread>

#include "core/runtime.h"
#include "core/start_thread.h"
#include "diag/gpu_sensor.h"

namespace brim::diag {
namespace {

constexpr double kMemoryTolerance = 0.05;  // of the most free memory: idle cards differ by some MiB
constexpr double kLoadTolerance = 0.05;    // five points: loads are means over a moment

using Candidates = std::vector<const GpuFacts*>;

std::optional<double> free_memory(const GpuFacts& gpu) {
  if (!gpu.free_memory || *gpu.free_memory < 0) return {};
  return static_cast<double>(*gpu.free_memory);
}
std::optional<double> load(const GpuFacts& gpu) {
  return gpu.load && std::isfinite(*gpu.load) && *gpu.load >= 0 ? gpu.load : std::nullopt;
}
std::optional<double> temperature(const GpuFacts& gpu) {
  return gpu.temperature && std::isfinite(*gpu.temperature) ? gpu.temperature : std::nullopt;
}

struct Round {
  Candidates kept;
  size_t from, known;  ///< how many there were, and of how many the value is known

  bool one() const { return kept.size() == 1; }
  bool all() const { return kept.size() == from; }
  /// "least busy", as far as that is known.
  std::string what(const char* superlative, const char* value) const {
    if (known == 1) return fmt::format("the only one whose {} is known", value);
    return (known < from ? "known to be " : "") + std::string(superlative);
  }
};

/// Those whose value is at most `limit(best)`, best being the least; all if no value is known.
template <class Value, class Limit>
Round least(const Candidates& from, const Value& value, const Limit& limit) {
  Round round{.kept = {}, .from = from.size(), .known = 0};
  std::optional<double> best;
  for (const GpuFacts* gpu : from)
    if (const auto v = value(*gpu)) {
      best = std::min(best.value_or(*v), *v);
      ++round.known;
    }
  for (const GpuFacts* gpu : from)
    if (const auto v = value(*gpu); !best || (v && *v <= limit(*best))) round.kept.push_back(gpu);
  return round;
}

std::string gib(double bytes) {
  return fmt::format("{:.1f} GiB", bytes / static_cast<double>(int64_t{1} << 30));
}

GpuFacts facts_of(Device device, const GpuReading& r) {
  GpuFacts facts{
      .device = device, .load = r.utilisation, .temperature = r.temperature, .error = r.error};
  if (r.memory_total && r.memory_used) facts.free_memory = *r.memory_total - *r.memory_used;
  return facts;
}

/// In a thread of its own, which is left behind where the driver hangs.
std::future<GpuReading> start_reading(GpuSensor& sensor, int index) {
  const auto task = std::make_shared<std::packaged_task<GpuReading()>>(
      [&sensor, index] { return sensor.read(index); });
  std::future<GpuReading> reading = task->get_future();
  start_thread([&] { return std::thread([task] { (*task)(); }); }).detach();
  return reading;
}

std::vector<GpuFacts> facts_of(const std::vector<Device>& gpus, GpuSensor* sensor) {
  constexpr auto kPatience = std::chrono::seconds(3);
  std::vector<std::future<GpuReading>> readings;
  for (const Device gpu : gpus)
    if (sensor) readings.push_back(start_reading(*sensor, gpu.index));
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  std::vector<GpuFacts> facts;
  for (size_t i = 0; i < gpus.size(); ++i)
    if (!sensor)
      facts.push_back({.device = gpus[i], .error = "it has no sensors"});
    else if (readings[i].wait_until(deadline) == std::future_status::ready)
      facts.push_back(facts_of(gpus[i], readings[i].get()));
    else
      facts.push_back({.device = gpus[i], .error = "its driver does not answer"});
  return facts;
}

}  // namespace

DeviceChoice choose_device(const std::vector<GpuFacts>& gpus, const std::string& why_none) {
  if (gpus.empty())
    return {Device::cpu(), why_none.empty() ? "no usable GPU" : "no usable GPU: " + why_none};
  if (gpus.size() == 1) return {gpus[0].device, "the only GPU"};

  Candidates all;
  for (const GpuFacts& gpu : gpus) all.push_back(&gpu);
  const Round most_free = least(
      all,
      [](const GpuFacts& gpu) -> std::optional<double> {
        const auto bytes = free_memory(gpu);
        return bytes ? std::optional(-*bytes) : std::nullopt;
      },
      [](double best) { return best * (1 - kMemoryTolerance); });
  const Round least_busy =
      least(most_free.kept, load, [](double best) { return best + kLoadTolerance; });
  const Round coolest = least(least_busy.kept, temperature, [](double best) { return best; });
  const GpuFacts& chosen = *coolest.kept.front();

  const auto bytes = free_memory(chosen);
  const char* const known = most_free.known < gpus.size() ? "known " : "";
  if (most_free.known == 1)
    return {chosen.device, fmt::format("the only one of {} GPUs whose free memory is known ({})",
                                       gpus.size(), gib(bytes.value_or(0)))};
  if (most_free.one())
    return {chosen.device, fmt::format("most {}free memory of {} GPUs ({})", known, gpus.size(),
                                       gib(bytes.value_or(0)))};
  std::string among = bytes ? fmt::format("of {} GPUs with the most {}free memory ({})",
                                          most_free.kept.size(), known, gib(*bytes))
                            : fmt::format("of {} GPUs whose free memory is unknown{}", gpus.size(),
                                          chosen.error.empty() ? "" : ": " + chosen.error);
  const std::string busy = least_busy.what("least busy", "load");
  if (least_busy.one())
    return {chosen.device,
            fmt::format("{} ({:.0f} %) {}", busy, 100 * load(chosen).value_or(0), among)};
  if (!least_busy.all())
    among = fmt::format("of the {} {} {}", least_busy.kept.size(), busy, among);
  const std::string cool = coolest.what("coolest", "temperature");
  if (coolest.one())
    return {chosen.device,
            fmt::format("{} ({:.0f} C) {}{}", cool, temperature(chosen).value_or(0), among,
                        least_busy.known == 0 ? ", load unknown"
                        : least_busy.all()    ? ", equally busy"
                                              : "")};
  if (!coolest.all()) among = fmt::format("of the {} {} {}", coolest.kept.size(), cool, among);
  return {chosen.device, "first " + among};
}

}  // namespace brim::diag

namespace brim {

DeviceChoice best_device() {
  const std::vector<Device> gpus = Device::all(DeviceKind::cuda);
  if (gpus.empty()) return diag::choose_device({}, runtime(DeviceKind::cuda).why_absent());
  if (gpus.size() == 1) return diag::choose_device({{.device = gpus[0]}}, "");  // NVML takes time
  return diag::choose_device(diag::facts_of(gpus, diag::gpu_sensor(DeviceKind::cuda)), "");
}

}  // namespace brim
