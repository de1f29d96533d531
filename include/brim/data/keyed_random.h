// Counter-based randomness for data: every draw is a function of integers (seed, epoch, sample
// ...). Integer arithmetic only, so a value is the same on every compiler, machine and number of
// workers.
#pragma once

#include <cstdint>

namespace brim::data {

/// A short stream of random words under one key (splitmix64). Cheap to make: one per sample.
class KeyedRandom {
 public:
  /// The same key gives the same numbers.
  explicit constexpr KeyedRandom(uint64_t key) : state_(key) {}

  uint64_t next();  ///< 64 random bits

  /// Uniform integer in [lo, hi] (bias below 2^-32 per unit of range).
  int uniform(int lo, int hi) {
    const uint64_t range = static_cast<uint64_t>(static_cast<int64_t>(hi) - lo) + 1;
    return lo + static_cast<int>(((next() >> 32) * range) >> 32);
  }

  /// Uniform real in [0, 1) with 24 bits, exact in float.
  float unit() { return static_cast<float>(next() >> 40) * (1.0f / 16777216.0f); }

 private:
  uint64_t state_;
};

}  // namespace brim::data
