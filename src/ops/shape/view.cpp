// view, reshape, flatten: other shapes over the same elements
#include <algorithm>

#include "autograd/node.h"
#include "ops/checks.h"

namespace brim {
namespace {

/// Resolves one -1 in `shape` so that it holds `numel` elements.
Shape resolve(const char* op, Shape shape, const Tensor& x) {
  int64_t known = 1;
  int unknown = -1;
  bool fits = true;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == -1) {
      BRIM_CHECK(unknown < 0, ShapeError, "[{}] shape {} has more than one -1", op, shape.str());
      unknown = i;
    } else {
      BRIM_CHECK(shape[i] >= 0, ShapeError, "[{}] shape {} has a negative size", op, shape.str());
      fits &= !__builtin_mul_overflow(known, shape[i], &known);
    }
  }
  const int64_t numel = x.numel();
  fits &= unknown < 0 ? known == numel : known > 0 && numel % known == 0;
  BRIM_CHECK(fits, ShapeError, "[{}] a tensor of shape {} ({} elements) cannot take shape {}", op,
             x.shape().str(), numel, shape.str());
  if (unknown >= 0) shape[unknown] = numel / known;
  return shape;
}

/// Strides that show x's elements in `shape` without a copy; false where there are none.
bool view_strides(const Tensor& x, const Shape& shape, Strides& out) {
  out = contiguous_strides(shape);
  if (x.is_contiguous() || x.numel() == 0) return true;
  // Walk both shapes from the back; a run of x's axes that is dense must hold a run of new axes.
  int to = shape.rank() - 1;
  for (int from = x.rank() - 1; from >= 0;) {
    int64_t run = x.shape()[from];
    const int64_t step = x.strides()[from];
    while (--from >= 0 && (x.shape()[from] == 1 || x.strides()[from] == run * step))
      run *= x.shape()[from];
    int64_t filled = 1;
    while (to >= 0 && (filled < run || shape[to] == 1)) {
      out[to] = step * filled;
      filled *= shape[to--];
    }
    if (filled != run) return false;
  }
  return true;
}

}  // namespace

Tensor Tensor::view(const Shape& wanted) const {
  ops::check_defined("view", *this);
  const Shape shape = resolve("view", wanted, *this);
  Strides strides;
  BRIM_CHECK(view_strides(*this, shape, strides), ShapeError,
             "[view] shape {} with strides {} cannot be seen as {} without a copy; use reshape",
             this->shape().str(), this->strides().str(), shape.str());
  return autograd::with_grad(
      "view", alias(shape, strides, offset()), {*this},
      [from = this->shape()](autograd::GradCall& g) { g.set(0, g.dy().reshape(from)); });
}

Tensor Tensor::reshape(const Shape& wanted) const {
  ops::check_defined("reshape", *this);
  const Shape shape = resolve("reshape", wanted, *this);
  if (shape == this->shape()) return *this;
  Strides strides;
  return view_strides(*this, shape, strides) ? view(shape) : contiguous().view(shape);
}

Tensor Tensor::flatten(int start, int end) const {
  ops::check_defined("flatten", *this);
  if (rank() == 0) return reshape({1});
  start = normalize_axis(start, rank(), "flatten");
  end = normalize_axis(end, rank(), "flatten");
  BRIM_CHECK(start <= end, IndexError, "[flatten] start {} is after end {}", start, end);
  Shape flat;
  int64_t run = 1;
  for (int i = 0; i < rank(); ++i) {
    if (i < start || i > end) {
      flat.push_back(shape()[i]);
    } else {
      run *= shape()[i];
      if (i == end) flat.push_back(run);
    }
  }
  return reshape(flat);
}

}  // namespace brim
