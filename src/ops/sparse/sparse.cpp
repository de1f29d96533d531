#include "ops/sparse/sparse.h"

#include <brim/autograd/autograd.h>

#include "ops/checks.h"

namespace brim::ops {

void check_sparse_operands(const char* op, const Tensor& x, const SparseWeight& weight,
                           const Tensor& bias, int rank) {
  BRIM_CHECK(weight.values.defined(), ValueError,
             "[{}] the weight is empty; make one with SparseWeight::encode", op);
  BRIM_CHECK(weight.shape.rank() == rank, ShapeError, "[{}] expects a weight of {} axes, got {}",
             op, rank, weight.shape.str());
  weight.check_structure();
  common_device(op, x, weight.values);
  common_device(op, x, weight.columns);
  common_device(op, x, weight.starts);
  if (weight.outputs.defined()) common_device(op, x, weight.outputs);
  common_dtype(op, x, weight.values);
  if (bias.defined()) {
    common_device(op, x, bias);
    common_dtype(op, x, bias);
    BRIM_CHECK(bias.shape() == Shape{weight.shape[0]} && bias.is_contiguous(), ShapeError,
               "[{}] bias {} with weight {}: expected ({})", op, bias.shape().str(),
               weight.shape.str(), weight.shape[0]);
  }
  const bool wants_gradient = x.requires_grad() || (bias.defined() && bias.requires_grad());
  BRIM_CHECK(!grad_enabled() || !wants_gradient, ValueError,
             "[{}] gradients of sparse weights are not implemented: train the dense weight under "
             "its mask (compress::Masks), and compute this in a NoGrad scope",
             op);
}

}  // namespace brim::ops
