// What a device reaches at most, measured: the roof of a roofline (Williams, Waterman, Patterson,
// 2009).
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include <brim/core/device.h>
#include <brim/core/dtype.h>

namespace brim::command {

struct DeviceRoof {
  double operations_per_s = 0;  ///< of a large matrix product
  double bytes_per_s = 0;       ///< of sums of tensors too large for caches
  double cache_bytes_per_s = 0,
         cache_bytes = 0;  ///< of those that fit into so much cache; 0: alike

  bool is_known() const { return operations_per_s > 0 && bytes_per_s > 0; }
  /// For a kernel with so many bytes of operands.
  double bandwidth_of(double bytes) const {
    return bytes <= cache_bytes ? cache_bytes_per_s : bytes_per_s;
  }
};

/// The roof as it was measured first on this machine, with this version and so many threads: it is
/// kept in brim's cache, `device_roof.json`. That of a virtual accelerator is measured anew.
DeviceRoof device_roof(Device device, const std::string& precision);

/// The same, but not measured: not known where nothing was kept.
DeviceRoof kept_roof(Device device, const std::string& precision);

/// Runs products in `dtype` (of `precision`, as recipes name it) and sums for some tenths of a
/// second. Nothing else should run; what is found is less than the truth otherwise. A device
/// without the memory for it, or that fails, has no roof.
DeviceRoof measure_roof(Device device, const std::string& precision);

/// {"operations_per_s", "bytes_per_s", "cache_bytes_per_s", "cache_bytes"}, or null.
nlohmann::ordered_json roof_json(const DeviceRoof& roof);

}  // namespace brim::command
