// gather, take_along and scatter_add, each the gradient of the other, and scatter
#include <brim/ops/create.h>
#include <brim/ops/index.h>
#include <brim/ops/shape.h>

#include "autograd/node.h"
#include "ops/checks.h"
#include "ops/index/index.h"
#include "ops/memory/copy.h"

namespace brim {
namespace {

/// index must have x's rank and fit into x in all axes but one.
void check_index(const char* op, const Tensor& x, const Tensor& index, int axis) {
  bool fits = index.rank() == x.rank();
  for (int d = 0; d < x.rank() && fits; ++d) fits = d == axis || index.shape()[d] <= x.shape()[d];
  BRIM_CHECK(fits, ShapeError,
             "[{}] index of shape {} does not fit shape {} along axis {}: it needs the same rank "
             "and no larger sizes in other axes",
             op, index.shape().str(), x.shape().str(), axis);
}

Tensor gather_as(const char* op, const Tensor& x, int axis, const Tensor& wide_index) {
  static const ops::GatherKernel kernel("gather", {.operands = "x, index, y"});
  const Tensor index = ops::as_index(op, wide_index, x);
  axis = normalize_axis(axis, x.rank(), op);
  check_index(op, x, index, axis);
  Tensor y = Tensor::empty(index.shape(), x.dtype(), x.device());
  kernel(x.device(), x.dtype(), x, index, y, {axis, op});
  return autograd::with_grad(
      op, y, {x}, [from = x.shape(), axis, index = autograd::Saved(index)](autograd::GradCall& g) {
        const Tensor& dy = g.dy();
        const Tensor zero = zeros(from, {.dtype = dy.dtype(), .device = dy.device()});
        g.set(0, scatter_add(zero, axis, g[index], dy));
      });
}

/// x with the kernel's writes of `source` into it, without a gradient.
Tensor scattered(const ops::ScatterKernel& kernel, const char* op, const Tensor& x, int axis,
                 const Tensor& index, const Tensor& source) {
  ops::common_device(op, x, source);
  ops::common_dtype(op, x, source);
  check_index(op, x, index, axis);
  bool fits = source.rank() == index.rank();
  for (int d = 0; d < index.rank() && fits; ++d) fits = index.shape()[d] <= source.shape()[d];
  BRIM_CHECK(fits, ShapeError, "[{}] source of shape {} has fewer elements than the index {}", op,
             source.shape().str(), index.shape().str());
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  ops::copy_elements(x, y);
  kernel(x.device(), x.dtype(), index, source, y, {axis, op});
  return y;
}

/// The gradient of a source that may be larger than the index: zeros beyond it.
Tensor source_gradient(const Tensor& dy, int axis, const Tensor& index, const Shape& source) {
  const Tensor d = gather(dy, axis, index);
  if (source == index.shape()) return d;
  std::vector<int64_t> pads;
  for (int a = source.rank() - 1; a >= 0; --a) {
    pads.push_back(0);
    pads.push_back(source[a] - index.shape()[a]);
  }
  return pad(d, pads);
}

}  // namespace

Tensor gather(const Tensor& x, int axis, const Tensor& index) {
  ops::check_defined("gather", x);
  ops::check_defined("gather", index);
  if (x.rank() == 0)
    return gather(x.reshape({1}), axis, ops::at_least_1d(index)).reshape(index.shape());
  return gather_as("gather", x, axis, index);
}

Tensor take_along(const Tensor& x, const Tensor& index, int axis) {
  ops::common_device("take_along", x, index);
  axis = normalize_axis(axis, x.rank(), "take_along");
  BRIM_CHECK(index.rank() == x.rank(), ShapeError,
             "[take_along] index of shape {} and x of shape {} differ in rank; unsqueeze one",
             index.shape().str(), x.shape().str());
  Shape other = index.shape(), own = x.shape();
  other[axis] = own[axis] = 1;
  Shape common = broadcast_shapes(own, other, "take_along");
  Shape x_shape = common, index_shape = common;
  x_shape[axis] = x.shape()[axis];
  index_shape[axis] = index.shape()[axis];
  return gather_as("take_along", x.expand(x_shape), axis, index.expand(index_shape));
}

Tensor scatter_add(const Tensor& x, int axis, const Tensor& wide_index, const Tensor& source) {
  static const ops::ScatterKernel kernel("scatter_add", {.operands = "index, source, rw y"});
  const Tensor index = ops::as_index("scatter_add", wide_index, x);
  ops::check_defined("scatter_add", source);
  if (x.rank() == 0)
    return scatter_add(x.reshape({1}), axis, ops::at_least_1d(index), ops::at_least_1d(source))
        .reshape({});
  axis = normalize_axis(axis, x.rank(), "scatter_add");
  return autograd::with_grad(
      "scatter_add", scattered(kernel, "scatter_add", x, axis, index, source), {x, source},
      [axis, index = autograd::Saved(index), from = source.shape()](autograd::GradCall& g) {
        g.set_if_needed(0, [&] { return g.dy(); });
        g.set_if_needed(1, [&] { return source_gradient(g.dy(), axis, g[index], from); });
      });
}

Tensor scatter(const Tensor& x, int axis, const Tensor& wide_index, const Tensor& source) {
  static const ops::ScatterKernel kernel("scatter", {.operands = "index, source, rw y"});
  const Tensor index = ops::as_index("scatter", wide_index, x);
  ops::check_defined("scatter", source);
  if (x.rank() == 0)
    return scatter(x.reshape({1}), axis, ops::at_least_1d(index), ops::at_least_1d(source))
        .reshape({});
  axis = normalize_axis(axis, x.rank(), "scatter");
  return autograd::with_grad(
      "scatter", scattered(kernel, "scatter", x, axis, index, source), {x, source},
      [axis, index = autograd::Saved(index), from = source.shape()](autograd::GradCall& g) {
        g.set_if_needed(0, [&] { return scatter(g.dy(), axis, g[index], 0.0); });
        g.set_if_needed(1, [&] { return source_gradient(g.dy(), axis, g[index], from); });
      });
}

Tensor scatter(const Tensor& x, int axis, const Tensor& index, double value) {
  ops::common_device("scatter", x, index);
  return scatter(x, axis, index,
                 full({}, value, {.dtype = x.dtype(), .device = x.device()}).expand(index.shape()));
}

}  // namespace brim
