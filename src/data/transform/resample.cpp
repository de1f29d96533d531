// Two passes: rows first, then columns, each rounded to the bits of the picture.
#include "data/transform/resample.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>

#include "data/transform/resample_rows.h"
#include "formula/resample.h"

namespace brim::data {
namespace {

using formula::kWeightBits;
using Axis = formula::ResampleAxis;

// What holds a weighted sum of samples.
template <class T>
using Sum = std::conditional_t<sizeof(T) == 1, int32_t, int64_t>;

template <class T>
T round_down(Sum<T> sum) {
  return static_cast<T>(std::clamp<Sum<T>>(sum >> kWeightBits, 0, std::numeric_limits<T>::max()));
}

// A picture's pixels by coordinate.
template <class T>
struct Grid {
  const T* corner;
  ptrdiff_t step_x, step_y, step_c;

  explicit Grid(const BasicImageView<T>& in) : corner(in.pixels) {
    const bool planes = in.order == PixelOrder::chw;
    step_x = planes ? 1 : in.shape.channels;
    step_y = step_x * in.shape.width;
    step_c = planes ? ptrdiff_t{in.shape.height} * in.shape.width : 1;
  }
  const T* at(int x, int y) const { return corner + y * step_y + x * step_x; }
};

// One row of the first pass, of any order and number of channels.
template <class T>
void row_across(const Grid<T>& grid, const T* row, int channels, const Axis& axis, int width,
                T* to) {
  for (int x = 0; x < width; ++x) {
    const auto [first, count] = axis.taps[x];
    const int32_t* const weights = &axis.weights[static_cast<size_t>(x) * axis.max_taps];
    for (int c = 0; c < channels; ++c) {
      const T* const from = row + first * grid.step_x + c * grid.step_c;
      Sum<T> sum = 1 << (kWeightBits - 1);
      for (int k = 0; k < count; ++k) sum += Sum<T>{from[k * grid.step_x]} * weights[k];
      *to++ = round_down<T>(sum);
    }
  }
}

// Rows of 16 bits; for 8 there is vector code.
void resample_down(const uint16_t* rows, int64_t pitch, int count, const int32_t* weights,
                   int64_t samples, uint16_t* to) {
  for (int64_t i = 0; i < samples; ++i) {
    int64_t sum = 1 << (kWeightBits - 1);
    for (int k = 0; k < count; ++k) sum += int64_t{rows[k * pitch + i]} * weights[k];
    to[i] = round_down<uint16_t>(sum);
  }
}

template <class T>
void copy_row(const Grid<T>& grid, const T* row, int channels, int width, T* to) {
  for (int x = 0; x < width; ++x) {
    for (int c = 0; c < channels; ++c) *to++ = row[x * grid.step_x + c * grid.step_c];
  }
}

}  // namespace

template <class T>
void resample(const BasicImageView<T>& in, const Area& area, int64_t height, int64_t width,
              const Box& part, BasicImage<T>& out, Filter filter) {
  const int channels = in.shape.channels;
  Axis down(area.y, area.height, height), across(area.x, area.width, width);
  // Only the rows that the part is made of.
  const bool nearest = filter == Filter::nearest;
  if (!down.same) down.weigh(part.y, part.height, nearest);
  const int top = down.same ? part.y : down.taps.front().first;
  const int bottom =
      down.same ? part.y + part.height : down.taps.back().first + down.taps.back().count;
  const int64_t pixels = std::max<int64_t>(bottom - top, part.height) * part.width;
  BRIM_CHECK(pixels <= kMaxPixels, FileError,
             "a picture of {} x {} is too oblong to be resized to {} x {}: that takes {} pixels, "
             "more than the limit of {}; crop it first",
             across.end - across.begin, down.end - down.begin, width, height, pixels, kMaxPixels);
  if (!across.same) across.weigh(part.x, part.width, nearest);
  out.width = part.width;
  out.height = part.height;
  out.channels = channels;
  out.pixels.resize(static_cast<size_t>(out.shape().bytes()));

  static thread_local std::vector<T> rows;  // those rows, `part.width` pixels, interleaved
  const Grid<T> grid(in);
  const size_t row_samples = static_cast<size_t>(part.width) * channels;
  const size_t pitch = row_samples + 1;  // vectors write a byte behind a row
  rows.resize(pitch * (bottom - top));
  // They also read a byte behind it: the last row of the picture goes without them.
  const bool vectors = channels == 3 && grid.step_x == 3 && !across.same;
  const int last_row = across.end == in.shape.width ? in.shape.height - 1 : in.shape.height;
  for (int y = top; y < bottom; ++y) {
    const T* row = grid.at(across.begin, down.begin + y);
    T* const to = &rows[pitch * (y - top)];
    if (across.same) {
      copy_row(grid, row + part.x * grid.step_x, channels, part.width, to);
      continue;
    }
    if constexpr (sizeof(T) == 1) {
      if (vectors && y + 1 < bottom && down.begin + y + 1 < last_row) {
        resample_across(row, grid.step_y, across.taps.data(), across.weights.data(),
                        across.max_taps, part.width, to, static_cast<int64_t>(pitch));
        ++y;  // two at a time
        continue;
      }
    }
    row_across(grid, row, channels, across, part.width, to);
  }
  for (int y = 0; y < part.height; ++y) {
    T* const to = &out.pixels[y * row_samples];
    if (down.same) {
      std::copy_n(&rows[y * pitch], row_samples, to);
      continue;
    }
    const auto [first, count] = down.taps[y];
    resample_down(&rows[(first - top) * pitch], static_cast<int64_t>(pitch), count,
                  &down.weights[static_cast<size_t>(y) * down.max_taps],
                  static_cast<int64_t>(row_samples), to);
  }
}

template void resample(const BasicImageView<uint8_t>&, const Area&, int64_t, int64_t, const Box&,
                       BasicImage<uint8_t>&, Filter);
template void resample(const BasicImageView<uint16_t>&, const Area&, int64_t, int64_t, const Box&,
                       BasicImage<uint16_t>&, Filter);

void resample(const ImageView& in, const Box& box, int height, int width, Image& out) {
  resample(in, box, height, width, {0, 0, width, height}, out);
}

}  // namespace brim::data
