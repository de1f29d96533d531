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

/// What an op's kernels do, over rows and, on devices that have these, over planes of classes.
struct ClassLossKernels {
  ClassLossKernel rows, planes;
  ClassLossGradKernel rows_grad, planes_grad;

  /// By the names of the kernels.
  ClassLossKernels(const char* of_rows, const char* of_rows_grad, const char* of_planes,
                   const char* of_planes_grad)
      : rows(of_rows, {.operands = kForward}),
        planes(of_planes, {.operands = kForward}),
        rows_grad(of_rows_grad, {.operands = kGradient}),
        planes_grad(of_planes_grad, {.operands = kGradient}) {}

  const ClassLossKernel& forward(const Tensor& x) const { return x.rank() == 3 ? planes : rows; }
  const ClassLossGradKernel& gradient(const Tensor& x) const {
    return x.rank() == 3 ? planes_grad : rows_grad;
  }
  bool has_planes(const Tensor& x) const {
    return planes.exists(x.device(), x.dtype()) && planes_grad.exists(x.device(), x.dtype());
  }

 private:
  static constexpr const char* kForward = "x, target, weight, loss, stats";
  static constexpr const char* kGradient = "dy, x, target, weight, stats, dx";
};

/// (C), (N, C) or (N, C, d1, ...) with labels as rows: x (N', C) and target (N'), row-major. With
/// `takes_planes`, an x of more axes stays as it is where it is row-major: (N, C, S), and target
/// (N S). Throws ShapeError, DTypeError or DeviceError naming `op`.
struct ClassRows {
  ClassRows(const char* op, const Tensor& x, const Tensor& target, const Tensor& weight,
            bool takes_planes);
  Tensor x, target;
  Shape shape;  // of the labels as given
};

}  // namespace brim::ops
