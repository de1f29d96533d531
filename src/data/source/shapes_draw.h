// Draws the samples of shapes-masks and shapes-labels from (seed, split, index), with the same
// pixels on every machine and compiler.
#pragma once

#include <array>
#include <cstdint>

#include "data/source/drawing.h"

namespace brim::data::drawing {

inline constexpr int kMaskSide = 64, kLabelSide = 32;

/// The shapes of a mask: value k + 1 is kMaskKinds[k], 0 the background.
inline constexpr std::array kMaskKinds = {kCircle, kSquare, kTriangle};

/// What labels tell of, in their order.
inline constexpr std::array kLabelKinds = {kCircle, kCross, kRing, kSquare, kStar, kTriangle};

/// One to three shapes that do not overlap, over noise: 3 planes of pixels, and a mask.
void draw_masked(uint64_t seed, int split, int64_t index, uint8_t* pixels, uint8_t* mask);

/// None to four different shapes, one in each quarter: 3 planes of pixels.
void draw_labelled(uint64_t seed, int split, int64_t index, uint8_t* pixels,
                   std::array<bool, kLabelKinds.size()>& present);

}  // namespace brim::data::drawing
