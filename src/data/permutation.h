// A keyed permutation of 0 ... n-1 without a list: a Feistel network over the next even number of
// bits, walked along its cycle until the value is below n (Black and Rogaway 2002, "Ciphers with
// arbitrary finite domains"), whose rounds draw from Philox. Any position can be asked for at once,
// so sharding and resuming cost nothing.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "formula/philox.h"

namespace brim::data {

/// Permutes the numbers of 2 * half bits.
struct FeistelNetwork {
  static constexpr uint64_t kRounds = 6;

  BRIM_FORMULA uint64_t encrypt(uint64_t x) const {
    uint64_t left = x >> half, right = x & mask();
    for (uint64_t round = 0; round < kRounds; ++round) {
      const uint64_t mixed = left ^ (formula::random_bits({key, round}, right) & mask());
      left = right;
      right = mixed;
    }
    return left << half | right;
  }
  BRIM_FORMULA uint64_t mask() const { return (uint64_t{1} << half) - 1; }

  uint64_t key = 0;
  int half = 1;
};

class Permutation {
 public:
  /// n >= 1. The same (n, key) is the same permutation everywhere.
  Permutation(int64_t n, uint64_t key) : n_(static_cast<uint64_t>(n)) {
    const int bits = std::bit_width(n_ - 1);
    network_ = {key, bits <= 2 ? 1 : (bits + 1) / 2};
  }

  int64_t size() const { return static_cast<int64_t>(n_); }

  /// The element at `position`, 0 <= position < n.
  int64_t operator[](int64_t position) const {
    uint64_t x = static_cast<uint64_t>(position);
    do {
      x = network_.encrypt(x);
    } while (x >= n_);  // the domain is below 4n: fewer than 4 times on average
    return static_cast<int64_t>(x);
  }
  /// Replaces each position by its element: faster than one by one, as they go through the network
  /// side by side.
  void replace(std::span<int64_t> positions) const;

 private:
  uint64_t n_;
  FeistelNetwork network_;
};

}  // namespace brim::data
