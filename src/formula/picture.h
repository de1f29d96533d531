// From the bytes of a picture to the numbers that a network takes, and where a cropped and mirrored
// one finds its pixels. Without a product that is added to anything, so every compiler gives the
// same bits.
#pragma once

#include <cstdint>

#include <brim/formula/formula.h>

namespace brim::formula {

/// (x / 255 - mean) / std, each operation rounded as IEEE 754 says.
BRIM_FORMULA float normalized(uint8_t x, float mean, float std) {
  return (static_cast<float>(x) / 255.0f - mean) / std;
}

/// The same for 16 bits: (x / 65535 - mean) / std.
BRIM_FORMULA float normalized(uint16_t x, float mean, float std) {
  return (static_cast<float>(x) / 65535.0f - mean) / std;
}

/// What one sample of a batch shows of which picture: a row of an i32 tensor (N, 4).
struct PictureWindow {
  int32_t picture = 0;   ///< its number
  int32_t y = 0, x = 0;  ///< the window's corner in it; what reaches over the edge is filled
  int32_t mirrored = 0;  ///< left and right are exchanged inside the window
};

/// The column of the picture that column `i` of a window of `width` columns shows.
BRIM_FORMULA int source_column(const PictureWindow& window, int width, int i) {
  return window.x + (window.mirrored ? width - 1 - i : i);
}

}  // namespace brim::formula
