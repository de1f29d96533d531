// Clocks: one for durations, one for dates.
#pragma once

#include <chrono>

namespace brim {

/// Seconds of a clock that only goes on; only differences mean anything.
inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Seconds since 1970; they jump where the system's clock is set.
inline double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace brim
