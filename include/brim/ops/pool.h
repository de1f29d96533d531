// Two-dimensional pooling over windows of (N, C, H, W).
#pragma once

#include <brim/core/pair.h>
#include <brim/core/tensor.h>

namespace brim {

struct MaxPool2dOptions {
  Pair stride = 0;   ///< 0: the kernel's size
  Pair padding = 0;  ///< with -infinity; at most half the kernel
  Pair dilation = 1;
  bool ceil_mode = false;  ///< a partial window at the end counts
};

struct AvgPool2dOptions {
  Pair stride = 0;   ///< 0: the kernel's size
  Pair padding = 0;  ///< with zeros
  bool ceil_mode = false;
  bool count_include_pad = true;
};

/// Largest element of each window; of equal ones the first carries the gradient.
Tensor max_pool2d(const Tensor& x, Pair kernel, const MaxPool2dOptions& options = {});
Tensor avg_pool2d(const Tensor& x, Pair kernel, const AvgPool2dOptions& options = {});
/// Average over windows chosen so that the result is (N, C, output.h, output.w).
Tensor adaptive_avg_pool2d(const Tensor& x, Pair output);

}  // namespace brim
