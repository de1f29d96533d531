// Row by row, so that what a row needs stays in the first cache.
#include "data/transform/to_float.h"

#include <algorithm>
#include <vector>

namespace brim::data {

void to_float(const Window& window, const std::array<ByteScale, 3>& scales, float* out) {
  const int height = window.box.height, width = window.box.width;
  const bool planes = window.image.order == PixelOrder::chw;
  const int64_t step = planes ? 1 : 3;
  const int64_t row_bytes = step * window.image.shape.width;
  const int64_t plane_bytes = planes ? row_bytes * window.image.shape.height : 0;
  const int64_t plane = int64_t{height} * width;
  int first, last;
  window.span(first, last);
  const int count = last - first;
  const int at = window.flip ? width - last : first;
  static thread_local std::vector<uint8_t> split;
  if (!planes) split.resize(3 * static_cast<size_t>(width));
  for (int y = 0; y < height; ++y, out += width) {
    const bool there = window.has_row(y);
    for (size_t c = 0; c < 3 && (count < width || !there); ++c)
      std::fill_n(out + static_cast<int64_t>(c) * plane, width, scales[c](window.fill));
    if (!there || count == 0) continue;
    const uint8_t* const row = window.image.pixels + (window.box.y + y) * row_bytes +
                               (int64_t{window.box.x} + first) * step;
    std::array<const uint8_t*, 3> from = {row, row + plane_bytes, row + 2 * plane_bytes};
    if (!planes) {
      uint8_t* const red = split.data();
      split_rgb(row, count, red, red + width, red + 2 * int64_t{width});
      from = {red, red + width, red + 2 * int64_t{width}};
    }
    for (size_t c = 0; c < 3; ++c)
      scales[c].convert(from[c], count, window.flip, out + static_cast<int64_t>(c) * plane + at);
  }
}

void to_planes(const Window& window, uint8_t* out) {
  const int height = window.box.height, width = window.box.width;
  const ImageView& image = window.image;
  const int64_t plane = int64_t{height} * width;
  int first, last;
  window.span(first, last);
  const int count = last - first;
  for (int y = 0; y < height; ++y, out += width) {
    std::array<uint8_t*, 3> to = {out, out + plane, out + 2 * plane};
    const bool there = window.has_row(y) && count > 0;
    for (size_t c = 0; c < 3 && (count < width || !there); ++c)
      std::fill_n(to[c], width, window.fill);
    if (!there) continue;
    for (uint8_t*& row : to) row += window.flip ? width - last : first;
    const int64_t at = int64_t{window.box.y + y} * image.shape.width + window.box.x + first;
    if (image.order == PixelOrder::chw) {
      const int64_t from = int64_t{image.shape.height} * image.shape.width;
      for (int c = 0; c < 3; ++c)
        std::copy_n(image.pixels + c * from + at, count, to[static_cast<size_t>(c)]);
    } else {
      split_rgb(image.pixels + 3 * at, count, to[0], to[1], to[2]);
    }
    if (window.flip)
      for (uint8_t* row : to) std::reverse(row, row + count);
  }
}

}  // namespace brim::data
