// sparse_conv2d: a convolution with a weight of kept columns
#include <brim/ops/sparse.h>

#include "backend/options/geometry.h"
#include "ops/checks.h"
#include "ops/conv/convolve.h"
#include "ops/memory_format.h"
#include "ops/sparse/sparse.h"

namespace brim {
namespace {

double sparse_conv_operations(const Tensor&, const Tensor& values, const Tensor&, const Tensor&,
                              const Tensor&, const Tensor&, const Tensor&,
                              const backend::ConvGeometry& g) {
  return 2.0 * static_cast<double>(g.n * g.oh * g.ow) * static_cast<double>(values.numel());
}

}  // namespace

Tensor sparse_conv2d(const Tensor& x, const SparseWeight& weight, const Tensor& bias,
                     const Conv2dOptions& options) {
  static const backend::Kernel<void(const Context&, const Tensor& x, const Tensor& values,
                                    const Tensor& columns, const Tensor& starts,
                                    const Tensor& outputs, const Tensor& bias, Tensor& y,
                                    const backend::ConvGeometry&)>
      kernel("sparse_conv2d",
             {.operands = "x, values, columns, starts, outputs, bias, y", .activations = "x, y"},
             &sparse_conv_operations);
  constexpr const char* kOp = "sparse_conv2d";
  ops::check_sparse_operands(kOp, x, weight, bias, 4);
  ops::check_rank(kOp, x, 4, "x (N, C, H, W)");
  BRIM_CHECK(options.groups == 1, NotImplemented,
             "[sparse_conv2d] {} groups: only one is implemented; use conv2d", options.groups);
  const Shape& k = weight.shape;
  BRIM_CHECK(x.shape()[1] == k[1], ShapeError,
             "[sparse_conv2d] x {} with weight {}: x must have {} channels", x.shape().str(),
             k.str(), k[1]);
  const backend::ConvGeometry geo = ops::geometry_2d(kOp, x, k, options);
  const auto padded = static_cast<double>(geo.h + 2 * geo.padding.h) *
                      static_cast<double>(geo.w + 2 * geo.padding.w) * static_cast<double>(geo.c);
  BRIM_CHECK(padded < 2147483648.0, ShapeError,
             "[sparse_conv2d] x {} with its padding: pictures of 2^31 numbers or more are not "
             "implemented; use conv2d",
             x.shape().str());
  const Tensor from = ops::dense(x.detach());
  Tensor y = ops::empty_in(geo.y_shape(), x.dtype(), from);
  kernel(x.device(), x.dtype(), from, weight.values, weight.columns, weight.starts, weight.outputs,
         bias, y, geo);
  return y;
}

}  // namespace brim
