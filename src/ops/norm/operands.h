// What batch_norm and layer_norm share.
#pragma once

#include <vector>

#include <brim/core/tensor.h>
#include <brim/ops/binary.h>
#include <brim/ops/reduce.h>

namespace brim::ops {

/// A parameter as kernels take it: contiguous and without history. Undefined stays undefined.
inline Tensor as_operand(const Tensor& t) { return t.defined() ? t.detach().contiguous() : t; }

/// x minus its mean over `axes`, twice: a mean of equal elements may be off by rounding, which
/// 1 / sqrt(eps) makes large.
inline Tensor centred(const Tensor& x, const std::vector<int>& axes) {
  const Tensor once = x - mean(x, axes, true);
  return once - mean(once, axes, true);
}

struct NormGradients {
  Tensor x, weight, bias;
};

}  // namespace brim::ops
