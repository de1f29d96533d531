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

struct Conv1dOptions {
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t dilation = 1;
  int64_t groups = 1;
};

/// The same along one axis. x: (N, C, L), weight: (O, C / groups, K), bias: (O) or undefined ->
/// (N, O, OL).
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Conv1dOptions& options = {});

struct ConvTranspose2dOptions {
  Pair stride = 1;
  Pair padding = 0;         ///< of the convolution that it reverses: cut off the result's sides
  Pair output_padding = 0;  ///< rows and columns more at the end; below the stride
  Pair dilation = 1;
  int64_t groups = 1;
};

/// The gradient of conv2d's x as an op of its own: it enlarges by the stride. x: (N, C, H, W),
/// weight: (C, O / groups, KH, KW), bias: (O) or undefined -> (N, O, OH, OW), OH = (H - 1) stride -
/// 2 padding + dilation (KH - 1) + output_padding + 1. Throws ShapeError when sizes do not fit.
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose2dOptions& options = {});

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
