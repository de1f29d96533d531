// sparse_linear: y = x W^T + b with a weight of kept columns
#include <brim/ops/sparse.h>

#include "ops/checks.h"
#include "ops/sparse/sparse.h"

namespace brim {
namespace {

double sparse_linear_operations(const Tensor& x, const Tensor& values, const Tensor&, const Tensor&,
                                const Tensor&, const Tensor&, const Tensor&) {
  return 2.0 * static_cast<double>(x.shape()[0]) * static_cast<double>(values.numel());
}

}  // namespace

Tensor sparse_linear(const Tensor& x, const SparseWeight& weight, const Tensor& bias) {
  static const backend::Kernel<void(const Context&, const Tensor& x, const Tensor& values,
                                    const Tensor& columns, const Tensor& starts,
                                    const Tensor& outputs, const Tensor& bias, Tensor& y)>
      kernel("sparse_linear", {.operands = "x, values, columns, starts, outputs, bias, y"},
             &sparse_linear_operations);
  ops::check_sparse_operands("sparse_linear", x, weight, bias, 2);
  const int64_t in = weight.shape[1], out = weight.shape[0];
  BRIM_CHECK(x.rank() >= 1 && x.size(-1) == in, ShapeError,
             "[sparse_linear] x {} with weight {}: the last axis of x must have {} elements",
             x.shape().str(), weight.shape.str(), in);
  Shape shape = x.shape();
  shape[x.rank() - 1] = out;
  Tensor y = Tensor::empty(shape, x.dtype(), x.device());
  const int64_t rows = in > 0 ? x.numel() / in : (out > 0 ? y.numel() / out : 0);
  Tensor flat = y.alias({rows, out}, {out, 1}, 0);
  kernel(x.device(), x.dtype(), x.detach().contiguous().reshape({rows, in}), weight.values,
         weight.columns, weight.starts, weight.outputs, bias, flat);
  return y;
}

}  // namespace brim
