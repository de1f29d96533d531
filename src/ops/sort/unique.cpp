// unique: the different elements of a tensor, where each is, and how often
#include <brim/ops/binary.h>
#include <brim/ops/compare.h>
#include <brim/ops/create.h>
#include <brim/ops/index.h>
#include <brim/ops/reduce.h>
#include <brim/ops/shape.h>
#include <brim/ops/sort.h>

#include "autograd/node.h"
#include "ops/checks.h"

namespace brim {

Unique unique(const Tensor& x) {
  ops::check_defined("unique", x);
  ops::refuse_shape_of_values("unique");
  const NoGrad no_history;
  const int64_t n = x.numel();
  const TensorOptions index{.dtype = i64, .device = x.device()};
  if (n == 0)
    return {zeros({0}, {.dtype = x.dtype(), .device = x.device()}), zeros(x.shape(), index),
            zeros({0}, index)};
  const auto [values, order] = sort(x.detach().reshape({n}));
  // Where a run of equal elements begins, the next value does.
  const Tensor begins = cat({ones({1}, {.dtype = bool_, .device = x.device()}),
                             ne(values.slice(0, 1, n), values.slice(0, 0, n - 1))});
  const Tensor at = nonzero(begins).squeeze(1);
  const Tensor ends = cat({at.slice(0, 1, at.numel()), full({1}, static_cast<double>(n), index)});
  const Tensor place = sub(cumsum(begins, 0), 1);
  return {.values = index_select(values, 0, at),
          .inverse = scatter(zeros_like(place), 0, order, place).reshape(x.shape()),
          .counts = sub(ends, at)};
}

}  // namespace brim
