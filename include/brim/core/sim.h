// Virtual accelerators, sim:0, sim:1, ...: memory that the host cannot read, streams that run in
// threads of their own, the CPU's arithmetic bit for bit. On request they keep the pace of a real
// device and check that streams wait for each other where they must.
#pragma once

#include <cstdint>
#include <string>

#include <brim/core/device.h>

namespace brim {

/// How virtual accelerators behave. Defaults come from the environment: BRIM_SIM_DEVICES,
/// BRIM_SIM_MEMORY (bytes, or 512M, 16G), BRIM_SIM_PROFILE, BRIM_SIM_SLOWDOWN, BRIM_SIM_CHECK (0 or
/// 1).
struct SimOptions {
  int devices = 2;     ///< how many there are; may grow, but not shrink, once they are in use
  int64_t memory = 0;  ///< bytes of each; 0: as the profile says, 4 GiB without one. Fixed with the
                       ///< first allocation on a device
  std::string profile = {};  ///< "t4", "v100", "l4", "a100", "h100", "h200" or a TOML file; empty:
                             ///< as fast as it goes
  double slowdown = 1;       ///< stretches all times of the profile, so that this machine keeps up
  bool paced = true;   ///< false: work takes what it takes, and the profile is for forecasts alone
  bool check = false;  ///< the stream checker: work that touches what another stream still uses
                       ///< throws StreamError
};

/// The options in force. Throws ValueError when the environment holds nonsense.
SimOptions sim_options();
/// Waits for all virtual accelerators, then changes them; errors of their work stay where they are
/// until somebody waits for that work. Throws ValueError for impossible options,
/// FileError for a profile that cannot be read.
void set_sim_options(const SimOptions& options);

/// What the sensors of a virtual accelerator say. All 0 without a profile.
struct SimReadings {
  double temperature = 0;  ///< degrees Celsius
  double power = 0;        ///< watts, now
  double clock = 0;        ///< share of the full rate; below 1 when throttled by heat
  double energy = 0;       ///< joules since the process first used the device
};
/// Throws DeviceError for a missing device.
SimReadings sim_readings(Device device);

}  // namespace brim
