// sparse_int8_conv2d: a convolution in integers, with a weight of kept columns
#include <brim/ops/sparse_int8.h>

#include "backend/kernel.h"
#include "ops/checks.h"
#include "ops/int8/int8.h"
#include "ops/memory_format.h"

namespace brim {
namespace {

double sparse_int8_conv2d_operations(const Tensor&, const Tensor&, const Tensor& columns,
                                     const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                     const Tensor&, const Tensor&, const Tensor&,
                                     const backend::ConvGeometry& g,
                                     const backend::SparseInt8Call& call) {
  return 2.0 * static_cast<double>(g.n * g.oh * g.ow) *
         static_cast<double>(columns.numel() * call.vector);
}

}  // namespace

Tensor sparse_int8_conv2d(const Tensor& q, QuantParams input, const SparseInt8Weight& weight,
                          const Tensor& bias, const Conv2dOptions& options,
                          const Int8Output& output) {
  static const backend::Kernel<void(const Context&, const Tensor& x, const Tensor& packed,
                                    const Tensor& columns, const Tensor& starts,
                                    const Tensor& outputs, const Tensor& sums, const Tensor& scales,
                                    const Tensor& bias, const Tensor& correction, Tensor& y,
                                    const backend::ConvGeometry&, const backend::SparseInt8Call&)>
      kernel("sparse_int8_conv2d",
             {.operands = "x, packed, columns, starts, outputs, sums, scales, bias, correction, y",
              .activations = "x, y"},
             &sparse_int8_conv2d_operations);
  constexpr const char* kOp = "sparse_int8_conv2d";
  BRIM_CHECK(weight.packed.defined(), ValueError,
             "[{}] the weight is empty; make one with SparseInt8Weight::encode", kOp);
  weight.check_structure();
  ops::check_int8_operands(kOp, q, weight.shape, weight.packed, bias, 4);
  const backend::Int8Call call = ops::int8_call(input, output);
  const backend::ConvGeometry geo = ops::int8_geometry(kOp, q, weight.shape, options);
  const Tensor from = ops::dense(q);
  Tensor y = ops::empty_in(geo.y_shape(), ops::dtype_of_output(output), from);
  kernel(q.device(), DType::u8, from, weight.packed, weight.columns, weight.starts, weight.outputs,
         weight.sums, weight.scales, bias.defined() ? ops::packed(bias) : bias, weight.correction,
         y, geo, {call, weight.vector});
  return y;
}

}  // namespace brim
