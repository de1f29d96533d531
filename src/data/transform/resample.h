// Bilinear resampling with anti-aliasing: a triangle filter as wide as the reduction, 22-bit
// weights. Of grey and RGB of 8 bits it is bit for bit as PIL's Image.resize(BILINEAR) does it (and
// so as torchvision does for PIL images).
#pragma once

#include <brim/data/image.h>

#include <cstdint>

#include "core/check.h"
#include "data/image/box.h"

namespace brim::data {

/// A rectangle whose edges may lie inside pixels.
struct Area {
  double x = 0, y = 0, width = 0, height = 0;

  Area(double left, double top, double wide, double tall)
      : x(left), y(top), width(wide), height(tall) {}
  Area(const Box& box) : Area(box.x, box.y, box.width, box.height) {}  // NOLINT
};

enum class Filter : uint8_t {
  bilinear,  ///< the triangle
  nearest,   ///< the pixel at the middle of the output's place: for numbers that are no brightness
};

/// Resamples `area` of `in` (it must lie inside) to height x width and makes the rectangle `part`
/// of the result, interleaved, in `out` (which must not be `in`); it takes only the memory of that.
/// No pixel beside those that the area touches is looked at. Throws FileError when it would need
/// more than kMaxPixels.
template <class T>
void resample(const BasicImageView<T>& in, const Area& area, int64_t height, int64_t width,
              const Box& part, BasicImage<T>& out, Filter filter = Filter::bilinear);

/// The whole of the result.
void resample(const ImageView& in, const Box& box, int height, int width, Image& out);

/// Puts `name()` in front of the FileError or ShapeError that `body` throws.
template <class Name, class Body>
decltype(auto) with_name(const Name& name, const Body& body) {
  try {
    return body();
  } catch (const FileError& error) {
    raise<FileError>("{}: {}", name(), error.what());
  } catch (const ShapeError& error) {
    raise<ShapeError>("{}: {}", name(), error.what());
  }
}

}  // namespace brim::data
