// Two-dimensional pooling over windows of (N, C, H, W).
#pragma once

#include <brim/core/pair.h>
#include <brim/core/tensor.h>

namespace brim {

/// Options of max_pool2d().
struct MaxPool2dOptions {
  Pair stride = 0;         ///< 0: the kernel's size
  Pair padding = 0;        ///< with -infinity; at most half the kernel
  Pair dilation = 1;       ///< pixels from tap to tap
  bool ceil_mode = false;  ///< a window may reach beyond the end, by less than the stride
};

/// Options of avg_pool2d().
struct AvgPool2dOptions {
  Pair stride = 0;                ///< 0: the kernel's size
  Pair padding = 0;               ///< with zeros; at most half the kernel
  bool ceil_mode = false;         ///< a window may reach beyond the end, by less than the stride
  bool count_include_pad = true;  ///< the mean is over padding, too, but not over what lies beyond
};

// x: (N, C, H, W). Throws ShapeError for a window that is larger than a side with its padding and,
// in ceil_mode, what it may reach beyond.

/// Largest element of each window; of equal ones the first carries the gradient.
Tensor max_pool2d(const Tensor& x, Pair kernel, const MaxPool2dOptions& options = {});
/// Mean of each window.
Tensor avg_pool2d(const Tensor& x, Pair kernel, const AvgPool2dOptions& options = {});
/// Average over windows chosen so that the result is (N, C, output.h, output.w).
Tensor adaptive_avg_pool2d(const Tensor& x, Pair output);

}  // namespace brim
