// Random numbers: Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011). A number is a function of (seed, offset, element), so every backend draws the same.
#pragma once

#include <cstdint>

namespace brim {

/// What one draw of random numbers needs: elements 0, 1, 2, ... of the stream (seed, offset).
struct RandomKey {
  uint64_t seed = 0;
  uint64_t offset = 0;
  friend bool operator==(const RandomKey&, const RandomKey&) = default;
};

/// Hands out the keys of successive draws. Thread-safe.
class Generator {
 public:
  explicit Generator(uint64_t seed = 0);
  RandomKey next();
  void manual_seed(uint64_t seed);
  RandomKey state() const;  ///< what the next call of next() would return
  void set_state(RandomKey state);

  /// The generator that rand, randn, dropout and the initialisers use unless told otherwise.
  static Generator& global();

 private:
  RandomKey state_;
};

/// Seeds Generator::global().
void manual_seed(uint64_t seed);

}  // namespace brim
