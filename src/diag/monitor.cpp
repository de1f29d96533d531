// See monitor.h. Means are kept as sums, so a monitor's memory does not grow.
#include <brim/diag/monitor.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "core/check.h"
#include "core/start_thread.h"
#include "diag/cpu_energy.h"
#include "diag/device_meter.h"
#include "diag/gpu_sensor.h"
#include "diag/host_load.h"

namespace brim::diag {
namespace {

std::array<std::atomic<GpuSensor*>, kDeviceKindCount> sensors{};

/// For a driver that does not answer; one reading takes some milliseconds.
constexpr auto kPatience = std::chrono::seconds(2);

/// A mean of the readings that have the sensor.
struct Mean {
  double sum = 0;
  int64_t count = 0;
  void add(const std::optional<double>& value) {
    if (!value) return;
    sum += *value;
    ++count;
  }
  std::optional<double> value() const {
    return count ? std::optional(sum / static_cast<double>(count)) : std::nullopt;
  }
};

template <class T>
void raise_to(std::optional<T>& highest, const std::optional<T>& value) {
  if (value) highest = highest ? std::max(*highest, *value) : *value;
}

/// Between the first reading and the last.
struct EnergyUsed {
  std::optional<double> first, value;
  void add(const std::optional<double>& energy) {
    if (!energy) return;
    if (!first) first = energy;
    value = *energy - *first;
  }
};

/// The sensors whose mean is told.
constexpr std::array kMeans = {
    &GpuReading::utilisation, &GpuReading::sm_active,  &GpuReading::tensor_active,
    &GpuReading::power,       &GpuReading::sm_clock,   &GpuReading::memory_clock,
    &GpuReading::fan,         &GpuReading::pcie_in,    &GpuReading::pcie_out,
    &GpuReading::nvlink_in,   &GpuReading::nvlink_out, &GpuReading::memory_bandwidth};

struct GpuSums {
  GpuReading kept;  // what is no mean
  std::array<Mean, kMeans.size()> means;
  EnergyUsed energy;
  int64_t throttled = 0;
  std::optional<double> power_joules = 0;

  /// `passed`: seconds since the reading before; 0 for the first one.
  void add(const GpuReading& r, double passed) {
    if (!r.power)
      power_joules.reset();
    else if (power_joules)
      *power_joules += *r.power * passed;
    for (size_t i = 0; i < kMeans.size(); ++i) means[i].add(r.*kMeans[i]);
    raise_to(kept.memory_used, r.memory_used);
    raise_to(kept.memory_total, r.memory_total);
    raise_to(kept.temperature, r.temperature);
    raise_to(kept.power_limit, r.power_limit);
    raise_to(kept.max_sm_clock, r.max_sm_clock);
    raise_to(kept.ecc_corrected, r.ecc_corrected);
    raise_to(kept.ecc_uncorrected, r.ecc_uncorrected);
    energy.add(r.energy);
    for (const std::string& reason : r.clocks_held_by)
      if (std::ranges::find(kept.clocks_held_by, reason) == kept.clocks_held_by.end())
        kept.clocks_held_by.push_back(reason);
    kept.throttled |= r.throttled;
    kept.error = r.error;
    throttled += r.throttled ? 1 : 0;
  }
  GpuReading mean() const {
    GpuReading m = kept;
    for (size_t i = 0; i < kMeans.size(); ++i) m.*kMeans[i] = means[i].value();
    m.energy = energy.value;
    return m;
  }
};

struct Sums {
  int64_t readings = 0;
  double first_seconds = 0, seconds = 0;
  EnergyUsed energy;
  std::vector<double> core_load;
  double process_cores = 0;
  int64_t resident = 0;
  std::vector<GpuSums> gpus;

