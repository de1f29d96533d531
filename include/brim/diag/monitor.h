// What the machine's sensors say while something runs: the CPU's load from /proc, for cuda devices
// NVML, for virtual accelerators the model of their profile. Read once a second by a thread of its
// own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <brim/core/device.h>

namespace brim::diag {

/// What a GPU's sensors say. A sensor that it does not have, or does not show to us, is empty.
struct GpuReading {
  std::optional<double> utilisation;                 ///< share of the time that any kernel ran
  std::optional<double> sm_active, tensor_active;    ///< shares of the SMs' time; Hopper and later
  std::optional<double> memory_bandwidth;            ///< share of the highest; Hopper and later
  std::optional<int64_t> memory_used, memory_total;  ///< bytes, of all processes
  std::optional<double> temperature;                 ///< degrees Celsius
  std::optional<double> power, power_limit;          ///< watts
  std::optional<double> fan;                         ///< share of its highest speed
  std::optional<double> pcie_in, pcie_out;           ///< bytes/s to the device and from it
  std::optional<double> nvlink_in, nvlink_out;       ///< the same, of all links together
  /// Errors of the memory since the driver was loaded.
  std::optional<int64_t> ecc_corrected, ecc_uncorrected;
  std::optional<double> sm_clock, memory_clock, max_sm_clock;  ///< MHz
  std::optional<double>
      energy;  ///< joules since the driver was loaded (Volta and later), or sim was used
  std::vector<std::string> clocks_held_by;  ///< why clocks are not the highest: "power cap", ...
  bool throttled = false;                   ///< one of these is heat, power or a fault
  std::string error;                        ///< why nothing of it can be read; else empty

  /// The share of the compute time that lowered clocks have added: 1 - clock / highest clock; 0 if
  /// not throttled.
  double slowdown() const;
};

/// What the host does. Shares are of the time since the reading before.
struct HostReading {
  std::vector<double> core_load;  ///< of each CPU that is online, in the kernel's order
  double process_cores = 0;       ///< CPU time of this process: 2 is two cores all the time
  int64_t resident = 0;           ///< bytes of memory of this process
  std::optional<double> energy;   ///< joules of the CPUs since the monitor was made, by RAPL

  double mean_load() const;  ///< mean of core_load; 0 without any
};

/// What one look at the machine found.
struct Reading {
  double seconds = 0;                               ///< since the monitor was made
  HostReading host;                                 ///< of the machine itself
  std::vector<std::pair<Device, GpuReading>> gpus;  ///< of cuda and sim, in their order
};

/// Readings of a stretch of time. `mean` holds means, but: memory, temperature, power limit and
/// ECC errors are the highest, energy what was used between the first and the last,
/// `clocks_held_by` all that were met, `throttled` whether it ever was.
struct MonitorSummary {
  int64_t readings = 0;                 ///< how often it looked
  Reading mean;                         ///< of each value over those that have it
  std::vector<double> throttled_share;  ///< of the readings, for each of mean.gpus
  /// Joules between the first and the last, by the power that was read, each reading for the time
  /// since the one before; empty where power was not read each time. For each of mean.gpus.
  std::vector<std::optional<double>> power_joules;
  double stretch = 0;  ///< seconds between the first and the last of them
};

/// Options of Monitor.
struct MonitorOptions {
  double period = 1;  ///< seconds between two readings
  /// Called with each reading, by the monitor's thread or that of read_now(). Must not throw.
  std::function<void(const Reading&)> sink = {};
};

/// Reads sensors from its construction to its end. Time lost to lowered clocks is charged to the
/// devices' accounts (Cause::throttle). The CPU is in HostReading. What a virtual accelerator's
/// sensors say is simulated; without a paced profile they know neither power nor heat. A driver
/// that does not answer ends the readings of all devices, and holds up who calls read_now() then.
class Monitor {
 public:
  /// Throws ValueError for a period below 0.01 s or above 1e9 s.
  explicit Monitor(const std::vector<Device>& devices, MonitorOptions options = {});
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  /// One more reading, now; before an account is read, so that it knows of the clocks.
  void read_now();
  /// One more reading, the last: what total() says and the sink was told are of the same readings
  /// from then on. Not with read_now() at the same time.
  void stop();
  /// Of the readings since the last call, or the start.
  MonitorSummary summary();
  /// Of all readings.
  MonitorSummary total() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace brim::diag
