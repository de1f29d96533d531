// int8_linear: y = x W^T + b in integers
#include "backend/kernel.h"
#include "ops/checks.h"
#include "ops/int8/int8.h"
#include "ops/memory_format.h"

namespace brim {
namespace {

double int8_linear_operations(const Tensor& x, const Tensor&, const Tensor&, const Tensor&,
                              const Tensor&, const Tensor&, const Tensor& y,
                              const backend::Int8Call&) {
  return 2.0 * static_cast<double>(x.numel()) * static_cast<double>(y.shape()[1]);
}

}  // namespace

Tensor int8_linear(const Tensor& q, QuantParams input, const Int8Weight& weight, const Tensor& bias,
                   const Int8Output& output) {
  static const backend::Kernel<void(const Context&, const Tensor& x, const Tensor& packed,
                                    const Tensor& sums, const Tensor& scales, const Tensor& bias,
                                    const Tensor& correction, Tensor& y, const backend::Int8Call&)>
      kernel("int8_linear", {.operands = "x, packed, sums, scales, bias, correction, y"},
             &int8_linear_operations);
  BRIM_CHECK(weight.packed.defined(), ValueError,
             "[int8_linear] the weight is empty; make one with Int8Weight::quantize");
  weight.check_structure();
  ops::check_int8_operands("int8_linear", q, weight.shape(), weight.packed, bias, 2);
  const backend::Int8Call call = ops::int8_call(input, output);
  ops::Int8LinearRows rows = ops::int8_linear_rows("int8_linear", q, weight.shape(), output);
  kernel(q.device(), DType::u8, rows.x, weight.packed, weight.sums, weight.scales,
         bias.defined() ? ops::packed(bias) : bias, weight.correction, rows.flat, call);
  return rows.y;
}

}  // namespace brim
