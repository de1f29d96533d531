// What every convolution is made of: the product with a weight that slides over an image, the same
// in the other direction, and the checks of their operands.
#pragma once

#include <brim/core/tensor.h>
#include <brim/ops/conv.h>

#include "backend/options/geometry.h"

namespace brim::ops {

using backend::ConvGeometry;

/// x: (n, c, h, w) -> (n, o, oh, ow), with gradients of any order.
Tensor convolve(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvGeometry& geo);
/// dy: (n, o, oh, ow) -> (n, c, h, w): the gradient of convolve's x, with gradients of any order.
Tensor convolve_back(const Tensor& dy, const Tensor& weight, const ConvGeometry& geo);

/// Throws unless x (N, C, ...) and weight have `rank` axes and one device and dtype, as the bias
/// has, if it is defined.
void check_operands(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias,
                    int rank, const char* weight_layout);
/// Throws ShapeError unless weight (O, C / groups, ...) and bias (O) fit x.
void check_channels(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias,
                    int64_t groups);
void check_bias(const char* op, const Tensor& bias, const Tensor& weight, int64_t channels);

/// Throws ValueError for a stride or dilation below 1, or padding below 0.
void check_steps(const char* op, const char* axis, int64_t stride, int64_t padding,
                 int64_t dilation);
/// Outputs along an axis of x; throws ShapeError when the kernel does not fit.
int64_t outputs_along(const char* op, const char* axis, const Tensor& x, const Shape& weight,
                      int number, int64_t stride, int64_t padding, int64_t dilation);
/// Of x (N, C, H, W) and a weight (O, C / groups, KH, KW) that fit each other.
ConvGeometry geometry_2d(const char* op, const Tensor& x, const Shape& weight,
                         const Conv2dOptions& options);
/// `stride`, or the padded size where it is longer: either way there is one output. Kernels lay
/// images out by their strides, which must not be large beyond reason.
int64_t bounded_stride(int64_t stride, int64_t size, int64_t padding);

}  // namespace brim::ops
