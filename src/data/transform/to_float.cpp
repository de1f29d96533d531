// Interleaved pixels row by row, so that what a row needs stays in the first cache.
#include "data/transform/to_float.h"

#include <algorithm>
#include <array>
#include <vector>

namespace brim::data {
namespace {

// Splits `count` interleaved pixels into rows that are `pitch` apart.
template <class T>
void split_channels(const T* from, int count, size_t channels, T* to, int64_t pitch) {
  if constexpr (sizeof(T) == 1) {
    if (channels == 3) return split_rgb(from, count, to, to + pitch, to + 2 * pitch);
  }
  for (size_t c = 0; c < channels; ++c, to += pitch)
    for (int i = 0; i < count; ++i) to[i] = from[channels * static_cast<size_t>(i) + c];
}

template <class T, class Scale>
void write_floats(const BasicWindow<T>& window, std::span<const Scale> scales, float* out) {
  const size_t channels = scales.size();
  const int height = window.box.height, width = window.box.width;
  const bool planes = window.image.order == PixelOrder::chw;
  const int64_t step = planes ? 1 : static_cast<int64_t>(channels);
  const int64_t row_samples = step * window.image.shape.width;
  // From a channel's samples to the next one's, of the picture or of what was split.
  const int64_t next = planes ? row_samples * window.image.shape.height : width;
  const int64_t plane = int64_t{height} * width;
  int first, last;
  window.span(first, last);
  const int count = last - first;
  const int at = window.flip ? width - last : first;
  int top, bottom;
  window.span_rows(top, bottom);
  if (count == 0) bottom = top;
  // Where rows have a margin, all of the plane at once, and pixels over it: margins are short.
  const int64_t above = count < width ? plane : int64_t{top} * width;
  const int64_t below = count < width ? 0 : int64_t{height - bottom} * width;
  for (size_t c = 0; c < channels && above + below > 0; ++c) {
    float* const begin = out + static_cast<int64_t>(c) * plane;
    fill_floats(begin, above, scales[c](window.fill));
    fill_floats(begin + plane - below, below, scales[c](window.fill));
  }
  if (bottom == top) return;
  const T* from = window.image.pixels + (window.box.y + top) * row_samples +
                  (int64_t{window.box.x} + first) * step;
  float* to = out + int64_t{top} * width + at;
  if (planes) {
    for (size_t c = 0; c < channels; ++c, from += next, to += plane)
      scales[c].convert({from, row_samples, to, width, count, bottom - top, window.flip});
    return;
  }
  static thread_local std::vector<T> memory;
  memory.resize(channels * static_cast<size_t>(width));
  T* const split = memory.data();
  for (int y = top; y < bottom; ++y, from += row_samples, to += width) {
    split_channels(from, count, channels, split, width);
    for (size_t c = 0; c < channels; ++c)
      scales[c].convert({split + static_cast<int64_t>(c) * next, 0,
                         to + static_cast<int64_t>(c) * plane, 0, count, 1, window.flip});
  }
}

}  // namespace

void to_float(const Window& window, std::span<const ByteScale> scales, float* out) {
  write_floats(window, scales, out);
}

void to_float(const Window16& window, std::span<const WordScale> scales, float* out) {
  write_floats(window, scales, out);
}

void to_classes(const Window& mask, int64_t* out) {
  const int height = mask.box.height, width = mask.box.width;
  int first, last;
  mask.span(first, last);
  for (int y = 0; y < height; ++y, out += width) {
    std::fill_n(out, width, mask.fill);
    for (int x = first; x < last && mask.has_row(y); ++x)
      out[mask.flip ? width - 1 - x : x] = mask.image.at(0, mask.box.y + y, mask.box.x + x);
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
