// Keys of what is drawn at random (brim/data/keyed_random.h).
#pragma once

#include <cstdint>

#include <brim/data/keyed_random.h>

#include "core/hash.h"

namespace brim::data {

/// Folds up to four words into one key; each word passes through its own round.
constexpr uint64_t key64(uint64_t a, uint64_t b = 0, uint64_t c = 0, uint64_t d = 0) {
  uint64_t k = splitmix64(a);
  k = splitmix64(k + b);
  k = splitmix64(k + c);
  return splitmix64(k + d);
}

}  // namespace brim::data
