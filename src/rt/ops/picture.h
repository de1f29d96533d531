// Pictures of a camera as a network's first layer reads them.
#pragma once

#include <cstdint>

#include "rt/step.h"

namespace brim::rt {

/// x: u8 (n, h, w, c), table: f32 (c, 256), y: f32 (n, oh, ow, c), with c from 1 to 4:
/// y[.., k] = table[k, x'[.., is_reversed ? c - 1 - k : k]], where x' is x resampled as
/// formula/resample.h does it, or x itself.
///
/// Resampled pictures have two more inputs, the weights of rows and of columns: i32 (oh, row_taps)
/// and (ow, column_taps); and a word more for each row, then for each column of y: the first
/// pixel that it is made of, and behind 32 bits how many there are.
struct PictureAttributes {
  int64_t is_reversed = 0;
  int64_t row_taps = 0, column_taps = 0;  ///< at most; 0: not resampled
};

inline constexpr int64_t kMaxPictureChannels = 4;
inline constexpr int64_t kMaxPictureSide = int64_t{1} << 15;

constexpr int64_t taps_word(int64_t first, int64_t count) { return first | (count << 32); }

}  // namespace brim::rt
