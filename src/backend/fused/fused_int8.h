// Layers in 8-bit integers fused with what follows them: a kernel that plans put in the place of
// int8_conv2d, batch norm with fixed statistics, an addition, relu or clamp, and quantize.
#pragma once

#include "backend/kernel.h"
#include "backend/options/geometry.h"
#include "backend/options/int8.h"

namespace brim::backend {

/// "int8_conv2d_epilogue": z = (int8_conv2d(x) - mean) / sqrt(var + eps) * weight + shift +
/// residual, held to a range; y is z, q is z in u8. The statistics, or the residual, may be
/// undefined, and one of y and q. All activations are nhwc; outputs are a multiple of 16.
using Int8ConvEpilogue = Kernel<void(
    const Context&, const Tensor& x, const Tensor& packed, const Tensor& sums, const Tensor& scales,
    const Tensor& bias, const Tensor& correction, const Tensor& weight, const Tensor& shift,
    const Tensor& mean, const Tensor& var, const Tensor& residual, Tensor& y, Tensor& q,
    const ConvGeometry&, const Int8Call&, const Int8EpilogueParams&)>;

}  // namespace brim::backend
