// Bilinear resampling with anti-aliasing, bit for bit as PIL's Image.resize(BILINEAR) does it (and
// so as torchvision does for PIL images): a triangle filter as wide as the reduction, 22-bit
// weights.
#pragma once

#include <brim/data/image.h>

#include <cstdint>

#include "core/check.h"

namespace brim::data {

/// A rectangle of pixels; it must lie inside the picture.
struct Box {
  int x = 0, y = 0, width = 0, height = 0;
};

/// Resamples `box` of `in` to height x width, interleaved, into `out` (which must not be `in`).
/// With `part` it makes only that rectangle of the result, and takes only the memory of that.
/// Throws FileError when it would need more than kMaxPixels.
void resample(const ImageView& in, const Box& box, int64_t height, int64_t width, const Box& part,
              Image& out);
void resample(const ImageView& in, const Box& box, int height, int width, Image& out);

/// Puts `name()` in front of the FileError that `body` throws.
template <class Name, class Body>
decltype(auto) with_name(const Name& name, const Body& body) {
  try {
    return body();
  } catch (const FileError& error) {
    raise<FileError>("{}: {}", name(), error.what());
  }
}

}  // namespace brim::data
