// See measure.h.
#include "bench/command/measure.h"

#include <brim/core/stream.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "bench/command/energy_counter.h"
#include "core/clock.h"

namespace brim::command {
namespace {

constexpr double kBlockSeconds = 1e-3, kQueuedSeconds = 20e-3;
constexpr int64_t kWarmUpQueue = 16;

/// CPU seconds of all threads of this process.
double cpu_now() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double quantile(const std::vector<double>& sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (sorted[high] - sorted[low]) * (at - static_cast<double>(low));
}

/// As many steps as last about `seconds`, queued and waited for.
int64_t block_of(const std::function<void()>& step, double seconds, Device device) {
  for (int64_t count = 1;; count *= 4) {
    const double start = steady_seconds();
    for (int64_t i = 0; i < count; ++i) step();
    synchronize(device);
    const double took = steady_seconds() - start;
    if (took >= seconds / 8)
      return std::max<int64_t>(1, std::llround(seconds / took * static_cast<double>(count)));
  }
}

}  // namespace

Timing measure(const std::function<void()>& step, const Effort& effort, Device device) {
  const bool queues = !device.is_cpu();
  const double begin = steady_seconds();
  int64_t warm_up = 0;
  while (steady_seconds() - begin < effort.warm_up || warm_up < effort.warm_up_steps) {
    step();
    ++warm_up;
    // The queue is not to run ahead of the warm-up.
    if (queues && warm_up % kWarmUpQueue == 0) synchronize(device);
  }
  if (queues) synchronize(device);
  const double each = (steady_seconds() - begin) / static_cast<double>(warm_up);
  const int64_t block = queues ? block_of(step, kQueuedSeconds, device)
                               : std::max<int64_t>(1, std::llround(kBlockSeconds / each));

  Timing timing;
  std::vector<double> samples;
  EnergyCounter energy(device);
  const std::optional<double> energy_begin = energy.read();
  const double end = steady_seconds() + effort.seconds, cpu_begin = cpu_now();
  while (steady_seconds() < end || static_cast<int64_t>(samples.size()) < effort.blocks) {
    const double start = steady_seconds();
    for (int64_t i = 0; i < block; ++i) step();
    if (queues) synchronize(device);
    samples.push_back((steady_seconds() - start) / static_cast<double>(block) * 1e6);
    timing.steps += block;
  }
  timing.cpu = (cpu_now() - cpu_begin) / static_cast<double>(timing.steps) * 1e6;
  if (const std::optional<double> now = energy.read(); now && energy_begin)
    timing.joules = *now - *energy_begin;
  std::sort(samples.begin(), samples.end());
  timing.median = quantile(samples, 0.5);
  timing.p10 = quantile(samples, 0.1);
  timing.p90 = quantile(samples, 0.9);
  return timing;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace brim::command
