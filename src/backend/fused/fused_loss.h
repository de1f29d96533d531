// Kernels of losses that do the work of several ops; the passes of the compiled step put them in
// the place of those.
#pragma once

#include "backend/kernel.h"
#include "backend/options/class_loss.h"

namespace brim::backend {

/// "softmax_cross_entropy": cross_entropy and its gradient for an incoming gradient of 1 (of each
/// loss, where there is one per row).
/// x: (N, C) row-major, target: (N) i64, weight: (C) or undefined, loss: (N) or (), dx: (N, C).
using FusedLossKernel =
    Kernel<void(const Context&, const Tensor& x, const Tensor& target, const Tensor& weight,
                Tensor& loss, Tensor& dx, const ClassLoss& options)>;

}  // namespace brim::backend
