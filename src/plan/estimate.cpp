#include "plan/estimate.h"

#include <brim/core/threads.h>

#include <algorithm>

#include "backend/launch_policy.h"
#include "plan/traffic.h"

namespace brim::plan {

double estimated_seconds(const Launch& launch) {
  // What kernels reach on a core of a server with AVX2, and what one core moves.
  constexpr double kOperations = 60e9, kBytes = 10e9, kLaunch = 1e-6;
  const double operations = std::max(0.0, launch.operations());
  const auto bytes = static_cast<double>(bytes_of(launch));
  if (const auto estimate = backend::launch_policy(launch.device().kind).estimate)
    if (const double seconds = estimate(launch.device(), launch.dtype(), operations, bytes);
        seconds > 0)
      return seconds;
  return kLaunch + std::max(operations / kOperations, bytes / kBytes) / num_threads();
}

}  // namespace brim::plan
