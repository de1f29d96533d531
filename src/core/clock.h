// A clock for durations.
#pragma once

#include <chrono>

namespace brim {

/// Seconds of a clock that only goes on; only differences mean anything.
inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace brim
