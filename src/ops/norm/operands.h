// What batch_norm, layer_norm, rms_norm and group_norm share.
#pragma once

#include <vector>

#include <brim/core/tensor.h>
#include <brim/ops/binary.h>
#include <brim/ops/reduce.h>

#include "ops/checks.h"

namespace brim::ops {

/// A parameter as kernels take it: contiguous and without history. Undefined stays undefined.
inline Tensor as_operand(const Tensor& t) { return t.defined() ? t.detach().contiguous() : t; }

/// Throws unless weight and bias, where they are defined, have that shape and x's device and dtype.
inline void check_parameters(const char* op, const Tensor& x, const Shape& shape,
                             const Tensor& weight, const Tensor& bias) {
  for (const Tensor& t : {weight, bias}) {
    if (!t.defined()) continue;
    (void)common_device(op, x, t);
    (void)common_dtype(op, x, t);
    BRIM_CHECK(t.shape() == shape, ShapeError, "[{}] weight or bias has shape {}; expected {}", op,
               t.shape().str(), shape.str());
  }
}

/// x minus its mean over `axes`, twice: a mean of equal elements may be off by rounding, which
/// 1 / sqrt(eps) makes large.
inline Tensor centred(const Tensor& x, const std::vector<int>& axes) {
  const Tensor once = x - mean(x, axes, true);
  return once - mean(once, axes, true);
}

/// Of norms over the last axes: throws unless x ends in `shape` and the parameters have it. Returns
/// the number of rows.
int64_t check_normalized(const char* op, const Tensor& x, const Shape& shape, const Tensor& weight,
                         const Tensor& bias);

/// The last `count` axes of x.
std::vector<int> last_axes(const Tensor& x, int count);

/// x summed over all but its last `count` axes.
Tensor sum_of_rows(const Tensor& x, int count);

struct NormGradients {
  Tensor x, weight, bias;
};

/// Checks what batch_norm is given, and says which dtype its parameters and statistics have.
DType check_batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const Tensor& running_mean, const Tensor& running_var, bool training);

}  // namespace brim::ops
