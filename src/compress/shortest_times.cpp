#include "compress/shortest_times.h"

#include <algorithm>
#include <limits>

#include "core/clock.h"
#include "core/runtime.h"

namespace brim::compress {

std::vector<double> shortest_times(const std::vector<std::function<void()>>& calls, Device device) {
  constexpr int kMinRounds = 5, kMaxRounds = 200;
  constexpr double kSeconds = 0.01;  // of each call, if rounds are that short
  std::vector<double> best(calls.size(), std::numeric_limits<double>::infinity());
  const double first = steady_seconds();
  for (int round = 0; round <= kMaxRounds; ++round) {
    const double elapsed = steady_seconds() - first;
    if (round > kMinRounds && elapsed > kSeconds * static_cast<double>(calls.size())) break;
    for (size_t i = 0; i < calls.size(); ++i) {
      const double begin = steady_seconds();
      calls[i]();
      synchronize(device);
      if (round > 0) best[i] = std::min(best[i], steady_seconds() - begin);
    }
  }
  return best;
}

}  // namespace brim::compress
