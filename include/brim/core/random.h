// Random numbers: Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011). A number is a function of (seed, offset, element), so every backend draws the same.
#pragma once

#include <cstdint>

namespace brim {

/// What one draw of random numbers needs: the numbers of the stream (seed, offset, part), from a
/// block of four on.
struct RandomKey {
  uint64_t seed = 0;    ///< which sequence
  uint64_t offset = 0;  ///< which draw of it
  uint64_t part = 0;    ///< see RandomParts
  uint64_t block = 0;   ///< that it begins with
  /// Whether all parts are equal.
  friend bool operator==(const RandomKey&, const RandomKey&) = default;
};

/// Hands out the keys of successive draws. Thread-safe.
class Generator {
 public:
  explicit Generator(uint64_t seed = 0);  ///< `seed`: which sequence; it begins with draw 0
  RandomKey next();                       ///< the key of one more op, and moves on behind it
  /// Of a draw for samples, which lie one after the other, so many numbers in this part: where they
  /// fill whole blocks of four, parts that draw equally many draw together what one part with all
  /// samples does, each its run of it. Draws of other numbers have a stream of their own.
  RandomKey next_of_samples(int64_t count);
  void manual_seed(uint64_t seed);  ///< begins the sequence of another seed
  RandomKey state() const;          ///< what the next call of next() would return, outside of parts
  void set_state(RandomKey state);  ///< of its seed and offset

  /// The generator that rand, randn, dropout and the initialisers use unless told otherwise: that
  /// of the thread's GeneratorScope, else one for the whole program.
  static Generator& global();

 private:
  friend class RandomParts;
  RandomKey draw(RandomKey place);
  RandomKey state_;
};

/// In this scope Generator::global() is this one for the thread. Scopes nest.
class GeneratorScope {
 public:
  explicit GeneratorScope(Generator& generator);  ///< `generator` must outlive the scope
  ~GeneratorScope();
  GeneratorScope(const GeneratorScope&) = delete;
  GeneratorScope& operator=(const GeneratorScope&) = delete;

 private:
  Generator* const outer_;
};

/// In this scope the thread draws for the parts of a batch, which are computed one after the other
/// or by several ranks: each of the `parts` has numbers of its own, and the generator goes on
/// behind the part that drew most. Dropout draws for samples (Generator::next_of_samples). So what
/// is drawn for a part does not depend on who computes it. Scopes do not nest (ValueError);
/// compiled steps may hold them.
class RandomParts {
 public:
  RandomParts(Generator& generator, int64_t parts);  ///< `parts`: how many there are, 1 or more
  ~RandomParts();
  RandomParts(const RandomParts&) = delete;
  RandomParts& operator=(const RandomParts&) = delete;
  /// From now on the numbers are those of `part`.
  void begin(uint64_t part);

 private:
  Generator& generator_;
  const RandomKey begin_;
  uint64_t furthest_;  // offset
};

/// Seeds Generator::global().
void manual_seed(uint64_t seed);

}  // namespace brim
