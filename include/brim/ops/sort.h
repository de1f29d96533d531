// Order along an axis. NaN counts as the largest number. Equal elements keep their order. Values
// carry gradients; indices are i64.
#pragma once

#include <brim/core/tensor.h>

namespace brim {

struct Sorted {
  Tensor values;
  Tensor indices;
};

Sorted sort(const Tensor& x, int axis = -1, bool descending = false);
Tensor argsort(const Tensor& x, int axis = -1, bool descending = false);
/// The k largest (or smallest) elements, in that order if `sorted`. Throws ValueError unless
/// 0 <= k <= size.
Sorted topk(const Tensor& x, int64_t k, int axis = -1, bool largest = true, bool sorted = true);

}  // namespace brim
