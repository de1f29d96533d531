// Convolution over images and sequences.
#pragma once

#include <brim/core/pair.h>
#include <brim/core/tensor.h>

namespace brim {

struct Conv2dOptions {
  Pair stride = 1;
  Pair padding = 0;
  Pair dilation = 1;
  int64_t groups = 1;
};

/// Cross-correlation, as everywhere in deep learning. x: (N, C, H, W), weight: (O, C / groups, KH,
/// KW), bias: (O) or undefined -> (N, O, OH, OW), OH = (H + 2 padding - dilation (KH - 1) - 1) /
/// stride + 1. Throws ShapeError when the sizes do not fit.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Conv2dOptions& options = {});

struct Im2colOptions {
  Pair stride = 1;
  Pair padding = 0;  ///< with zeros
  Pair dilation = 1;
};

/// The windows that a convolution multiplies with, as columns: PyTorch's F.unfold. x: (N, C, H, W)
/// -> (N, C KH KW, OH OW), so matmul(weight.reshape({O, -1}), im2col(x, {KH, KW})) is
/// conv2d(x, weight).
Tensor im2col(const Tensor& x, Pair kernel, const Im2colOptions& options = {});

}  // namespace brim
