// Two passes: rows first, then columns, each rounded to 8 bits.
#include "data/transform/resample.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace brim::data {
namespace {

constexpr int kBits = 22;  // 8-bit samples times weights must stay within 31 bits

// Weights of the inputs of outputs [begin, begin + count) along one axis.
struct Axis {
  struct Span {
    int first, count;
  };
  std::vector<Span> spans;
  std::vector<int32_t> weights;  // `most` per output
  int most = 0;

  Axis(int in, int64_t out, int64_t begin, int outputs) {
    const double scale = static_cast<double>(in) / static_cast<double>(out);
    const double support = std::max(scale, 1.0);
    most = static_cast<int>(std::ceil(support)) * 2 + 1;
    spans.resize(static_cast<size_t>(outputs));
    weights.assign(static_cast<size_t>(outputs) * most, 0);
    std::vector<double> taps(static_cast<size_t>(most));
    for (int i = 0; i < outputs; ++i) {
      const double centre = (static_cast<double>(begin + i) + 0.5) * scale;
      const int first = std::max(0, static_cast<int>(centre - support + 0.5));
      const int count = std::min(in, static_cast<int>(centre + support + 0.5)) - first;
      double sum = 0;
      for (int k = 0; k < count; ++k) {
        taps[k] = std::max(0.0, 1 - std::abs((k + first - centre + 0.5) / support));
        sum += taps[k];
      }
      for (int k = 0; k < count; ++k) {
        weights[static_cast<size_t>(i) * most + k] =
            static_cast<int32_t>(0.5 + taps[k] / sum * (1 << kBits));
      }
      spans[i] = {first, count};
    }
  }
};

uint8_t round_down(int sum) { return static_cast<uint8_t>(std::clamp(sum >> kBits, 0, 255)); }

}  // namespace

void resample(const ImageView& in, const Box& box, int64_t height, int64_t width, const Box& part,
              Image& out) {
  const int channels = in.shape.channels;
  const bool planes = in.order == PixelOrder::chw;
  const ptrdiff_t step_x = planes ? 1 : channels;
  const ptrdiff_t step_y = step_x * in.shape.width;
  const ptrdiff_t step_c = planes ? ptrdiff_t{in.shape.height} * in.shape.width : 1;

  // Only the rows that the part is made of.
  const bool same_height = height == box.height, same_width = width == box.width;
  const Axis down = same_height ? Axis(1, 1, 0, 0) : Axis(box.height, height, part.y, part.height);
  const int top = same_height ? part.y : down.spans.front().first;
  const int bottom =
      same_height ? part.y + part.height : down.spans.back().first + down.spans.back().count;
  const int64_t pixels = std::max<int64_t>(bottom - top, part.height) * part.width;
  BRIM_CHECK(pixels <= kMaxPixels, FileError,
             "a picture of {} x {} is too oblong to be resized to {} x {}: that takes {} pixels, "
             "more than the limit of {}; crop it first",
             box.width, box.height, width, height, pixels, kMaxPixels);
  out.width = part.width;
  out.height = part.height;
  out.channels = channels;
  out.pixels.resize(static_cast<size_t>(out.shape().bytes()));

  static thread_local std::vector<uint8_t> rows;  // those rows, `part.width` pixels, interleaved
  const uint8_t* const corner = in.pixels + (box.y + top) * step_y + box.x * step_x;
  const size_t row_bytes = static_cast<size_t>(part.width) * channels;
  rows.resize(row_bytes * (bottom - top));
  if (same_width) {
    for (int y = 0; y < bottom - top; ++y) {
      for (int x = 0; x < part.width; ++x) {
        for (int c = 0; c < channels; ++c) {
          rows[y * row_bytes + x * channels + c] =
              corner[y * step_y + (part.x + x) * step_x + c * step_c];
        }
      }
    }
  } else {
    const Axis across(box.width, width, part.x, part.width);
    for (int y = 0; y < bottom - top; ++y) {
      for (int x = 0; x < part.width; ++x) {
        const auto [first, count] = across.spans[x];
        const int32_t* const weights = &across.weights[static_cast<size_t>(x) * across.most];
        for (int c = 0; c < channels; ++c) {
          const uint8_t* const from = corner + y * step_y + first * step_x + c * step_c;
          int sum = 1 << (kBits - 1);
          for (int k = 0; k < count; ++k) sum += from[k * step_x] * weights[k];
          rows[y * row_bytes + x * channels + c] = round_down(sum);
        }
      }
    }
  }
  if (same_height) {
    out.pixels.assign(rows.begin(), rows.end());
    return;
  }
  static thread_local std::vector<int> sums;
  for (int y = 0; y < part.height; ++y) {
    const auto [first, count] = down.spans[y];
    sums.assign(row_bytes, 1 << (kBits - 1));
    for (int k = 0; k < count; ++k) {
      const int32_t weight = down.weights[static_cast<size_t>(y) * down.most + k];
      const uint8_t* const from = &rows[(first - top + k) * row_bytes];
      for (size_t i = 0; i < row_bytes; ++i) sums[i] += from[i] * weight;
    }
    for (size_t i = 0; i < row_bytes; ++i) out.pixels[y * row_bytes + i] = round_down(sums[i]);
  }
}

void resample(const ImageView& in, const Box& box, int height, int width, Image& out) {
  resample(in, box, height, width, {0, 0, width, height}, out);
}

}  // namespace brim::data
