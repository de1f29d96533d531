// im2col: the windows of a convolution as columns of a matrix
#include <brim/ops/conv.h>
#include <brim/ops/shape.h>

#include "ops/checks.h"

namespace brim {
namespace {

/// Windows of `kernel` elements, `dilation` apart, along an axis of x; the elements as a new last
/// axis.
Tensor windows(const Tensor& x, const char* name, int axis, int64_t kernel, int64_t stride,
               int64_t dilation) {
  BRIM_CHECK(kernel >= 1 && stride >= 1 && dilation >= 1, ValueError,
             "[im2col] {}: kernel {}, stride {} and dilation {} must be 1 or more", name, kernel,
             stride, dilation);
  const int64_t reach = dilation * (kernel - 1) + 1;
  BRIM_CHECK(x.shape()[axis] >= reach, ShapeError,
             "[im2col] the kernel spans {} elements in {}, but x has {} with its padding; use a "
             "smaller kernel or more padding",
             reach, name, x.shape()[axis]);
  const Tensor all = unfold(x, axis, reach, stride);
  return dilation == 1 ? all : all.slice(-1, 0, reach, dilation);
}

}  // namespace

Tensor im2col(const Tensor& x, Pair kernel, const Im2colOptions& options) {
  ops::check_rank("im2col", x, 4, "x (N, C, H, W)");
  const Pair p = options.padding;
  BRIM_CHECK(p.h >= 0 && p.w >= 0, ValueError, "[im2col] padding ({}, {}) must be 0 or more", p.h,
             p.w);
  const Tensor padded = p == Pair(0) ? x : pad(x, {p.w, p.w, p.h, p.h});
  const Tensor rows = windows(padded, "height", 2, kernel.h, options.stride.h, options.dilation.h);
  const Tensor both = windows(rows, "width", 3, kernel.w, options.stride.w, options.dilation.w);
  const Shape& s = both.shape();  // (N, C, OH, OW, KH, KW)
  return both.permute({0, 1, 4, 5, 2, 3}).reshape({s[0], s[1] * s[4] * s[5], s[2] * s[3]});
}

}  // namespace brim
