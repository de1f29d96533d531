// quantize, dequantize, fake_quantize: between f32 and u8 of one scale and zero point
#include <brim/autograd/autograd.h>
#include <brim/ops/binary.h>
#include <brim/ops/compare.h>
#include <brim/ops/create.h>
#include <brim/ops/int8.h>
#include <brim/ops/reduce.h>
#include <brim/ops/unary.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "autograd/node.h"
#include "backend/kernel.h"
#include "ops/checks.h"
#include "ops/memory_format.h"

namespace brim {
namespace {

using ToOrFrom =
    backend::Kernel<void(const Context&, const Tensor& x, Tensor& y, const QuantParams& params)>;

Tensor converted(const char* op, const ToOrFrom& kernel, const Tensor& x, DType from, DType to,
                 QuantParams params) {
  ops::check_defined(op, x);
  params.check();
  BRIM_CHECK(x.dtype() == from, DTypeError, "[{}] x is {}; it must be {}", op, name(x.dtype()),
             name(from));
  const Tensor dense = ops::dense(x.detach());
  Tensor y = ops::empty_in(x.shape(), to, dense);
  kernel(x.device(), from, dense, y, params);
  return y;
}

}  // namespace

Tensor quantize(const Tensor& x, QuantParams params) {
  static const ToOrFrom kernel(
      "quantize", {.operands = "x, y", .work = backend::Work::pointwise, .activations = "x, y"});
  BRIM_CHECK(!grad_enabled() || !x.defined() || !x.requires_grad(), ValueError,
             "[quantize] u8 has no gradients: use fake_quantize(), or a NoGrad scope");
  return converted("quantize", kernel, x, DType::f32, DType::u8, params);
}

Tensor dequantize(const Tensor& q, QuantParams params) {
  static const ToOrFrom kernel(
      "dequantize", {.operands = "x, y", .work = backend::Work::pointwise, .activations = "x, y"});
  return converted("dequantize", kernel, q, DType::u8, DType::f32, params);
}

Tensor fake_quantize(const Tensor& x, QuantParams params) {
  ops::check_defined("fake_quantize", x);
  const Tensor rounded = [&] {
    const NoGrad scope;
    return dequantize(quantize(x, params), params);
  }();
  return autograd::with_grad(
      "fake_quantize", rounded, {x}, [x = autograd::Saved(x), params](autograd::GradCall& g) {
        const double half = params.scale / 2;  // what is rounded to the last step
        const Tensor inside = logical_and(g[x] >= params.min() - half, g[x] <= params.max() + half);
        g.set(0, where(inside, g.dy(), zeros_like(g.dy())));
      });
}

Tensor fake_quantize_weight(const Tensor& weight) {
  ops::check_floating("fake_quantize_weight", weight);
  BRIM_CHECK(weight.rank() >= 1, ShapeError, "[fake_quantize_weight] expects a weight (O, ..)");
  const Tensor rounded = [&] {
    const NoGrad scope;
    if (weight.numel() == 0) return weight.detach().clone();
    std::vector<int> inputs;
    for (int axis = 1; axis < weight.rank(); ++axis) inputs.push_back(axis);
    const Tensor most = inputs.empty() ? abs(weight) : amax(abs(weight), inputs, true);
    const Tensor scale = clamp(most / 127, 1e-37, {});  // of zeros alone: any
    return round(weight / scale) * scale;
  }();
  return autograd::with_grad("fake_quantize_weight", rounded, {weight},
                             [](autograd::GradCall& g) { g.set(0, g.dy()); });
}

}  // namespace brim
