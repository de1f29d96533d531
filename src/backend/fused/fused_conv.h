// Convolution fused with what follows it: with ReLU and max pooling as one kernel, whose gradient
// is another, and with ReLU alone. Rewrites of plans put them where they find the eager ops; no op
// launches them by itself.
#pragma once

#include "backend/kernel.h"
#include "backend/options/geometry.h"

namespace brim::backend {

/// "conv2d_relu": y = relu(conv2d(x)), whose operands and options these are. The gradient is that
/// of the ops, as relu's needs y alone.
using ConvReluKernel = Kernel<void(const Context&, const Tensor& x, const Tensor& weight,
                                   const Tensor& bias, Tensor& y, const ConvGeometry&)>;

/// y = max_pool(relu(conv)): the pool's (n, c, h, w) are the convolution's (n, o, oh, ow).
struct ConvPool {
  ConvGeometry conv;
  PoolGeometry pool;
  bool relu;
  friend bool operator==(const ConvPool&, const ConvPool&) = default;
};

/// In `indices`: no gradient flows through this window.
inline constexpr uint8_t kNoIndex = 255;

/// "conv2d_relu_pool". x: (N, C, H, W), weight: (O, C / groups, KH, KW) row-major, bias: (O) or
/// undefined, y: (N, O, PH, PW), indices: u8 of y's shape: ky * kernel.w + kx of the window's
/// largest element, or kNoIndex where relu cuts it off or the window holds padding only. x, y and
/// indices may have any strides (nchw and nhwc are fast).
using ConvPoolKernel =
    Kernel<void(const Context&, const Tensor& x, const Tensor& weight, const Tensor& bias,
                Tensor& y, Tensor& indices, const ConvPool&)>;

/// "conv2d_relu_pool_grad", from the gradient of y. dx and dbias may be undefined: not wanted.
/// dweight is row-major. Where dy is zero nothing is added, not even 0 * infinity.
using ConvPoolGradKernel = Kernel<void(const Context&, const Tensor& x, const Tensor& weight,
                                       const Tensor& dy, const Tensor& indices, Tensor& dx,
                                       Tensor& dweight, Tensor& dbias, const ConvPool&)>;

}  // namespace brim::backend
