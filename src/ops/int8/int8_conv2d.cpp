// int8_conv2d: a convolution in integers
#include "backend/kernel.h"
#include "ops/checks.h"
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
  BRIM_CHECK(weight.packed.defined(), ValueError,
             "[int8_conv2d] the weight is empty; make one with Int8Weight::quantize");
  weight.check_structure();
  ops::check_int8_operands(kOp, q, weight.shape(), weight.packed, bias, 4);
  const backend::Int8Call call = ops::int8_call(input, output);
  const backend::ConvGeometry geo = ops::int8_geometry(kOp, q, weight.shape(), options);
  const Tensor from = ops::dense(q);
  Tensor y = ops::empty_in(geo.y_shape(), ops::dtype_of_output(output), from);
  kernel(q.device(), DType::u8, from, weight.packed, weight.sums, weight.scales,
         bias.defined() ? ops::packed(bias) : bias, weight.correction, y, geo, call);
  return y;
}

}  // namespace brim
