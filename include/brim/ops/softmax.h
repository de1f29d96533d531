// Softmax along one axis, with gradients of any order.
#pragma once

#include <brim/core/tensor.h>

namespace brim {

/// exp(x) / sum(exp(x)) along `axis`; no overflow. Floating dtypes only (DTypeError).
Tensor softmax(const Tensor& x, int axis);
/// log(softmax(x)), computed without the detour.
Tensor log_softmax(const Tensor& x, int axis);

}  // namespace brim
