// Bilinear resampling with anti-aliasing, bit for bit as PIL's Image.resize(BILINEAR) does it (and
// so as torchvision does for PIL images): a triangle filter as wide as the reduction, 22-bit
// weights.
#pragma once

#include <brim/data/image.h>

namespace brim::data {

/// A rectangle of pixels; it must lie inside the picture.
struct Box {
  int x = 0, y = 0, width = 0, height = 0;
};

/// Resamples `box` of `in` to height x width, interleaved, into `out` (which must not be `in`).
void resample(const ImageView& in, const Box& box, int height, int width, Image& out);

}  // namespace brim::data
