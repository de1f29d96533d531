// How long a launch takes by itself.
#pragma once

#include "backend/launch.h"

namespace brim::plan {

/// Seconds of a run, in memory of its own: the best of some, on a device those of launches that are
/// queued behind each other. Throws what the kernel throws, and OutOfMemory.
double launch_time(backend::Launch& launch);

}  // namespace brim::plan
