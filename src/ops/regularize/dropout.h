// Dropout as other ops have it inside.
#pragma once

#include <brim/core/random.h>
#include <brim/core/tensor.h>

namespace brim::ops {

/// dropout in training, with the mask that `key` makes. Gradients of any order.
Tensor dropout_by_key(const Tensor& x, double p, const RandomKey& key);

}  // namespace brim::ops
