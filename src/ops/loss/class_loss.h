// What cross_entropy and nll_loss share: their kernels' parameters and the row-wise view.
#pragma once

#include <brim/ops/loss.h>

#include "backend/kernel.h"
#include "backend/options/class_loss.h"

namespace brim::ops {

using backend::ClassLoss;
using backend::LossShape;

inline LossShape loss_shape(Reduction reduction) {
  return reduction == Reduction::none   ? LossShape::single
         : reduction == Reduction::mean ? LossShape::mean
                                        : LossShape::sum;
}

/// loss: (N) or (). stats: cross_entropy: (2 N + 1): each row's largest logit, then the log of each
/// row's sum of exp(logit - largest), then what the mean divides by; nll_loss: (1), only that.
using ClassLossKernel =
    backend::Kernel<void(const Context&, const Tensor& x, const Tensor& target,
                         const Tensor& weight, Tensor& loss, Tensor& stats, const ClassLoss&)>;
using ClassLossGradKernel =
    backend::Kernel<void(const Context&, const Tensor& dy, const Tensor& x, const Tensor& target,
                         const Tensor& weight, const Tensor& stats, Tensor& dx, const ClassLoss&)>;

/// (C), (N, C) or (N, C, d1, ...) with labels as rows: x (N', C) and target (N'), row-major.
/// Throws ShapeError, DTypeError or DeviceError naming `op`.
struct ClassRows {
  ClassRows(const char* op, const Tensor& x, const Tensor& target, const Tensor& weight);
  Tensor x, target;
  Shape shape;  // of the labels as given
};

}  // namespace brim::ops
