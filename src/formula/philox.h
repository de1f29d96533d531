// Philox 4x32-10, the counter-based random numbers of Salmon et al., "Parallel random numbers: as
// easy as 1, 2, 3", SC 2011. A draw is a pure function of (key, element), on every backend.
#pragma once

#include <cmath>
#include <cstdint>

#include <brim/core/random.h>
#include <brim/formula/formula.h>

#include "formula/wide_math.h"

namespace brim::formula {

/// One counter, or the four random words it maps to.
struct Words {
  uint32_t w[4];
};

/// Multipliers of the counter, and what is added to the key after each round.
inline constexpr uint32_t kPhiloxM0 = 0xD2511F53u, kPhiloxM1 = 0xCD9E8D57u;
inline constexpr uint32_t kPhiloxW0 = 0x9E3779B9u, kPhiloxW1 = 0xBB67AE85u;

BRIM_FORMULA Words philox4x32(Words c, uint32_t k0, uint32_t k1) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{kPhiloxM0} * c.w[0];
    const uint64_t b = uint64_t{kPhiloxM1} * c.w[2];
    c = {{static_cast<uint32_t>(b >> 32) ^ c.w[1] ^ k0, static_cast<uint32_t>(b),
          static_cast<uint32_t>(a >> 32) ^ c.w[3] ^ k1, static_cast<uint32_t>(a)}};
    k0 += kPhiloxW0;
    k1 += kPhiloxW1;
  }
  return c;
}

/// The second word of a draw's key. Parts differ in it, the first one has the seed's own.
BRIM_FORMULA uint32_t second_key(const RandomKey& key) {
  const uint64_t part = key.part * 0x9e3779b97f4a7c15ULL;
  return static_cast<uint32_t>(key.seed >> 32) ^ static_cast<uint32_t>(part >> 32);
}

/// Words 4 * block .. 4 * block + 3 of the draw `key`.
BRIM_FORMULA Words random_block(const RandomKey& key, uint64_t block) {
  block += key.block;
  return philox4x32({{static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                      static_cast<uint32_t>(key.offset), static_cast<uint32_t>(key.offset >> 32)}},
                    static_cast<uint32_t>(key.seed), second_key(key));
}

/// [0, 1) with 24 random bits: exact in f32, so comparisons with it agree everywhere.
BRIM_FORMULA float unit_f32(uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

/// Where a word is below this in its upper 24 bits, an element is dropped with probability p.
/// Exact, so every dtype and backend drops the same elements.
inline uint32_t drop_limit(double p) { return static_cast<uint32_t>(std::ceil(p * 0x1p24)); }

/// [0, 1) with 53 random bits.
BRIM_FORMULA double unit_f64(uint32_t high, uint32_t low) {
  return static_cast<double>(((uint64_t{high} << 32) | low) >> 11) * 0x1p-53;
}

/// Two independent numbers of the standard normal distribution (Box and Muller 1958).
struct NormalPair {
  double a, b;
};
/// From u in (0, 1] and v in [0, 1). In f64, so that backends agree after rounding to f32.
BRIM_FORMULA NormalPair box_muller(double u, double v) {
  const double r = std::sqrt(-2 * log_on_unit_interval(u));
  double sin, cos;
  sin_cos_2pi(v, sin, cos);
  return {r * cos, r * sin};
}
/// Two to be rounded to f32, from a word each.
BRIM_FORMULA NormalPair normal_pair(uint32_t u, uint32_t v) {
  return box_muller((to_double(u) + 1) * 0x1p-32, to_double(v) * 0x1p-32);
}

/// How many elements of each kind one block of words makes: 4 uniform or normal f32 (and smaller
/// types), 2 of f64. Element i is number i % kPerBlock of block i / kPerBlock.
template <class T>
inline constexpr int kPerBlock = sizeof(T) == 8 ? 2 : 4;

/// Fills out[0 .. kPerBlock<T>) with the uniform numbers in [0, 1) of a block.
template <class T>
BRIM_FORMULA void uniform_block(const RandomKey& key, uint64_t block, T* out) {
  const Words r = random_block(key, block);
  if constexpr (kPerBlock<T> == 2) {
    for (int i = 0; i < 2; ++i) out[i] = unit_f64(r.w[2 * i], r.w[2 * i + 1]);
  } else {
    for (int i = 0; i < 4; ++i) out[i] = unit_f32(r.w[i]);
  }
}

/// The same for normal numbers (mean 0, standard deviation 1).
template <class T>
BRIM_FORMULA void normal_block(const RandomKey& key, uint64_t block, T* out) {
  const Words r = random_block(key, block);
  if constexpr (kPerBlock<T> == 2) {
    const NormalPair p = box_muller(1 - unit_f64(r.w[0], r.w[1]), unit_f64(r.w[2], r.w[3]));
    out[0] = p.a;
    out[1] = p.b;
  } else {
    for (int i = 0; i < 4; i += 2) {
      const NormalPair p = normal_pair(r.w[i], r.w[i + 1]);
      out[i] = static_cast<T>(p.a);
      out[i + 1] = static_cast<T>(p.b);
    }
  }
}

/// 64 random bits for element i.
BRIM_FORMULA uint64_t random_bits(const RandomKey& key, uint64_t i) {
  const Words r = random_block(key, i / 2);
  const bool is_second = i % 2 != 0;  // not an index: an array that is indexed lies in memory
  return (uint64_t{is_second ? r.w[2] : r.w[0]} << 32) | (is_second ? r.w[3] : r.w[1]);
}

}  // namespace brim::formula
