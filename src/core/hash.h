// Hashes that tell things apart; none of them is made against forgery.
#pragma once

#include <cstddef>
#include <cstdint>

namespace brim {

/// What splitmix64 adds to its state for each word: 2^64 over the golden ratio, odd.
inline constexpr uint64_t kSplitMixStep = 0x9e3779b97f4a7c15ULL;

/// Finaliser of splitmix64 (Steele, Lea, Flood 2014): a bijection of 64-bit words with full
/// avalanche.
constexpr uint64_t mix64(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// The word that splitmix64 makes of state `x`.
constexpr uint64_t splitmix64(uint64_t x) { return mix64(x + kSplitMixStep); }

/// XXH64 (Collet, github.com/Cyan4973/xxHash, doc/xxhash_spec.md).
uint64_t xxh64(const void* data, size_t bytes, uint64_t seed = 0);

}  // namespace brim
