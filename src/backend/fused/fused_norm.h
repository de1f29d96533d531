// Batch normalisation fused with what follows it: kernels that plans put in the place of
// batch_norm, add and relu. All activations of a launch are row-major, or all are nhwc.
#pragma once

#include "backend/kernel.h"
#include "backend/options/norm_params.h"

namespace brim::backend {

/// "batch_norm_relu": y = relu(batch_norm(x) + residual); residual may be undefined. The rest is as
/// in batch_norm: x (N, C, ...); weight, bias and the statistics (C); mean and scale are saved for
/// the gradient.
using BatchNormRelu = Kernel<void(
    const Context&, const Tensor& x, const Tensor& weight, const Tensor& bias,
    const Tensor& fixed_mean, const Tensor& fixed_var, const Tensor& residual, Tensor& running_mean,
    Tensor& running_var, Tensor& y, Tensor& mean, Tensor& scale, const BatchNormParams&)>;

/// "batch_norm_relu_grad": the gradients of x, weight, bias and residual. Where y is positive dy
/// passes; without y that is worked out again from x, which only holds if there was no residual.
/// dresidual may be undefined.
using BatchNormReluGrad =
    Kernel<void(const Context&, const Tensor& dy, const Tensor& x, const Tensor& weight,
                const Tensor& bias, const Tensor& mean, const Tensor& scale, const Tensor& y,
                Tensor& dx, Tensor& dweight, Tensor& dbias, Tensor& dresidual, bool training)>;

/// "batch_norm_again": y as batch_norm made it, or with `relu` batch_norm_relu, to the bit, from
/// what it saved. With a residual, or without ReLU, only where it was made with
/// BatchNormParams::repeatable. residual may be undefined.
using BatchNormAgain = Kernel<void(const Context&, const Tensor& x, const Tensor& weight,
                                   const Tensor& bias, const Tensor& mean, const Tensor& scale,
                                   const Tensor& residual, Tensor& y, bool relu)>;

}  // namespace brim::backend
