// sort, argsort and topk
#include <brim/ops/create.h>
#include <brim/ops/index.h>
#include <brim/ops/sort.h>

#include "autograd/node.h"
#include "backend/kernel.h"
#include "backend/options/sort_options.h"
#include "ops/checks.h"

namespace brim {
namespace {

Sorted launch(const char* op, const Tensor& x, const backend::SortOptions& options) {
  static const backend::Kernel<void(const Context&, const Tensor& x, Tensor& values,
                                    Tensor& indices, const backend::SortOptions&)>
      kernel("sort", {.operands = "x, values, indices"});
  Shape shape = x.shape();
  shape[options.axis] = options.count;
  Tensor values = Tensor::empty(shape, x.dtype(), x.device());
  Tensor indices = Tensor::empty(shape, i64, x.device());
  kernel(x.device(), x.dtype(), x, values, indices, options);
  values = autograd::with_grad(op, values, {x},
                               [from = x.shape(), axis = options.axis,
                                indices = autograd::Saved(indices)](autograd::GradCall& g) {
                                 const Tensor& dy = g.dy();
                                 const Tensor zero =
                                     zeros(from, {.dtype = dy.dtype(), .device = dy.device()});
                                 g.set(0, scatter_add(zero, axis, g[indices], dy));
                               });
  return {values, indices};
}

/// Of a tensor of rank 0, seen as (1).
Sorted as_numbers(const Sorted& s) {
  return s.values.numel() == 1 ? Sorted{s.values.reshape({}), s.indices.reshape({})} : s;
}

}  // namespace

Sorted sort(const Tensor& x, int axis, bool descending) {
  ops::check_defined("sort", x);
  if (x.rank() == 0) return as_numbers(sort(x.reshape({1}), axis, descending));
  axis = normalize_axis(axis, x.rank(), "sort");
  return launch("sort", x, {.axis = axis, .count = x.shape()[axis], .descending = descending});
}

Tensor argsort(const Tensor& x, int axis, bool descending) {
  ops::check_defined("argsort", x);
  return sort(x.detach(), axis, descending).indices;
}

Sorted topk(const Tensor& x, int64_t k, int axis, bool largest, bool sorted) {
  ops::check_defined("topk", x);
  if (x.rank() == 0) return as_numbers(topk(x.reshape({1}), k, axis, largest, sorted));
  axis = normalize_axis(axis, x.rank(), "topk");
  BRIM_CHECK(k >= 0 && k <= x.shape()[axis], ValueError,
             "[topk] k = {} for axis {} of shape {}; use 0 to {}", k, axis, x.shape().str(),
             x.shape()[axis]);
  return launch("topk", x, {.axis = axis, .count = k, .descending = largest, .in_order = sorted});
}

}  // namespace brim
