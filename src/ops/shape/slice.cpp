// slice and select: part of an axis, as a view
#include <algorithm>

#include <brim/ops/create.h>

#include "autograd/node.h"
#include "ops/checks.h"
#include "ops/memory/copy.h"

namespace brim {
namespace {

/// The gradient of slice: zeros with `dy` written into the slice. Its own gradient is the slice.
Tensor unslice(const Tensor& dy, const Shape& shape, int axis, int64_t start, int64_t stop,
               int64_t step) {
  Tensor dx = zeros(shape, {.dtype = dy.dtype(), .device = dy.device()});
  Tensor part = dx.slice(axis, start, stop, step);
  ops::copy_elements(dy, part);
  return autograd::with_grad("unslice", dx, {dy}, [=](autograd::GradCall& g) {
    g.set(0, g.dy().slice(axis, start, stop, step));
  });
}

}  // namespace

Tensor Tensor::slice(int axis, int64_t start, int64_t stop, int64_t step) const {
  ops::check_defined("slice", *this);
  axis = normalize_axis(axis, rank(), "slice");
  BRIM_CHECK(step >= 1, ValueError, "[slice] step {} is below 1; use flip for reversed order",
             step);
  const int64_t size = shape()[axis];
  if (start < 0) start += size;
  if (stop < 0) stop += size;
  start = std::clamp<int64_t>(start, 0, size);
  stop = std::clamp<int64_t>(stop, start, size);
  Shape to = shape();
  Strides strides = this->strides();
  to[axis] = stop > start ? (stop - start - 1) / step + 1 : 0;
  if (to[axis] > 1) strides[axis] *= step;  // a huge step may not overflow
  const int64_t at = offset() + (to[axis] > 0 ? start * this->strides()[axis] : 0);
  return autograd::with_grad("slice", alias(to, strides, at), {*this},
                             [from = shape(), axis, start, stop, step](autograd::GradCall& g) {
                               g.set(0, unslice(g.dy(), from, axis, start, stop, step));
                             });
}

Tensor Tensor::select(int axis, int64_t index) const {
  ops::check_defined("select", *this);
  axis = normalize_axis(axis, rank(), "select");
  const int64_t size = shape()[axis];
  BRIM_CHECK(index >= -size && index < size, IndexError,
             "[select] index {} is out of range for axis {} of shape {}", index, axis,
             shape().str());
  if (index < 0) index += size;
  Shape to = shape();
  Strides strides = this->strides();
  to.erase(axis);
  strides.erase(axis);
  return autograd::with_grad(
      "select", alias(to, strides, offset() + index * this->strides()[axis]), {*this},
      [from = shape(), axis, index](autograd::GradCall& g) {
        g.set(0, unslice(g.dy().unsqueeze(axis), from, axis, index, index + 1, 1));
      });
}

}  // namespace brim
