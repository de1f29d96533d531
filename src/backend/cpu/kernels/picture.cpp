// picture_batch on the CPU: rows of pictures, as normalised floats.
#include <algorithm>

#include "backend/cpu/elementwise/loop.h"
#include "backend/kernel.h"
#include "backend/options/picture_options.h"
#include "core/check.h"
#include "formula/picture.h"

namespace brim::cpu {
namespace {

using backend::PictureOptions;
using formula::PictureWindow;

/// Columns [first, last) of a row of the window that lie inside a picture of `width` columns.
struct Inside {
  int first, last;

  Inside(const PictureWindow& window, int columns, int width) {
    const int left = std::clamp(-window.x, 0, columns);
    const int right = std::clamp(width - window.x, left, columns);
    first = window.mirrored ? columns - right : left;
    last = window.mirrored ? columns - left : right;
  }
};

void convert_row(const uint8_t* from, const PictureWindow& window, int columns, int width,
                 float mean, float std, float fill, float* to) {
  const Inside inside(window, columns, width);
  std::fill(to, to + inside.first, fill);
  std::fill(to + inside.last, to + columns, fill);
  if (window.mirrored) {
    const uint8_t* const last = from + formula::source_column(window, columns, 0);
    for (int i = inside.first; i < inside.last; ++i)
      to[i] = formula::normalized(*(last - i), mean, std);
  } else {
    const uint8_t* const first = from + window.x;
    for (int i = inside.first; i < inside.last; ++i)
      to[i] = formula::normalized(first[i], mean, std);
  }
}

void picture_batch(const Context&, const Tensor& pictures, const Tensor& labels,
                   const Tensor& windows, Tensor& position, Tensor& x, Tensor& y,
                   const PictureOptions& options) {
  const int64_t count = pictures.shape()[0], n = x.shape()[0];
  const int height = static_cast<int>(pictures.shape()[2]);
  const int width = static_cast<int>(pictures.shape()[3]);
  const int rows = static_cast<int>(x.shape()[2]), columns = static_cast<int>(x.shape()[3]);
  auto& row_of_batch = *static_cast<int64_t*>(position.raw());
  const int64_t begin = row_of_batch + options.offset;
  BRIM_CHECK(begin >= 0 && begin + n <= windows.shape()[0], IndexError,
             "[picture_batch] rows {} to {} of {} windows", begin, begin + n, windows.shape()[0]);
  const auto* const window = static_cast<const PictureWindow*>(windows.raw()) + begin;
  for (int64_t i = 0; i < n; ++i)
    BRIM_CHECK(window[i].picture >= 0 && window[i].picture < count, IndexError,
               "[picture_batch] picture {} of {}", window[i].picture, count);
  const auto* const from = static_cast<const uint8_t*>(pictures.raw());
  float* const to = static_cast<float*>(x.raw());
  const int64_t grain = std::max<int64_t>(1, kElementwiseGrain / std::max(columns, 1));
  parallel_for(n * 3 * rows, grain, [&](int64_t first, int64_t last) {
    for (int64_t line = first; line < last; ++line) {
      const PictureWindow& w = window[line / (3 * rows)];
      const int64_t channel = line / rows % 3;
      const int row = w.y + static_cast<int>(line % rows);
      const float mean = options.mean[static_cast<size_t>(channel)];
      const float std = options.std[static_cast<size_t>(channel)];
      const float fill = formula::normalized(options.fill, mean, std);
      float* const out = to + line * columns;
      if (row < 0 || row >= height)
        std::fill_n(out, columns, fill);
      else
        convert_row(from + ((w.picture * int64_t{3} + channel) * height + row) * width, w, columns,
                    width, mean, std, fill, out);
    }
  });
  for (int64_t i = 0; i < n; ++i)
    static_cast<int64_t*>(y.raw())[i] =
        static_cast<const int64_t*>(labels.raw())[window[i].picture];
  row_of_batch += options.advance;
}

const bool registered =
    backend::register_kernel("picture_batch", DeviceKind::cpu, DType::f32, &picture_batch);

}  // namespace
}  // namespace brim::cpu
