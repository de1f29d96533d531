// Images of u8 as planes in which the pixels that a kernel's element is multiplied with are
// neighbours for neighbouring outputs, whatever the stride: one plane for each phase of the stride
// and each channel, with the padding. An output's position in a run is the place of its pixel in a
// plane; positions between the rows of outputs are of no output.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "backend/cpu/elementwise/transpose.h"
#include "backend/cpu/runtime/elements.h"
#include "backend/cpu/runtime/parallel.h"
#include "backend/options/geometry.h"

namespace brim::cpu {

/// Neighbouring outputs.
struct PositionPiece {
  int64_t at;     ///< the first one's position in its block
  int64_t count;  ///< of one image
  int64_t row;    ///< the first one among the outputs' pixels of all images
};

class PhasePlanes {
 public:
  explicit PhasePlanes(const backend::ConvGeometry& geometry) : g_(geometry) {
    const int64_t h = g_.h + 2 * g_.padding.h, w = g_.w + 2 * g_.padding.w;
    phases_h_ = std::min(g_.stride.h, h);
    phases_w_ = std::min(g_.stride.w, w);
    height_ = round_up(h, g_.stride.h) / g_.stride.h;
    // What is behind a row is the padding before the next one.
    width_ = std::max(round_up(g_.w + g_.padding.w, g_.stride.w) / g_.stride.w, g_.ow);
    // Small images share blocks of positions where that leaves fewer of them unused.
    const int64_t area = height_ * width_, of_one = (g_.oh - 1) * width_ + g_.ow;
    const int64_t of_all = (g_.n - 1) * area + of_one;
    const bool are_joined = round_up(of_all, kStep) < g_.n * round_up(of_one, kStep);
    runs_ = are_joined ? 1 : g_.n;
    length_ = are_joined ? of_all : of_one;
    plane_ = are_joined ? g_.n * area : area;
    if (plane_ % 256 == 0) plane_ += 64;  // else planes fall into the same lines of a cache
    image_ = are_joined ? area : phases_h_ * phases_w_ * g_.c * plane_;
    size_ = are_joined ? phases_h_ * phases_w_ * g_.c * plane_ : g_.n * image_;
    size_ += round_up(g_.padding.w, kStep) + kMaxRead;
    is_covered_ = g_.padding == 0 && height_ * phases_h_ == g_.h && width_ * phases_w_ == g_.w;
    for (int64_t phase = 0; phase < phases_w_; ++phase) {
      const int64_t first = ((phase - g_.padding.w) % g_.stride.w + g_.stride.w) % g_.stride.w;
      if (first < g_.w)
        phases_.push_back({first, (g_.w - first + g_.stride.w - 1) / g_.stride.w,
                           plane_of(0, phase, 0) + (first + g_.padding.w) / g_.stride.w});
    }
  }

  int64_t size() const { return size_; }  ///< bytes
  int64_t runs() const { return runs_; }
  int64_t length() const { return length_; }  ///< positions of a run
  int64_t run(int64_t r) const { return r * image_; }
  int64_t plane() const { return plane_; }  ///< from a channel to the next
  /// Of an input from a run's beginning: tap of kh x kw, and channel.
  int64_t offset(int64_t tap, int64_t channel) const {
    const int64_t y = tap / g_.kw * g_.dilation.h, x = tap % g_.kw * g_.dilation.w;
    return plane_of(y % g_.stride.h, x % g_.stride.w, channel) + y / g_.stride.h * width_ +
           x / g_.stride.w;
  }
  /// The position of an output's pixel of all images, from the planes' beginning.
  int64_t position(int64_t row) const {
    const int64_t pixels = g_.oh * g_.ow, at = row % pixels;
    return row / pixels * image_ + at / g_.ow * width_ + at % g_.ow;
  }
  /// The outputs among `count` positions of run r, from `first` on.
  void pieces(int64_t r, int64_t first, int64_t count, std::vector<PositionPiece>& all) const {
    all.clear();
    const int64_t area = height_ * width_, pixels = g_.oh * g_.ow;
    for (int64_t at = 0; at < count;) {
      const int64_t p = first + at, n = runs_ == 1 ? p / area : r, in_image = p - (n - r) * area;
      const int64_t y = in_image / width_, x = in_image % width_;
      const int64_t size = std::min(width_ - x, count - at);
      const int64_t outputs = y < g_.oh ? std::min(g_.ow - x, size) : 0;
      if (outputs > 0) {
        const int64_t row = n * pixels + y * g_.ow + x;
        if (!all.empty() && all.back().at + all.back().count == at && row % pixels != 0)
          all.back().count += outputs;
        else
          all.push_back({at, outputs, row});
      }
      at += size;
    }
  }

