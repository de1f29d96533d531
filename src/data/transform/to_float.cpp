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

}  // namespace brim::data
