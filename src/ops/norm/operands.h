// What batch_norm and layer_norm share.
#pragma once

#include <brim/core/tensor.h>

namespace brim::ops {

/// A parameter as kernels take it: contiguous and without history. Undefined stays undefined.
inline Tensor as_operand(const Tensor& t) { return t.defined() ? t.detach().contiguous() : t; }

struct NormGradients {
  Tensor x, weight, bias;
};

}  // namespace brim::ops
