// Fully connected layers in bf16 by gemm_bf16, where multiplies_bf16().
#pragma once

#include <brim/core/tensor.h>

#include "core/context.h"

namespace brim::cpu {

/// y (rows, outputs) = x (rows, inputs) weight^T (outputs, inputs) + bias, which may be undefined,
/// and a ReLU if `relu`: rounded once. y is contiguous, the others have any strides.
void linear_bf16(const Context& context, const Tensor& x, const Tensor& weight, const Tensor& bias,
                 Tensor& y, bool relu);

/// Those of dx, dw and db that are defined, all contiguous, from dy, of which nothing passes where
/// y <= 0, if it is defined.
void linear_grad_bf16(const Context& context, const Tensor& x, const Tensor& weight,
                      const Tensor& dy, const Tensor& y, Tensor& dx, Tensor& dw, Tensor& db);

}  // namespace brim::cpu
