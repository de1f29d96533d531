#include "ops/reduce/reduction.h"

namespace brim::ops {

Reduction::Reduction(const char* op, const Tensor& x, const std::vector<int>& axes) {
  check_defined(op, x);
  from = kept = x.shape();
  if (axes.empty()) reduced.fill(true);
  for (int axis : axes) {
    if (x.rank() == 0 && (axis == 0 || axis == -1)) continue;
    bool& mark = reduced[static_cast<size_t>(normalize_axis(axis, x.rank(), op))];
    BRIM_CHECK(!mark, ValueError, "[{}] axis {} is named twice", op, axis);
    mark = true;
  }
  for (int i = 0; i < x.rank(); ++i) {
    if (reduced[static_cast<size_t>(i)]) {
      count *= kept[i];
      kept[i] = 1;
    } else {
      dropped.push_back(kept[i]);
    }
  }
}

Tensor& reshape_fresh(Tensor& y, const Shape& shape) {
  y.impl()->shape = shape;
  y.impl()->strides = contiguous_strides(shape);
  return y;
}

Tensor reduce(const ReduceKernel& kernel, const Tensor& x, const Reduction& axes, bool keepdim,
              DType dtype) {
  Tensor y = Tensor::empty(axes.kept, dtype, x.device());
  kernel(x.device(), x.dtype(), x, y);
  if (!keepdim) reshape_fresh(y, axes.dropped);
  return y;
}

}  // namespace brim::ops
