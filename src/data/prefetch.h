// Memory that is asked for before it is read.
#pragma once

#include <algorithm>
#include <cstdint>

namespace brim::data {

/// Fetches the first cache lines of `bytes`; the CPU follows a longer walk by itself.
inline void prefetch(const void* memory, int64_t bytes) {
  constexpr int64_t kLine = 64, kMaxBytes = 64 * kLine;
  const char* const from = static_cast<const char*>(memory);
  for (int64_t at = 0; at < std::min(bytes, kMaxBytes); at += kLine) __builtin_prefetch(from + at);
  // GCC takes a function that only prefetches for one without effects, and drops the calls of it.
  asm volatile("");
}

}  // namespace brim::data
