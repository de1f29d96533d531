// Which device to compute on where nobody names one.
#pragma once

#include <string>

#include <brim/core/device.h>

namespace brim {

/// A device, and why it was chosen: "most free memory of 2 GPUs (70.1 GiB)".
struct DeviceChoice {
  Device device;       ///< what was chosen
  std::string reason;  ///< why, in one line
};

/// The GPU with the most free memory; of those within 5 % of it the least busy, of those within 5
/// points of that the coolest, then the lowest index. Without a usable GPU the CPU; never a virtual
/// accelerator. Asks NVML, so no GPU is touched: what NVML does not tell counts as the worst, and
/// where it is missing the lowest index is chosen. Using the chosen GPU may still throw.
DeviceChoice best_device();

}  // namespace brim
