// What a device has used, by its own counter of energy: NVML's of a GPU, the model of a paced
// virtual accelerator, RAPL's of the CPUs.
#pragma once

#include <optional>

#include <brim/core/device.h>

#include "diag/cpu_energy.h"
#include "diag/gpu_sensor.h"

namespace brim::command {

class EnergyCounter {
 public:
  explicit EnergyCounter(Device device) : device_(device) {
    if (device.is_cpu()) cpu_.emplace();
  }
  /// Joules since some time in the past; empty where there is no such counter, or it is not shown.
  std::optional<double> read() {
    if (cpu_) return cpu_->read();
    diag::GpuSensor* const sensor = diag::gpu_sensor(device_.kind);
    return sensor ? sensor->read(device_.index).energy : std::nullopt;
  }

 private:
  Device device_;
  std::optional<diag::CpuEnergy> cpu_;
};

}  // namespace brim::command