  void add(const Reading& r) {
    if (readings++ == 0) first_seconds = seconds = r.seconds;
    const double passed = r.seconds - seconds;
    seconds = r.seconds;
    energy.add(r.host.energy);
    core_load.resize(r.host.core_load.size());
    for (size_t i = 0; i < core_load.size(); ++i) core_load[i] += r.host.core_load[i];
    process_cores += r.host.process_cores;
    resident = std::max(resident, r.host.resident);
    gpus.resize(r.gpus.size());
    for (size_t i = 0; i < gpus.size(); ++i) gpus[i].add(r.gpus[i].second, passed);
  }
  MonitorSummary summary(const std::vector<Device>& devices) const {
    const double n = static_cast<double>(std::max<int64_t>(1, readings));
    MonitorSummary s{.readings = readings};
    s.mean.seconds = seconds;
    s.stretch = seconds - first_seconds;
    s.mean.host = {core_load, process_cores / n, resident, energy.value};
    for (double& load : s.mean.host.core_load) load /= n;
    for (size_t i = 0; i < gpus.size(); ++i) {
      s.mean.gpus.emplace_back(devices[i], gpus[i].mean());
      s.throttled_share.push_back(static_cast<double>(gpus[i].throttled) / n);
      s.power_joules.push_back(gpus[i].power_joules);
    }
    return s;
  }
};

}  // namespace

void set_gpu_sensor(DeviceKind kind, GpuSensor& sensor) {
  sensors[static_cast<size_t>(kind)].store(&sensor);
}
GpuSensor* gpu_sensor(DeviceKind kind) { return sensors[static_cast<size_t>(kind)].load(); }

double GpuReading::slowdown() const {
  if (!throttled || !sm_clock || !max_sm_clock || *max_sm_clock <= 0) return 0;
  return std::clamp(1 - *sm_clock / *max_sm_clock, 0.0, 1.0);
}

double HostReading::mean_load() const {
  double sum = 0;
  for (const double load : core_load) sum += load;
  return core_load.empty() ? 0 : sum / static_cast<double>(core_load.size());
}

/// Shared with the thread: one that hangs in the driver is left behind.
struct Monitor::State {
  using Clock = std::chrono::steady_clock;
  std::vector<Device> devices;  // with sensors
  MonitorOptions options;
  Clock::time_point begin = Clock::now();
  std::mutex giving;    // while a reading is given on
  bool closed = false;  // nobody takes readings
  HostLoad host;
  CpuEnergy energy;
  mutable std::mutex mutex;
  std::condition_variable changed;
  bool is_reading = false, stopping = false, reads_last = false, ended = false;
  Sums window, all;
  std::thread thread;

  /// One at a time: who comes while another reads waits for that, and reads nothing where that does
  /// not end.
  void read() {
    {
      std::unique_lock lock(mutex);
      if (!changed.wait_for(lock, kPatience, [&] { return !is_reading; })) return;
      is_reading = true;
    }
    struct End {
      State& state;
      ~End() {
        const std::lock_guard lock(state.mutex);
        state.is_reading = false;
        state.changed.notify_all();
      }
    } const end{*this};
    {
      const std::lock_guard given(giving);
      if (closed) return;  // left behind: it asks the driver no more
    }
    Reading r;
    r.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    r.host = host.read();
    r.host.energy = energy.read();
    for (const Device device : devices)
      r.gpus.emplace_back(device, gpu_sensor(device.kind)->read(device.index));
    const std::lock_guard given(giving);
    if (!closed) give(r);
  }

  void give(const Reading& r) {
    for (const auto& [device, gpu] : r.gpus)
      if (DeviceMeter* meter = DeviceMeter::active(device);
          meter && !gpu_sensor(device.kind)->charges_throttle()) {
        meter->advance();
        meter->throttled(gpu.slowdown());
      }
    {
      const std::lock_guard lock(mutex);
      window.add(r);
      all.add(r);
    }
    if (options.sink) options.sink(r);
  }

  /// The thread reads no more, but for one reading where `with_last`.
  void end(bool with_last) {
    if (!thread.joinable()) return;
    std::unique_lock lock(mutex);
    stopping = true;
    reads_last = with_last;
    changed.notify_all();
    const bool has_ended = changed.wait_for(lock, kPatience, [&] { return ended; });
    lock.unlock();
    if (has_ended) return thread.join();
    const std::lock_guard given(giving);
    closed = true;
    thread.detach();
  }

  void loop() {
    const auto period =
        std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.period));
    auto next = Clock::now();
    std::unique_lock lock(mutex);
    for (bool is_last = false; !is_last; next = std::max(next, Clock::now() - period)) {
      next += period;
      is_last = changed.wait_until(lock, next, [&] { return stopping; });
      if (is_last && !reads_last) break;
      lock.unlock();
      try {
        read();
      } catch (const std::exception&) {  // no memory for it: the next one may have some
      }
      lock.lock();
    }
    ended = true;
    changed.notify_all();
  }
};

Monitor::Monitor(const std::vector<Device>& devices, MonitorOptions options)
    : state_(std::make_shared<State>()) {
  BRIM_CHECK(options.period >= 0.01 && options.period <= 1e9, ValueError,
             "[monitor] a period of {} s cannot be kept; use 0.01 to 1e9", options.period);
  for (const Device device : devices)
    if (device.available() && gpu_sensor(device.kind)) state_->devices.push_back(device);
  state_->options = std::move(options);
  state_->thread = start_thread([&] { return std::thread([s = state_] { s->loop(); }); });
}

Monitor::~Monitor() { state_->end(false); }

void Monitor::stop() { state_->end(true); }

void Monitor::read_now() { state_->read(); }

MonitorSummary Monitor::summary() {
  const std::lock_guard lock(state_->mutex);
  return std::exchange(state_->window, Sums()).summary(state_->devices);
}

MonitorSummary Monitor::total() const {
  const std::lock_guard lock(state_->mutex);
  return state_->all.summary(state_->devices);
}

}  // namespace brim::diag
