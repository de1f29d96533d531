#include "ops/index/index.h"

#include "ops/checks.h"

namespace brim::ops {

Tensor as_index(const char* op, const Tensor& index, const Tensor& x) {
  common_device(op, x, index);
  BRIM_CHECK(index.dtype() == i64 || index.dtype() == i32, DTypeError,
             "[{}] the index is {}; use i64 or i32", op, name(index.dtype()));
  return index.to(i64);
}

Tensor along_axis(const Tensor& index, const Shape& shape, int axis) {
  Strides strides = Shape::filled(shape.rank(), 0);
  strides[axis] = index.strides()[0];
  return index.alias(shape, strides, index.offset());
}

}  // namespace brim::ops
