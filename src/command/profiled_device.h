// The device that forecasts are made for.
#pragma once

#include <string>

#include "backend/sim/profile.h"

namespace brim::command {

/// Has sim:0 be the device of a profile, whose times nothing waits for. Throws what load_profile()
/// does.
sim::DeviceProfile use_profile(const std::string& name_or_path);

}  // namespace brim::command
