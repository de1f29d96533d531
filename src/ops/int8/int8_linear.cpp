// int8_linear: y = x W^T + b in integers
#include "backend/kernel.h"
#include "backend/options/int8.h"
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
  ops::check_int8_operands("int8_linear", q, weight, bias, 2);
  input.check();
  if (output.quantized) output.quantized->check();
  const int64_t in = weight.shape()[1], out = weight.shape()[0];
  BRIM_CHECK(q.rank() >= 1 && q.size(-1) == in, ShapeError,
             "[int8_linear] x {} with weight {}: the last axis of x must have {} elements",
             q.shape().str(), weight.shape().str(), in);
  Shape shape = q.shape();
  shape[q.rank() - 1] = out;
  Tensor y = Tensor::empty(shape, ops::dtype_of_output(output), q.device());
  const int64_t rows = in > 0 ? q.numel() / in : (out > 0 ? y.numel() / out : 0);
  Tensor flat = y.alias({rows, out}, {out, 1}, 0);
  kernel(q.device(), DType::u8, q.contiguous().reshape({rows, in}), weight.packed, weight.sums,
         weight.scales, bias.defined() ? ops::packed(bias) : bias, weight.correction, flat,
         {input, output.relu, output.quantized});
  return y;
}

}  // namespace brim
