// Two passes: rows first, then columns, each rounded to 8 bits.
#include "data/transform/resample.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace brim::data {
namespace {

constexpr int kBits = 22;  // 8-bit samples times weights must stay within 31 bits

// Weights of the inputs of each output along one axis.
struct Axis {
  struct Span {
    int first, count;
  };
  std::vector<Span> spans;
  std::vector<int32_t> weights;  // `most` per output
  int most = 0;

  Axis(int in, int out) {
    const double scale = static_cast<double>(in) / out;
    const double support = std::max(scale, 1.0);
    most = static_cast<int>(std::ceil(support)) * 2 + 1;
    spans.resize(static_cast<size_t>(out));
    weights.assign(static_cast<size_t>(out) * most, 0);
    std::vector<double> taps(static_cast<size_t>(most));
    for (int i = 0; i < out; ++i) {
      const double centre = (i + 0.5) * scale;
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

void resample(const ImageView& in, const Box& box, int height, int width, Image& out) {
  const int channels = in.shape.channels;
  const bool planes = in.order == PixelOrder::chw;
  const ptrdiff_t step_x = planes ? 1 : channels;
  const ptrdiff_t step_y = step_x * in.shape.width;
  const ptrdiff_t step_c = planes ? ptrdiff_t{in.shape.height} * in.shape.width : 1;
  const uint8_t* const corner = in.pixels + box.y * step_y + box.x * step_x;
  out.width = width;
  out.height = height;
  out.channels = channels;
  out.pixels.resize(static_cast<size_t>(out.shape().bytes()));

  static thread_local std::vector<uint8_t> rows;  // box.height rows of `width` pixels, interleaved
  const size_t row_bytes = static_cast<size_t>(width) * channels;
  rows.resize(row_bytes * box.height);
  if (width == box.width) {
    for (int y = 0; y < box.height; ++y) {
      for (int x = 0; x < width; ++x) {
        for (int c = 0; c < channels; ++c) {
          rows[y * row_bytes + x * channels + c] = corner[y * step_y + x * step_x + c * step_c];
        }
      }
    }
  } else {
    const Axis axis(box.width, width);
    for (int y = 0; y < box.height; ++y) {
      for (int x = 0; x < width; ++x) {
        const auto [first, count] = axis.spans[x];
        const int32_t* const weights = &axis.weights[static_cast<size_t>(x) * axis.most];
        for (int c = 0; c < channels; ++c) {
          const uint8_t* const from = corner + y * step_y + first * step_x + c * step_c;
          int sum = 1 << (kBits - 1);
          for (int k = 0; k < count; ++k) sum += from[k * step_x] * weights[k];
          rows[y * row_bytes + x * channels + c] = round_down(sum);
        }
      }
    }
  }
  if (height == box.height) {
    out.pixels.assign(rows.begin(), rows.end());
    return;
  }
  const Axis axis(box.height, height);
  static thread_local std::vector<int> sums;
  for (int y = 0; y < height; ++y) {
    const auto [first, count] = axis.spans[y];
    sums.assign(row_bytes, 1 << (kBits - 1));
    for (int k = 0; k < count; ++k) {
      const int32_t weight = axis.weights[static_cast<size_t>(y) * axis.most + k];
      const uint8_t* const from = &rows[(first + k) * row_bytes];
      for (size_t i = 0; i < row_bytes; ++i) sums[i] += from[i] * weight;
    }
    for (size_t i = 0; i < row_bytes; ++i) out.pixels[y * row_bytes + i] = round_down(sums[i]);
  }
}

}  // namespace brim::data
