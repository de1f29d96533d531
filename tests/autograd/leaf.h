// Leaves of small tapes.
#pragma once

#include <initializer_list>

#include <brim/core/tensor.h>

namespace brim::tests {

/// These numbers in f64, which want a gradient; a list where no shape is given.
inline Tensor leaf(std::initializer_list<double> values, const Shape& shape) {
  return Tensor::from<double>(values, shape).set_requires_grad();
}
inline Tensor leaf(std::initializer_list<double> values) {
  return leaf(values, {static_cast<int64_t>(values.size())});
}

}  // namespace brim::tests
