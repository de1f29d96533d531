// Bytes to floats by table (see to_float.h).
#include "data/transform/to_float.h"

namespace brim::data {
namespace {

// One row of one channel: table look-ups are exact and leave no rounding to the compiler. `step_to`
// is -1 for a mirrored row. Four at a time, for one look-up is as short as the loop's own work.
template <int step_to>
void look_up(const uint8_t* from, int step, int count, const float* table, float* to) {
  int x = 0;
  for (; x + 4 <= count; x += 4, from += 4 * step, to += 4 * step_to) {
    const float a = table[from[0]], b = table[from[step]];
    const float c = table[from[2 * step]], d = table[from[3 * step]];
    to[0] = a, to[step_to] = b, to[2 * step_to] = c, to[3 * step_to] = d;
  }
  for (; x < count; ++x, from += step, to += step_to) *to = table[*from];
}

void convert_row(const uint8_t* from, int step, int count, bool flip, const float* table,
                 float* to) {
  if (flip) return look_up<-1>(from, step, count, table, to + count - 1);
  if (step == 1) return look_up<1>(from, 1, count, table, to);
  look_up<1>(from, step, count, table, to);
}

}  // namespace

void to_float(const Window& window, const ByteTable& table, float* out) {
  const int channels = window.image.shape.channels;
  const int height = window.box.height, width = window.box.width;
  const bool planes = window.image.order == PixelOrder::chw;
  const int step = planes ? 1 : channels;
  const int64_t row_bytes = int64_t{step} * window.image.shape.width;
  const int64_t plane_bytes = planes ? row_bytes * window.image.shape.height : 1;
  int first, last;
  window.span(first, last);
  const bool cut = first > 0 || last < width;
  for (int c = 0; c < channels; ++c) {
    const float* const value = table[c].data();
    const uint8_t* const plane = window.image.pixels + c * plane_bytes;
    for (int y = 0; y < height; ++y, out += width) {
      const bool there = window.has_row(y);
      if (cut || !there) std::fill_n(out, width, value[window.fill]);
      if (!there) continue;
      const uint8_t* const row =
          plane + (window.box.y + y) * row_bytes + (int64_t{window.box.x} + first) * step;
      convert_row(row, step, last - first, window.flip, value,
                  out + (window.flip ? width - last : first));
    }
  }
}

}  // namespace brim::data
