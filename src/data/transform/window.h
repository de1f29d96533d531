// A window over a picture, perhaps mirrored: what crops and flips move instead of pixels.
#pragma once

#include <algorithm>
#include <cstdint>

#include <brim/data/image.h>
#include "data/image/box.h"

namespace brim::data {

/// Outside `valid` there is `fill` instead of pixels.
template <class T>
struct BasicWindow {
  BasicImageView<T> image;
  Box box;    // may reach over `valid` on any side
  Box valid;  // inside the picture
  bool flip = false;
  T fill = 0;

  explicit BasicWindow(const BasicImageView<T>& view)
      : image(view), box{0, 0, view.shape.width, view.shape.height}, valid(box) {}

  bool plain() const { return !flip && !padded(); }
  bool padded() const {
    return box.x < valid.x || box.y < valid.y || box.x + box.width > valid.x + valid.width ||
           box.y + box.height > valid.y + valid.height;
  }

  // Takes height x width at (x, y) of what is seen now; (x, y) may be negative.
  void crop(int x, int y, int height, int width) {
    const int from = flip ? box.width - x - width : x;
    const int left = std::max(valid.x, box.x), top = std::max(valid.y, box.y);
    const int right = std::min(valid.x + valid.width, box.x + box.width);
    const int bottom = std::min(valid.y + valid.height, box.y + box.height);
    valid = {left, top, std::max(0, right - left), std::max(0, bottom - top)};
    box = {box.x + from, box.y + y, width, height};
  }

  // Part [first, last) of a row of the window that has pixels, in source order.
  void span(int& first, int& last) const {
    first = std::clamp(valid.x - box.x, 0, box.width);
    last = std::clamp(valid.x + valid.width - box.x, first, box.width);
  }
  /// The same of rows.
  void span_rows(int& first, int& last) const {
    first = std::clamp(valid.y - box.y, 0, box.height);
    last = std::clamp(valid.y + valid.height - box.y, first, box.height);
  }
  bool has_row(int y) const { return box.y + y >= valid.y && box.y + y < valid.y + valid.height; }
};

using Window = BasicWindow<uint8_t>;
using Window16 = BasicWindow<uint16_t>;

/// Copies what the window shows into an interleaved picture.
template <class T>
void materialise(const BasicWindow<T>& window, BasicImage<T>& out) {
  out.width = window.box.width;
  out.height = window.box.height;
  out.channels = window.image.shape.channels;
  out.pixels.assign(static_cast<size_t>(out.shape().bytes()), window.fill);
  int first, last;
  window.span(first, last);
  for (int y = 0; y < out.height; ++y) {
    if (!window.has_row(y)) continue;
    for (int x = first; x < last; ++x) {
      const int to = window.flip ? out.width - 1 - x : x;
      for (int c = 0; c < out.channels; ++c) {
        out.pixels[(static_cast<size_t>(y) * out.width + to) * out.channels + c] =
            window.image.at(c, window.box.y + y, window.box.x + x);
      }
    }
  }
}

}  // namespace brim::data
