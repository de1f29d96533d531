// Convolution over images and sequences.
#pragma once

#include <brim/core/pair.h>
#include <brim/core/tensor.h>

namespace brim {

/// Options of conv2d().
struct Conv2dOptions {
  Pair stride = 1;     ///< pixels from window to window
  Pair padding = 0;    ///< zeros at each side
  Pair dilation = 1;   ///< pixels from tap to tap
  int64_t groups = 1;  ///< channels are convolved in so many groups by themselves
};

/// Cross-correlation, as everywhere in deep learning. x: (N, C, H, W), weight: (O, C / groups, KH,
/// KW), bias: (O) or undefined -> (N, O, OH, OW), OH = (H + 2 padding - dilation (KH - 1) - 1) /
/// stride + 1. Throws ShapeError when the sizes do not fit.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Conv2dOptions& options = {});

/// Options of conv1d().
struct Conv1dOptions {
  int64_t stride = 1;    ///< elements from window to window
  int64_t padding = 0;   ///< zeros at each end
  int64_t dilation = 1;  ///< elements from tap to tap
  int64_t groups = 1;    ///< channels are convolved in so many groups by themselves
};

/// The same along one axis. x: (N, C, L), weight: (O, C / groups, K), bias: (O) or undefined ->
/// (N, O, OL).
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Conv1dOptions& options = {});

/// Options of conv_transpose2d().
struct ConvTranspose2dOptions {
  Pair stride = 1;          ///< by how much the result is larger
  Pair padding = 0;         ///< of the convolution that it reverses: cut off the result's sides
  Pair output_padding = 0;  ///< rows and columns more at the end; below the stride
  Pair dilation = 1;        ///< pixels from tap to tap
  int64_t groups = 1;       ///< channels are convolved in so many groups by themselves
};

/// The gradient of conv2d's x as an op of its own: it enlarges by the stride. x: (N, C, H, W),
/// weight: (C, O / groups, KH, KW), bias: (O) or undefined -> (N, O, OH, OW), OH = (H - 1) stride -
/// 2 padding + dilation (KH - 1) + output_padding + 1. Throws ShapeError when sizes do not fit.
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose2dOptions& options = {});

/// Options of im2col().
struct Im2colOptions {
  Pair stride = 1;    ///< pixels from window to window
  Pair padding = 0;   ///< with zeros
  Pair dilation = 1;  ///< pixels from tap to tap
};

/// The windows that a convolution multiplies with, as columns: PyTorch's F.unfold. x: (N, C, H, W)
/// -> (N, C KH KW, OH OW), so matmul(weight.reshape({O, -1}), im2col(x, {KH, KW})) is
/// conv2d(x, weight).
Tensor im2col(const Tensor& x, Pair kernel, const Im2colOptions& options = {});

}  // namespace brim
