// Which memory format kernels of images see, and how pooling is cut into rows.
#pragma once

#include <brim/core/tensor.h>

#include "backend/cpu/elementwise/rows_through_f32.h"
#include "backend/options/geometry.h"

namespace brim::cpu {

/// Both are nhwc, and not also row-major (one channel, or one pixel).
inline bool are_nhwc(const Tensor& a, const Tensor& b) {
  return a.is_contiguous(MemoryFormat::nhwc) && b.is_contiguous(MemoryFormat::nhwc) &&
         !(a.is_contiguous() && b.is_contiguous());
}

/// Axes of x (n, c, h, w) whose entries pooling treats one by one: planes of row-major images, else
/// images.
inline constexpr auto kPooledAxes = [](const Tensor& x, const auto&...) {
  return x.is_contiguous() ? 2 : 1;
};
template <>
inline backend::PoolGeometry for_rows(const backend::PoolGeometry& whole, int axes, int64_t rows) {
  backend::PoolGeometry g = whole;
  g.n = axes == 2 ? 1 : rows;
  if (axes == 2) g.c = rows;
  return g;
}

}  // namespace brim::cpu
