// Order along an axis. NaN counts as the largest number. Equal elements keep their order. Values
// carry gradients; indices are i64.
#pragma once

#include <brim/core/tensor.h>

namespace brim {

/// Elements in an order, and where they were.
struct Sorted {
  Tensor values;   ///< in this order along the axis
  Tensor indices;  ///< i64: where each was along the axis
};

///@{
/// Along `axis`; of equal elements the first stays first. NaN counts as the largest.
Sorted sort(const Tensor& x, int axis = -1, bool descending = false);
Tensor argsort(const Tensor& x, int axis = -1, bool descending = false);
///@}
/// The k largest (or smallest) elements, in that order if `sorted`. Throws ValueError unless
/// 0 <= k <= size.
Sorted topk(const Tensor& x, int64_t k, int axis = -1, bool largest = true, bool sorted = true);

/// What unique() gives.
struct Unique {
  Tensor values;   ///< (K), in ascending order
  Tensor inverse;  ///< i64, x's shape: where in `values` each element of x is
  Tensor counts;   ///< (K) i64: how often each is there
};
/// The different elements of x, flattened; each NaN is one of its own. No gradient. The host reads
/// how many there are: waits for the device.
Unique unique(const Tensor& x);

}  // namespace brim
