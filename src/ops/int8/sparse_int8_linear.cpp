// sparse_int8_linear: y = x W^T + b in integers, with a weight of kept columns
#include <brim/ops/sparse_int8.h>

#include "backend/kernel.h"
#include "ops/checks.h"
#include "ops/int8/int8.h"
#include "ops/memory_format.h"

namespace brim {
namespace {

double sparse_int8_linear_operations(const Tensor& x, const Tensor&, const Tensor& columns,
                                     const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                     const Tensor&, const Tensor&, const Tensor&,
                                     const backend::SparseInt8Call& call) {
  return 2.0 * static_cast<double>(x.shape()[0]) *
         static_cast<double>(columns.numel() * call.vector);
}

}  // namespace

Tensor sparse_int8_linear(const Tensor& q, QuantParams input, const SparseInt8Weight& weight,
                          const Tensor& bias, const Int8Output& output) {
  static const backend::Kernel<void(
      const Context&, const Tensor& x, const Tensor& packed, const Tensor& columns,
      const Tensor& starts, const Tensor& outputs, const Tensor& sums, const Tensor& scales,
      const Tensor& bias, const Tensor& correction, Tensor& y, const backend::SparseInt8Call&)>
      kernel("sparse_int8_linear",
             {.operands = "x, packed, columns, starts, outputs, sums, scales, bias, correction, y"},
             &sparse_int8_linear_operations);
  constexpr const char* kOp = "sparse_int8_linear";
  BRIM_CHECK(weight.packed.defined(), ValueError,
             "[{}] the weight is empty; make one with SparseInt8Weight::encode", kOp);
  weight.check_structure();
  ops::check_int8_operands(kOp, q, weight.shape, weight.packed, bias, 2);
  const backend::Int8Call call = ops::int8_call(input, output);
  ops::Int8LinearRows rows = ops::int8_linear_rows(kOp, q, weight.shape, output);
  kernel(q.device(), DType::u8, rows.x, weight.packed, weight.columns, weight.starts,
         weight.outputs, weight.sums, weight.scales, bias.defined() ? ops::packed(bias) : bias,
         weight.correction, rows.flat, {call, weight.vector});
  return rows.y;
}

}  // namespace brim
