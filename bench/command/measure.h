// Times a step the way bench/compare/measure.py does: the median over blocks of at least a
// millisecond.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <brim/core/device.h>

namespace brim::command {

/// Microseconds per step; the quantiles are over blocks of steps.
struct Timing {
  double median = 0;
  double p10 = 0;
  double p90 = 0;
  double cpu = 0;     ///< CPU time of all threads, mean; steady where others use the machine too
  int64_t steps = 0;  ///< timed ones, without the warm-up
  std::optional<double> joules;  ///< of the device, for all of these; empty without a counter
};

/// How long a measurement takes: so many seconds, and at least so many steps and blocks.
struct Effort {
  double seconds = 1;
  double warm_up = 0.3;  ///< seconds before, unmeasured
  int64_t warm_up_steps = 3;
  int64_t blocks = 5;
};

/// Runs `step` unmeasured, then in blocks of a millisecond. A device with a queue of its own gets
/// blocks of 20 ms, queued at once and waited for at their ends only. Throws what the steps met,
/// then or earlier.
Timing measure(const std::function<void()>& step, const Effort& effort, Device device = {});

/// Of at least one value; of an even number the upper one of the middle.
double median(std::vector<double> values);

}  // namespace brim::command
