#include "ops/int8/int8.h"

#include <brim/autograd/autograd.h>

#include <cmath>

#include "ops/checks.h"
#include "ops/conv/convolve.h"

namespace brim::ops {

void check_int8_operands(const char* op, const Tensor& q, const Shape& weight, const Tensor& packed,
                         const Tensor& bias, int rank) {
  BRIM_CHECK(weight.rank() == rank, ShapeError, "[{}] expects a weight of {} axes, got {}", op,
             rank, weight.str());
  common_device(op, q, packed);
  BRIM_CHECK(q.dtype() == DType::u8, DTypeError, "[{}] x is {}; quantize() makes it u8", op,
             name(q.dtype()));
  if (!bias.defined()) return;
  common_device(op, q, bias);
  BRIM_CHECK(bias.dtype() == DType::f32 && bias.shape() == Shape{weight[0]}, ShapeError,
             "[{}] bias {} {} with weight {}: expected f32 ({})", op, name(bias.dtype()),
             bias.shape().str(), weight.str(), weight[0]);
  BRIM_CHECK(!grad_enabled() || !bias.requires_grad(), ValueError,
             "[{}] gradients of int8 layers are not implemented: train with fake_quantize(), and "
             "compute this in a NoGrad scope",
             op);
}

void check_int8_scales(const Tensor& scales, const Tensor& correction, int64_t outputs,
                       Device device) {
  for (const float scale : scales.to_vector<float>())
    BRIM_CHECK(std::isfinite(scale) && scale >= 0, ValueError, "[int8] an output's scale is {}",
               scale);
  if (!correction.defined()) return;
  BRIM_CHECK(correction.dtype() == DType::f32 && correction.shape() == Shape{outputs} &&
                 correction.device() == device,
             ValueError, "[int8] a correction {} {} of a weight of {} outputs",
             name(correction.dtype()), correction.shape().str(), outputs);
  for (const float c : correction.to_vector<float>())
    BRIM_CHECK(std::isfinite(c), ValueError, "[int8] an output's correction is {}", c);
}

void check_int8_shape(const Shape& shape) {
  BRIM_CHECK(shape.rank() == 2 || shape.rank() == 4, ShapeError,
             "[int8] expects a weight (O, K) or (O, C, KH, KW), got {}", shape.str());
  const int64_t inputs = shape[0] > 0 ? shape.numel() / shape[0] : 0;
  BRIM_CHECK(inputs <= Int8Weight::kMaxInputs, ValueError,
             "[int8] a weight {}: the sum of {} products can be more than an i32 holds; {} are "
             "possible",
             shape.str(), inputs, Int8Weight::kMaxInputs);
}

backend::Int8Call int8_call(QuantParams input, const Int8Output& output) {
  input.check();
  if (output.quantized) output.quantized->check();
  return {input, output.relu, output.quantized};
}

backend::ConvGeometry int8_geometry(const char* op, const Tensor& q, const Shape& weight,
                                    const Conv2dOptions& options) {
  check_rank(op, q, 4, "x (N, C, H, W)");
  BRIM_CHECK(options.groups == 1, NotImplemented,
             "[{}] {} groups: only one is implemented; use conv2d", op, options.groups);
  BRIM_CHECK(q.shape()[1] == weight[1], ShapeError,
             "[{}] x {} with weight {}: x must have {} channels", op, q.shape().str(), weight.str(),
             weight[1]);
  const backend::ConvGeometry geo = geometry_2d(op, q, weight, options);
  const auto padded = static_cast<double>(geo.h + 2 * geo.padding.h) *
                      static_cast<double>(geo.w + 2 * geo.padding.w) *
                      static_cast<double>(geo.c + 3);
  BRIM_CHECK(
      padded < 2147483648.0, ShapeError,
      "[{}] x {} with its padding: pictures of 2^31 numbers or more are not implemented; use "
      "conv2d",
      op, q.shape().str());
  return geo;
}

Int8LinearRows int8_linear_rows(const char* op, const Tensor& q, const Shape& weight,
                                const Int8Output& output) {
  const int64_t in = weight[1], out = weight[0];
  BRIM_CHECK(q.rank() >= 1 && q.size(-1) == in, ShapeError,
             "[{}] x {} with weight {}: the last axis of x must have {} elements", op,
             q.shape().str(), weight.str(), in);
  Shape shape = q.shape();
  shape[q.rank() - 1] = out;
  Tensor y = Tensor::empty(shape, dtype_of_output(output), q.device());
  const int64_t rows = in > 0 ? q.numel() / in : (out > 0 ? y.numel() / out : 0);
  return {
      .x = q.contiguous().reshape({rows, in}), .y = y, .flat = y.alias({rows, out}, {out, 1}, 0)};
}

}  // namespace brim::ops
