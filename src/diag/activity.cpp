#include <brim/diag/activity.h>

#include <algorithm>

#include "diag/span.h"

namespace brim::diag {

Doing Activity::read() const {
  Doing doing;
  const uint32_t depth = std::min(depth_.load(std::memory_order_relaxed), kDepth);
  for (uint32_t i = 0; i < depth; ++i)
    if (const char* const name = names_[i].load(std::memory_order_relaxed))
      doing.spans.emplace_back(name);
  doing.cause = cause_.load(std::memory_order_relaxed);
  const uint64_t since = since_.load(std::memory_order_relaxed), now = ticks();
  if (since != 0 && now > since)
    doing.seconds = static_cast<double>(now - since) * 1e-6 / ticks_per_us();
  return doing;
}

}  // namespace brim::diag
