// About how long launches take, where nobody has measured them: by arithmetic and memory traffic.
#pragma once

#include "plan/program.h"

namespace brim::plan {

/// Seconds by the roofline of the launch's device; on a CPU that of a common core, times the
/// threads.
double estimated_seconds(const Launch& launch);

}  // namespace brim::plan
