// Where a kind's readings come from: a backend registers what knows its sensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <brim/diag/monitor.h>

namespace brim::diag {

/// A process that computes on a GPU.
struct GpuProcess {
  int64_t pid = 0;
  std::optional<int64_t> memory;      ///< bytes
  std::optional<double> utilisation;  ///< share of the time that its kernels ran
};

class GpuSensor {
 public:
  virtual ~GpuSensor() = default;
  /// Which card it is, whatever number this process sees it by: "GPU-8f2c...". Empty where nothing
  /// names it. Does not throw.
  virtual std::string uuid(int /*device*/) { return {}; }
  /// Of all users, as far as they are shown to us. Does not throw.
  virtual std::vector<GpuProcess> processes(int /*device*/) { return {}; }
  /// Does not throw: what goes wrong is in GpuReading::error.
  virtual GpuReading read(int device) = 0;
  /// Whether the device's own streams charge the account for lowered clocks.
  virtual bool charges_throttle() const { return false; }
  /// Seconds that the device has computed, talked and copied outside of scopes, without what heat
  /// has added, by a clock that no account reads; empty where there is none.
  virtual std::optional<double> worked(int /*device*/) { return {}; }
};

/// From now on `sensor` reads the devices of `kind`. It lives as long as the process.
void set_gpu_sensor(DeviceKind kind, GpuSensor& sensor);
/// Null for kinds without sensors.
GpuSensor* gpu_sensor(DeviceKind kind);

}  // namespace brim::diag
