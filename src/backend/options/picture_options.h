// What the kernel "picture_batch" is told beside its tensors.
#pragma once

#include <array>
#include <cstdint>

#include <brim/core/same_bits.h>

namespace brim::backend {

struct PictureOptions {
  std::array<float, 3> mean{}, std{1, 1, 1};  ///< of the channels, in [0, 1]
  uint8_t fill = 0;                           ///< instead of pixels, beyond a picture's edges
  int64_t offset = 0;                         ///< added to the position
  int64_t advance = 0;                        ///< what the position is moved on by, afterwards
  friend bool operator==(const PictureOptions& x, const PictureOptions& y) {
    return same_bits(x.mean, y.mean) && same_bits(x.std, y.std) && x.fill == y.fill &&
           x.offset == y.offset && x.advance == y.advance;
  }
};

}  // namespace brim::backend
