// Draws one image of shapes10: a 32x32 RGB picture of one of ten shapes, from (seed, split, index).
// Integer arithmetic only, so the pixels are the same on every machine and compiler.
#pragma once

#include <cstdint>

namespace brim::data::shapes10 {

inline constexpr int kSide = 32;
inline constexpr int kPixels = kSide * kSide;
inline constexpr int kClasses = 10;
inline constexpr int64_t kTrain = 10000;
inline constexpr int64_t kTest = 2000;

/// The label of a sample, a drawing::Kind: classes take turns, so every split is exactly balanced.
constexpr int64_t label(int64_t index) { return index % kClasses; }

/// Draws sample `index` into `out`: 3 planes (red, green, blue) of kSide rows of kSide bytes.
void draw(uint64_t seed, int split, int64_t index, uint8_t* out);

}  // namespace brim::data::shapes10