  void fill(const uint8_t* images, bool is_nhwc, uint8_t padding, uint8_t* to) const {
    constexpr int64_t kBytes = int64_t{1} << 16;  // worth a thread
    if (!is_covered_)
      parallel_for(size_, kBytes,
                   [&](int64_t begin, int64_t end) { std::fill(to + begin, to + end, padding); });
    // A plane of nchw, or a row of all channels.
    const int64_t units = g_.n * (is_nhwc ? g_.h : g_.c), of_unit = g_.c * g_.h * g_.w * g_.n;
    parallel_for(units, std::max<int64_t>(1, kBytes * units / std::max<int64_t>(of_unit, 1)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t u = begin; u < end; ++u)
                     is_nhwc ? fill_row(images, u / g_.h, u % g_.h, to)
                             : fill_plane(images, u / g_.c, u % g_.c, to);
                 });
  }

 private:
  static constexpr int64_t kStep = 8;      // positions of a vector
  static constexpr int64_t kMaxRead = 64;  // bytes that may be read beyond a run

  int64_t plane_of(int64_t phase_y, int64_t phase_x, int64_t channel) const {
    return ((phase_y * phases_w_ + phase_x) * g_.c + channel) * plane_;
  }
  /// Pixels of a row that lie in one plane: the first column, how many, and where they go in the
  /// first row of channel 0's.
  struct Phase {
    int64_t first, count, where;
  };
  /// Where row y of the input begins, from there.
  int64_t row_of(int64_t y) const {
    const int64_t row = y + g_.padding.h;
    return plane_of(row % g_.stride.h, 0, 0) + row / g_.stride.h * width_;
  }
  /// Every other one of `size` bytes.
  static void copy_even(const uint8_t* from, int64_t size, uint8_t* to) {
    int64_t i = 0;
    for (; i + 8 <= size; i += 8) {
      uint64_t eight;
      std::memcpy(&eight, from + i, 8);
      eight &= 0x00FF00FF00FF00FF;
      eight = (eight | eight >> 8) & 0x0000FFFF0000FFFF;
      const auto four = static_cast<uint32_t>(eight | eight >> 16);
      std::memcpy(to + i / 2, &four, 4);
    }
    for (; i < size; i += 2) to[i / 2] = from[i];
  }
  void fill_row(const uint8_t* images, int64_t n, int64_t y, uint8_t* to) const {
    const int64_t begin = n * image_ + row_of(y);
    for (const Phase& phase : phases_)
      transpose_tile(images + ((n * g_.h + y) * g_.w + phase.first) * g_.c, g_.stride.w * g_.c,
                     phase.count, g_.c, to + begin + phase.where, plane_);
  }
  void fill_plane(const uint8_t* images, int64_t n, int64_t c, uint8_t* to) const {
    const uint8_t* const plane = images + (n * g_.c + c) * g_.h * g_.w;
    uint8_t* const begin = to + n * image_ + c * plane_;
    if (g_.stride == 1 && width_ == g_.w) {  // rows follow each other in both
      std::copy_n(plane, g_.h * g_.w, begin + row_of(0));
      return;
    }
    for (int64_t y = 0; y < g_.h; ++y) {
      const uint8_t* const row = plane + y * g_.w;
      uint8_t* const out = begin + row_of(y);
      for (const Phase& phase : phases_) {
        const uint8_t* const from = row + phase.first;
        if (g_.stride.w == 1)
          std::copy_n(from, phase.count, out + phase.where);
        else if (g_.stride.w == 2)
          copy_even(from, g_.w - phase.first, out + phase.where);
        else
          for (int64_t i = 0; i < phase.count; ++i) out[phase.where + i] = from[i * g_.stride.w];
      }
    }
  }

  const backend::ConvGeometry& g_;
  int64_t phases_h_, phases_w_, height_, width_;
  int64_t runs_, length_, plane_, image_, size_;
  bool is_covered_;
  std::vector<Phase> phases_;
};

}  // namespace brim::cpu
