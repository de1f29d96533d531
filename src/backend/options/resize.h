// How an image is resized, worked out once by interpolate and handed to its kernels.
#pragma once

#include <algorithm>
#include <cstdint>

#include <brim/core/same_bits.h>
#include <brim/core/shape.h>

namespace brim::backend {

/// An axis of `from` elements becomes one of `to`; a pixel of the result is `step` wide in x.
struct ResizeAxis {
  int64_t from, to;
  double step;

  /// How often each element is repeated, where all of them are alike; else 0.
  int64_t times() const {
    const int64_t factor = to / from;
    return to % from == 0 && step * static_cast<double>(factor) == 1 ? factor : 0;
  }
  /// Of element i of the result. Places are rounded in the dtype of x, as PyTorch rounds them.
  template <class T>
  int64_t nearest(int64_t i) const {
    const int64_t repeats = times();
    const int64_t at =
        repeats > 0 ? i / repeats : static_cast<int64_t>(static_cast<T>(i) * static_cast<T>(step));
    return std::min(at, from - 1);
  }
  friend bool operator==(const ResizeAxis& a, const ResizeAxis& b) {
    return a.from == b.from && a.to == b.to && same_bits(a.step, b.step);
  }
};

/// x: (n, c, rows.from, columns.from), y: (n, c, rows.to, columns.to).
struct ResizeGeometry {
  int64_t n, c;
  ResizeAxis rows, columns;
  bool bilinear, align_corners;

  Shape x_shape() const { return {n, c, rows.from, columns.from}; }
  Shape y_shape() const { return {n, c, rows.to, columns.to}; }
  friend bool operator==(const ResizeGeometry&, const ResizeGeometry&) = default;
};

}  // namespace brim::backend
