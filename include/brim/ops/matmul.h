// Matrix products. Transposed views are used as they are; where both operands are transposed and
// oneDNN does not take them, each thread copies the panels of the second that it works on.
#pragma once

#include <brim/core/tensor.h>

namespace brim {

/// Matrix product with NumPy's rules: (.., M, K) x (.., K, N) -> (.., M, N), leading axes
/// broadcast; a vector (K) counts as a row on the left and as a column on the right. Throws
/// ShapeError when the inner sizes differ.
Tensor matmul(const Tensor& a, const Tensor& b);

/// y = x W^T + b. x: (.., in), weight: (out, in), bias: (out) or undefined -> (.., out).
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

}  // namespace brim
