// Counter-based randomness for the data layer: every draw is a function of integers (seed, epoch,
// sample ...). Integer arithmetic only, so a value is the same on every compiler, machine and
// number of workers.
#pragma once

#include <cstdint>

namespace brim::data {

/// Finaliser of splitmix64 (Steele, Lea, Flood 2014): a bijection of 64-bit words with full
/// avalanche.
constexpr uint64_t mix64(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// Folds up to four words into one key; each word passes through its own round.
constexpr uint64_t key64(uint64_t a, uint64_t b = 0, uint64_t c = 0, uint64_t d = 0) {
  constexpr uint64_t kGolden = 0x9e3779b97f4a7c15ULL;
  uint64_t k = mix64(a + kGolden);
  k = mix64(k + b + kGolden);
  k = mix64(k + c + kGolden);
  return mix64(k + d + kGolden);
}

/// A short stream of random words under one key (splitmix64). Cheap to make: one per sample.
class KeyedRandom {
 public:
  explicit constexpr KeyedRandom(uint64_t key) : state_(key) {}

  constexpr uint64_t next() { return mix64(state_ += 0x9e3779b97f4a7c15ULL); }

  /// Uniform integer in [lo, hi] (bias below 2^-32 per unit of range).
  constexpr int uniform(int lo, int hi) {
    const uint64_t range = static_cast<uint64_t>(static_cast<int64_t>(hi) - lo) + 1;
    return lo + static_cast<int>(((next() >> 32) * range) >> 32);
  }

  /// Uniform real in [0, 1) with 24 bits, exact in float.
  constexpr float unit() { return static_cast<float>(next() >> 40) * (1.0f / 16777216.0f); }

 private:
  uint64_t state_;
};

}  // namespace brim::data
