// full, zeros, ones, empty and their _like forms: constants
#include <brim/ops/create.h>

#include "ops/checks.h"
#include "ops/memory/copy.h"

namespace brim {

Tensor full(const Shape& shape, double value, const TensorOptions& options) {
  Tensor y = Tensor::empty(shape, options.dtype, options.device);
  ops::fill_elements(y, value);
  if (options.requires_grad) y.set_requires_grad();
  return y;
}

Tensor zeros(const Shape& shape, const TensorOptions& options) { return full(shape, 0, options); }
Tensor ones(const Shape& shape, const TensorOptions& options) { return full(shape, 1, options); }
Tensor empty(const Shape& shape, const TensorOptions& options) {
  return Tensor::empty(shape, options);
}

Tensor empty_like(const Tensor& x) {
  ops::check_defined("empty_like", x);
  return Tensor::empty(x.shape(), x.dtype(), x.device());
}

Tensor full_like(const Tensor& x, double value) {
  ops::check_defined("full_like", x);
  Tensor y = empty_like(x);
  ops::fill_elements(y, value);
  return y;
}
Tensor zeros_like(const Tensor& x) { return full_like(x, 0); }
Tensor ones_like(const Tensor& x) { return full_like(x, 1); }

}  // namespace brim
