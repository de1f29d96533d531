// max and min along an axis with the indices; argmax and argmin
#include <brim/ops/create.h>
#include <brim/ops/index.h>
#include <brim/ops/reduce.h>

#include "autograd/node.h"
#include "ops/reduce/reduction.h"

namespace brim {
namespace {

using IndexKernel = backend::Kernel<void(const Context&, const Tensor& x, Tensor& values,
                                         Tensor& indices, int axis)>;

Extremum launch(const IndexKernel& kernel, const char* op, const Tensor& x, int axis,
                bool keepdim) {
  ops::check_defined(op, x);
  Tensor from = x.detach().contiguous();
  if (x.rank() == 0) {
    from = from.reshape({1});
    keepdim = false;
  }
  axis = normalize_axis(axis, from.rank(), op);
  BRIM_CHECK(from.shape()[axis] > 0, ValueError, "[{}] axis {} of shape {} is empty", op, axis,
             x.shape().str());
  Shape shape = from.shape();
  if (keepdim)
    shape[axis] = 1;
  else
    shape.erase(axis);
  Extremum y = {Tensor::empty(shape, x.dtype(), x.device()),
                Tensor::empty(shape, DType::i64, x.device())};
  kernel(x.device(), x.dtype(), from, y.values, y.indices, axis);
  return y;
}

Extremum extremum(const IndexKernel& kernel, const char* op, const Tensor& x, int axis,
                  bool keepdim) {
  Extremum y = launch(kernel, op, x, axis, keepdim);
  y.values = autograd::with_grad(
      op, y.values, {x},
      [saved = autograd::Saved(y.indices), shape = x.shape(), axis,
       keepdim](autograd::GradCall& g) {
        const Tensor dy = g.dy(), index = g[saved];
        if (shape.rank() == 0) return g.set(0, dy);
        const int at = normalize_axis(axis, shape.rank(), "max");
        const Tensor nothing = zeros(shape, {.dtype = dy.dtype(), .device = dy.device()});
        g.set(0, keepdim ? scatter_add(nothing, at, index, dy)
                         : scatter_add(nothing, at, index.unsqueeze(at), dy.unsqueeze(at)));
      });
  return y;
}

const IndexKernel& max_kernel() {
  static const IndexKernel kernel(
      "max_index", {.operands = "x, values, indices", .work = backend::Work::reduction});
  return kernel;
}
const IndexKernel& min_kernel() {
  static const IndexKernel kernel(
      "min_index", {.operands = "x, values, indices", .work = backend::Work::reduction});
  return kernel;
}

Tensor arg(const IndexKernel& kernel, const char* op, const Tensor& x, std::optional<int> axis,
           bool keepdim) {
  ops::check_defined(op, x);
  if (axis) return launch(kernel, op, x, *axis, keepdim).indices;
  Tensor index = launch(kernel, op, x.detach().reshape({-1}), 0, false).indices;
  if (keepdim) ops::reshape_fresh(index, Shape::filled(x.rank(), 1));
  return index;
}

}  // namespace

Extremum max(const Tensor& x, int axis, bool keepdim) {
  return extremum(max_kernel(), "max", x, axis, keepdim);
}
Extremum min(const Tensor& x, int axis, bool keepdim) {
  return extremum(min_kernel(), "min", x, axis, keepdim);
}
Tensor argmax(const Tensor& x, std::optional<int> axis, bool keepdim) {
  return arg(max_kernel(), "argmax", x, axis, keepdim);
}
Tensor argmin(const Tensor& x, std::optional<int> axis, bool keepdim) {
  return arg(min_kernel(), "argmin", x, axis, keepdim);
}

Tensor Tensor::argmax(std::optional<int> axis, bool keepdim) const {
  return brim::argmax(*this, axis, keepdim);
}
Tensor Tensor::argmin(std::optional<int> axis, bool keepdim) const {
  return brim::argmin(*this, axis, keepdim);
}

}  // namespace brim
