#include "command/profiled_device.h"

#include <brim/core/sim.h>

#include <algorithm>

namespace brim::command {

sim::DeviceProfile use_profile(const std::string& name_or_path) {
  sim::DeviceProfile profile = sim::load_profile(name_or_path);
  SimOptions options = sim_options();
  options.devices = std::max(options.devices, 1);
  options.profile = name_or_path;
  options.slowdown = 1;
  options.paced = false;
  set_sim_options(options);
  return profile;
}

}  // namespace brim::command
