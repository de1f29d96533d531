// The choice behind best_device(), apart from where its facts come from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <brim/diag/best_device.h>

namespace brim::diag {

/// What is known of a GPU that could be chosen.
struct GpuFacts {
  Device device;
  std::optional<int64_t> free_memory;  ///< bytes
  std::optional<double> load;          ///< share of the time that any kernel ran
  std::optional<double> temperature;   ///< degrees Celsius
  std::string error;                   ///< why nothing is known; else empty
};

/// By the rule of best_device(), of GPUs in the order of their indices. NaN and values that cannot
/// be count as unknown. Without GPUs the CPU; `why_none` says why there are none.
DeviceChoice choose_device(const std::vector<GpuFacts>& gpus, const std::string& why_none);

}  // namespace brim::diag
