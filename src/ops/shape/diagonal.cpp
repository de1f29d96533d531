// diagonal of two axes, and movedim: views
#include <algorithm>

#include <brim/ops/create.h>
#include <brim/ops/shape.h>

#include "autograd/node.h"
#include "ops/checks.h"
#include "ops/memory/copy.h"

namespace brim {
namespace {

/// The gradient of diagonal: zeros with `dy` on the diagonal. Its own gradient is the diagonal.
Tensor undiagonal(const Tensor& dy, const Shape& shape, int64_t offset, int axis1, int axis2) {
  Tensor dx = zeros(shape, {.dtype = dy.dtype(), .device = dy.device()});
  Tensor part = diagonal(dx, offset, axis1, axis2);
  ops::copy_elements(dy, part);
  return autograd::with_grad("undiagonal", dx, {dy}, [=](autograd::GradCall& g) {
    g.set(0, diagonal(g.dy(), offset, axis1, axis2));
  });
}

}  // namespace

Tensor diagonal(const Tensor& x, int64_t offset, int axis1, int axis2) {
  ops::check_defined("diagonal", x);
  axis1 = normalize_axis(axis1, x.rank(), "diagonal");
  axis2 = normalize_axis(axis2, x.rank(), "diagonal");
  BRIM_CHECK(axis1 != axis2, ShapeError, "[diagonal] both axes are {}; name two", axis1);
  const int64_t rows = x.shape()[axis1], columns = x.shape()[axis2];
  offset = std::clamp(offset, -rows, columns);
  const int64_t row = std::max<int64_t>(0, -offset), column = std::max<int64_t>(0, offset);
  const int64_t length = std::max<int64_t>(0, std::min(rows - row, columns - column));
  Shape to = x.shape();
  Strides strides = x.strides();
  const int64_t step = strides[axis1] + strides[axis2];
  const int64_t start = length ? row * strides[axis1] + column * strides[axis2] : 0;
  for (int axis : {std::max(axis1, axis2), std::min(axis1, axis2)}) {
    to.erase(axis);
    strides.erase(axis);
  }
  to.push_back(length);
  strides.push_back(step);
  return autograd::with_grad("diagonal", x.alias(to, strides, x.offset() + start), {x},
                             [from = x.shape(), offset, axis1, axis2](autograd::GradCall& g) {
                               g.set(0, undiagonal(g.dy(), from, offset, axis1, axis2));
                             });
}

Tensor movedim(const Tensor& x, int from, int to) {
  ops::check_defined("movedim", x);
  from = normalize_axis(from, x.rank(), "movedim");
  to = normalize_axis(to, x.rank(), "movedim");
  std::vector<int> axes;
  for (int i = 0; i < x.rank(); ++i)
    if (i != from) axes.push_back(i);
  axes.insert(axes.begin() + to, from);
  return x.permute(axes);
}

}  // namespace brim
