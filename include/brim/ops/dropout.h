// Dropout (Srivastava et al. 2014).
#pragma once

#include <brim/core/random.h>
#include <brim/core/tensor.h>

namespace brim {

/// In training each element is 0 with probability p, even where x is NaN, else x / (1 - p); outside
/// of training x itself. The mask is a function of the generator's key (Generator::global() unless
/// given) and the element's row-major position: same seed, same mask on every backend. Throws
/// ValueError unless 0 <= p <= 1. Gradients of any order.
Tensor dropout(const Tensor& x, double p = 0.5, bool training = true,
               Generator* generator = nullptr);

}  // namespace brim
