// unfold: overlapping windows along an axis, as a view
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/index.h>
#include <brim/ops/shape.h>

#include "autograd/node.h"
#include "ops/checks.h"

namespace brim {
namespace {

/// The gradient of unfold: windows, with their elements as the last axis, added where they lie.
Tensor fold(const Tensor& windows, const Shape& shape, int axis, int64_t step) {
  const int64_t size = windows.size(-1), count = windows.shape()[axis];
  const TensorOptions index{.dtype = i64, .device = windows.device()};
  const Tensor at =
      add(mul(arange(count, index), static_cast<double>(step)).unsqueeze(1), arange(size, index));
  Shape flat = shape;
  flat[axis] = count * size;
  const Tensor nothing = zeros(shape, {.dtype = windows.dtype(), .device = windows.device()});
  return index_add(nothing, axis, at.reshape({count * size}),
                   movedim(windows, -1, axis + 1).reshape(flat));
}

}  // namespace

Tensor unfold(const Tensor& x, int axis, int64_t size, int64_t step) {
  ops::check_defined("unfold", x);
  axis = normalize_axis(axis, x.rank(), "unfold");
  BRIM_CHECK(step >= 1 && size >= 0 && size <= x.shape()[axis], ValueError,
             "[unfold] windows of {} elements, {} apart, along axis {} of shape {}; size must be 0 "
             "to {}, step 1 or more",
             size, step, axis, x.shape().str(), x.shape()[axis]);
  Shape to = x.shape();
  Strides strides = x.strides();
  to[axis] = (x.shape()[axis] - size) / step + 1;
  to.push_back(size);
  strides.push_back(strides[axis]);
  if (to[axis] > 1) strides[axis] *= step;  // a huge step may not overflow
  return autograd::with_grad("unfold", x.alias(to, strides, x.offset()), {x},
                             [from = x.shape(), axis, step](autograd::GradCall& g) {
                               g.set(0, fold(g.dy(), from, axis, step));
                             });
}

}  // namespace brim
