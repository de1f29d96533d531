// The wide planes that direct convolutions read (see conv_direct.h).
#pragma once

#include <algorithm>
#include <cstring>

#include "backend/options/geometry.h"

namespace brim::cpu {

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// memcpy of one row. Rows of small images are a few vectors long: too short for a call.
template <class T>
inline void copy_row(const T* from, T* to, int64_t count) {
  const size_t bytes = static_cast<size_t>(count) * sizeof(T);
  const char* source = reinterpret_cast<const char*>(from);
  char* target = reinterpret_cast<char*>(to);
  if (bytes < 16 || bytes > 512) {
    std::memcpy(target, source, bytes);
    return;
  }
  for (size_t i = 0; i + 16 < bytes; i += 16) __builtin_memcpy(target + i, source + i, 16);
  __builtin_memcpy(target + bytes - 16, source + bytes - 16, 16);  // may overlap what is done
}

/// A correlation of wide planes: y(o, p) = sum over taps of w(o, tap) * plane[offset(tap) + p].
struct WideLayout {
  int64_t channels;            // of one group's input
  int64_t h, w;                // of the source image
  int64_t top, left;           // where it starts in the padded image; may be negative
  int64_t up_h = 1, up_w = 1;  // source elements lie this far apart (zeros between)
  int64_t kh, kw;
  Pair stride, dilation;
  int64_t oh, ow;

  int64_t wide() const { return ceil_div(padded_w(), stride.w); }  // row length of a phase
  int64_t rows() const { return ceil_div(padded_h(), stride.h); }
  int64_t plane() const { return rows() * wide(); }  // one phase of one channel
  int64_t channel() const { return plane() * stride.h * stride.w; }
  int64_t padded_h() const { return (oh - 1) * stride.h + (kh - 1) * dilation.h + 1; }
  int64_t padded_w() const { return (ow - 1) * stride.w + (kw - 1) * dilation.w + 1; }
  /// Positions of a wide output, up to its last useful one.
  int64_t positions() const { return (oh - 1) * wide() + ow; }
  int64_t taps() const { return channels * kh * kw; }
  /// Elements of one laid-out image, with room to read `slack` beyond its end.
  int64_t size(int64_t slack) const { return channels * channel() + slack; }

  /// Writes the offset of each tap of the kernel: taps() numbers.
  void tap_offsets(int64_t* to) const {
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t ky = 0; ky < kh; ++ky)
        for (int64_t kx = 0; kx < kw; ++kx) {
          const int64_t y = ky * dilation.h, x = kx * dilation.w;
          const int64_t phase = (y % stride.h) * stride.w + x % stride.w;
          *to++ = c * channel() + phase * plane() + y / stride.h * wide() + x / stride.w;
        }
  }

  /// Writes every element of `to`: source elements, zeros around and between, zero slack.
  template <class T>
  void lay_out(const T* image, T* to, int64_t slack) const {
    const int64_t used_h = padded_h(), used_w = padded_w();
    const bool plain = stride.h == 1 && stride.w == 1 && up_h == 1 && up_w == 1;
    if (plain && top == 0 && left == 0 && used_h == h && used_w == w) {
      std::memcpy(to, image, static_cast<size_t>(channels * h * w) * sizeof(T));
      std::fill_n(to + channels * h * w, slack, T(0));
      return;
    }
    std::fill_n(to, size(slack), T(0));
    const int64_t row_length = wide(), phase = plane(), step = channel();  // each costs divisions
    if (plain) {
      const int64_t y0 = std::max<int64_t>(0, -top), y1 = std::min(h, used_h - top);
      const int64_t x0 = std::max<int64_t>(0, -left), x1 = std::min(w, used_w - left);
      if (x1 <= x0) return;
      for (int64_t c = 0; c < channels; ++c, image += h * w, to += step)
        for (int64_t y = y0; y < y1; ++y)
          copy_row(image + y * w + x0, to + (top + y) * row_length + left + x0, x1 - x0);
      return;
    }
    for (int64_t c = 0; c < channels; ++c, image += h * w, to += step) {
      for (int64_t y = 0; y < h; ++y) {
        const int64_t py = top + y * up_h;
        if (py < 0 || py >= used_h) continue;
        const T* from = image + y * w;
        T* row = to + (py % stride.h) * stride.w * phase + py / stride.h * row_length;
        for (int64_t x = 0; x < w; ++x) {
          const int64_t px = left + x * up_w;
          if (px >= 0 && px < used_w) row[px % stride.w * phase + px / stride.w] = from[x];
        }
      }
    }
  }
};

/// How the forward pass (and the weight's gradient) reads x.
inline WideLayout layout_of_x(const backend::ConvGeometry& g) {
  return {.channels = g.c_per_group(),
          .h = g.h,
          .w = g.w,
          .top = g.padding.h,
          .left = g.padding.w,
          .kh = g.kh,
          .kw = g.kw,
          .stride = g.stride,
          .dilation = g.dilation,
          .oh = g.oh,
          .ow = g.ow};
}

/// How the gradient of x reads dy: strides become zeros between its elements, the kernel is
/// flipped.
inline WideLayout layout_of_dy(const backend::ConvGeometry& g) {
  return {.channels = g.o_per_group(),
          .h = g.oh,
          .w = g.ow,
          .top = (g.kh - 1) * g.dilation.h - g.padding.h,
          .left = (g.kw - 1) * g.dilation.w - g.padding.w,
          .up_h = g.stride.h,
          .up_w = g.stride.w,
          .kh = g.kh,
          .kw = g.kw,
          .stride = 1,
          .dilation = g.dilation,
          .oh = g.h,
          .ow = g.w};
}

}  // namespace brim::cpu
