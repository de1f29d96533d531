// Copies of single images into the orders in memory that the fused convolutions read.
#pragma once

#include <algorithm>
#include <cstring>

#include <brim/core/tensor.h>

#include "backend/cpu/conv/conv_layout.h"

namespace brim::cpu {

/// Some channels of one image of a 4-d tensor in any memory format.
template <class T>
struct Image {
  T* at;
  int64_t channel, row, column;  // steps

  T& operator()(int64_t c, int64_t y, int64_t x) const {
    return at[c * channel + y * row + x * column];
  }
};

/// Image `n` of `t`, from channel `c` on.
template <class T>
Image<T> image_of(const Tensor& t, int64_t n, int64_t c) {
  const Strides& s = t.strides();
  return {static_cast<T*>(t.raw()) + n * s[0] + c * s[1], s[1], s[2], s[3]};
}

/// Padded planes, split by the strides of whatever reads them: the elements (y, x) of one phase
/// (y mod stride.h, x mod stride.w) lie side by side, so a step of `stride` is a step of 1.
struct PhasedPlanes {
  int64_t channels, h, w;  // of the image
  int64_t used_h, used_w;  // how far the padded image is read
  Pair padding;            // above and left of it
  Pair stride;
  int64_t wide, plane, channel;  // elements of a phase's row, of a phase, of a channel

  PhasedPlanes(int64_t channels, int64_t h, int64_t w, Pair used, Pair padding, Pair stride)
      : channels(channels),
        h(h),
        w(w),
        used_h(used.h),
        used_w(used.w),
        padding(padding),
        stride(stride),
        wide(ceil_div(used.w, stride.w)),
        plane(ceil_div(used.h, stride.h) * wide),
        channel(plane * stride.h * stride.w) {}

  int64_t size() const { return channels * channel; }
  int64_t offset(int64_t c, int64_t y, int64_t x) const {
    const int64_t phase = y % stride.h * stride.w + x % stride.w;
    return c * channel + phase * plane + y / stride.h * wide + x / stride.w;
  }

  /// Writes what lies inside the image; the padding is left alone. split(from, count, even, odd)
  /// copies the even and the odd elements of a row.
  template <class T, class Split>
  void lay_out(const Image<const T>& image, T* to, const Split& split) const {
    const int64_t rows = std::min(h, used_h - padding.h), columns = std::min(w, used_w - padding.w);
    if (columns <= 0) return;
    const int64_t whole = columns / stride.w, rest = columns % stride.w;  // divisions cost: do few
    const int64_t left_phase = padding.w % stride.w, left = padding.w / stride.w;
    const int64_t top_phase = padding.h % stride.h, top = padding.h / stride.h;
    for (int64_t c = 0; c < channels; ++c) {
      T* line = to + c * channel + top * wide;
      for (int64_t y = 0, y_phase = top_phase; y < rows; ++y) {
        const T* from = &image(c, y, 0);
        T* row = line + y_phase * stride.w * plane + left;
        if (stride.w == 2 && image.column == 1) {
          T* const other = left_phase ? row + 1 : row + plane;
          split(from, columns, row + left_phase * plane, other);
        } else {
          for (int64_t x = 0, x_phase = left_phase; x < stride.w; ++x) {
            copy_every(stride.w * image.column, from + x * image.column, row + x_phase * plane,
                       whole + (x < rest));
            if (++x_phase == stride.w) x_phase = 0, ++row;
          }
        }
        if (++y_phase == stride.h) y_phase = 0, line += wide;
      }
    }
  }

 private:
  template <class T>
  static void copy_every(int64_t step, const T* from, T* to, int64_t count) {
    if (step == 1) return copy_row(from, to, count);
    for (int64_t i = 0; i < count; ++i) to[i] = from[i * step];
  }
};

}  // namespace brim::cpu
