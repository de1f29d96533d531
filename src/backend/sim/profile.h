// What a real device can do, from a TOML file: the numbers a virtual accelerator is paced by.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include <brim/core/dtype.h>

namespace brim::sim {

struct DeviceProfile {
  std::string name;                        ///< "NVIDIA T4"
  std::string source;                      ///< where the numbers come from
  int64_t memory = 0;                      ///< bytes
  double bandwidth = 0;                    ///< of that memory, bytes/s
  std::array<double, kDTypeCount> peak{};  ///< operations/s by dtype; 0: as f32
  double host_link = 0;                    ///< bytes/s to and from the host, one direction
  double peer_link = 0;                    ///< bytes/s to another device, one direction
  double link_delay = 0;                   ///< seconds before the first byte
  double network = 0;        ///< bytes/s of a host to others, one direction; 0: not said
  double network_delay = 0;  ///< seconds
  int devices_per_host = 0;  ///< 0: all are on one
  double launch = 0;         ///< seconds of the host's time to queue one kernel
  double kernel = 0;         ///< seconds that the shortest kernel takes
  double idle_power = 0;     ///< watts
  double peak_power = 0;     ///< watts with the device busy
  double ambient = 0;        ///< degrees Celsius
  double warmth = 0;         ///< degrees per watt, once settled
  double settling = 1;       ///< seconds to come within 1/e of that
  double throttle_at = 0;    ///< degrees Celsius; above, the clock falls to throttle_clock
  double throttle_clock = 1;
  double clock = 0;  ///< MHz of the units that compute, at the most; 0: not said

  double peak_of(DType dtype) const;
  /// Degrees Celsius after `seconds` at `power` watts, starting from `temperature`: Newton's law of
  /// cooling.
  double heated(double temperature, double power, double seconds) const;
};

/// Reads a profile; `name` is for messages. Throws ValueError naming the line and key for anything
/// missing, unknown or out of range.
DeviceProfile parse_profile(std::string_view toml, const std::string& name);
/// A built-in profile by name ("t4", "v100", "l4", "a100", "h100", "h200") or a file. Throws
/// ValueError, FileError.
DeviceProfile load_profile(const std::string& name_or_path);

}  // namespace brim::sim
