// int8_conv2d: a convolution in integers
#include "backend/kernel.h"
#include "backend/options/geometry.h"
#include "backend/options/int8.h"
#include "ops/checks.h"
#include "ops/conv/convolve.h"
#include "ops/int8/int8.h"
#include "ops/memory_format.h"

namespace brim {
namespace {

double int8_conv2d_operations(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                              const Tensor&, const Tensor&, const Tensor&,
                              const backend::ConvGeometry& g, const backend::Int8Call&) {
  return 2.0 * static_cast<double>(g.work());
}

}  // namespace

Tensor int8_conv2d(const Tensor& q, QuantParams input, const Int8Weight& weight, const Tensor& bias,
                   const Conv2dOptions& options, const Int8Output& output) {
  static const backend::Kernel<void(const Context&, const Tensor& x, const Tensor& packed,
                                    const Tensor& sums, const Tensor& scales, const Tensor& bias,
                                    const Tensor& correction, Tensor& y,
                                    const backend::ConvGeometry&, const backend::Int8Call&)>
      kernel("int8_conv2d",
             {.operands = "x, packed, sums, scales, bias, correction, y", .activations = "x, y"},
             &int8_conv2d_operations);
  constexpr const char* kOp = "int8_conv2d";
  ops::check_int8_operands(kOp, q, weight, bias, 4);
  input.check();
  if (output.quantized) output.quantized->check();
  ops::check_rank(kOp, q, 4, "x (N, C, H, W)");
  BRIM_CHECK(options.groups == 1, NotImplemented,
             "[int8_conv2d] {} groups: only one is implemented; use conv2d", options.groups);
  const Shape& k = weight.shape();
  BRIM_CHECK(q.shape()[1] == k[1], ShapeError,
             "[int8_conv2d] x {} with weight {}: x must have {} channels", q.shape().str(), k.str(),
             k[1]);
  const backend::ConvGeometry geo = ops::geometry_2d(kOp, q, k, options);
  const auto padded = static_cast<double>(geo.h + 2 * geo.padding.h) *
                      static_cast<double>(geo.w + 2 * geo.padding.w) *
                      static_cast<double>(geo.c + 3);
  BRIM_CHECK(padded < 2147483648.0, ShapeError,
             "[int8_conv2d] x {} with its padding: pictures of 2^31 numbers or more are not "
             "implemented; use conv2d",
             q.shape().str());
  const Tensor from = ops::dense(q);
  Tensor y = ops::empty_in(geo.y_shape(), ops::dtype_of_output(output), from);
  kernel(q.device(), DType::u8, from, weight.packed, weight.sums, weight.scales,
         bias.defined() ? ops::packed(bias) : bias, weight.correction, y, geo,
         {input, output.relu, output.quantized});
  return y;
}

}  // namespace brim
