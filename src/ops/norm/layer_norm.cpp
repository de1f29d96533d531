// layer_norm: one kernel each way; rms_norm is made of ops
#include <brim/ops/binary.h>
#include <brim/ops/norm.h>
#include <brim/ops/reduce.h>
#include <brim/ops/unary.h>

#include "autograd/node.h"
#include "backend/kernel.h"
#include "ops/autocast.h"
#include "ops/checks.h"
#include "ops/norm/operands.h"

namespace brim {
namespace {

/// Throws unless x ends in `shape` and the parameters have it. Returns the number of rows.
int64_t check(const char* op, const Tensor& x, const Shape& shape, const Tensor& weight,
              const Tensor& bias) {
  ops::check_floating(op, x);
  const int from = x.rank() - shape.rank();
  bool fits = from >= 0 && shape.rank() > 0;
  for (int i = 0; fits && i < shape.rank(); ++i) fits = x.shape()[from + i] == shape[i];
  BRIM_CHECK(fits, ShapeError, "[{}] x has shape {}, which does not end in normalized_shape {}", op,
             x.shape().str(), shape.str());
  ops::check_parameters(op, x, shape, weight, bias);
  int64_t rows = 1;
  for (int i = 0; i < from; ++i) rows *= x.shape()[i];
  return rows;
}

/// The last `count` axes, or all before them.
std::vector<int> axes_of(const Tensor& x, int count, bool last) {
  std::vector<int> axes;
  for (int i = 0; i < x.rank(); ++i)
    if ((i >= x.rank() - count) == last) axes.push_back(i);
  return axes;
}

ops::NormGradients fused_gradient(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                  const Tensor& mean, const Tensor& scale, const Shape& shape) {
  static const backend::Kernel<void(const Context&, const Tensor& dy, const Tensor& x,
                                    const Tensor& weight, const Tensor& mean, const Tensor& scale,
                                    Tensor& dx, Tensor& dweight, Tensor& dbias)>
      kernel("layer_norm_grad", {.operands = "dy, x, weight, mean, scale, dx, dweight, dbias"});
  ops::NormGradients d = {Tensor::empty(x.shape(), x.dtype(), x.device()),
                          Tensor::empty(shape, x.dtype(), x.device()),
                          Tensor::empty(shape, x.dtype(), x.device())};
  kernel(x.device(), x.dtype(), dy.contiguous(), x, ops::as_operand(weight), mean, scale, d.x,
         d.weight, d.bias);
  return d;
}

/// The same made of ops, so that it has gradients itself. 16 bits are computed in f32.
ops::NormGradients composed_gradient(const Tensor& narrow_dy, const Tensor& narrow_x,
                                     const Tensor& weight, const Shape& shape, double eps) {
  const DType dtype = narrow_x.dtype(), wide = ops::statistics_dtype(dtype);
  const Tensor x = narrow_x.to(wide), dy = narrow_dy.to(wide);
  const std::vector<int> axes = axes_of(x, shape.rank(), true);
  const Tensor centred = ops::centred(x, axes);
  const Tensor scale = rsqrt(mean(centred * centred, axes, true) + eps);
  const Tensor unit = centred * scale, g = weight.defined() ? dy * weight.to(wide) : dy;
  const auto over_rows = [&](const Tensor& t) {
    const std::vector<int> rows = axes_of(t, shape.rank(), false);
    return rows.empty() ? t : sum(t, rows);
  };
  const Tensor dx = scale * (g - mean(g, axes, true) - unit * mean(g * unit, axes, true));
  return {dx.to(dtype), over_rows(dy * unit).to(dtype), over_rows(dy).to(dtype)};
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight,
                  const Tensor& bias, double eps) {
  if (ops::autocasting()) [[unlikely]]
    return ops::run_wide(
        [&](const Tensor& t, const Tensor& w, const Tensor& b) {
          return layer_norm(t, normalized_shape, w, b, eps);
        },
        x, weight, bias);
  static const backend::Kernel<void(const Context&, const Tensor& x, const Tensor& weight,
                                    const Tensor& bias, Tensor& y, Tensor& mean, Tensor& scale,
                                    double eps)>
      kernel("layer_norm", {.operands = "x, weight, bias, y, mean, scale"});
  const int64_t rows = check("layer_norm", x, normalized_shape, weight, bias);
  const Tensor from = x.contiguous();
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  const DType kept = ops::statistics_dtype(x.dtype());
  Tensor mean = Tensor::empty({rows}, kept, x.device());
  Tensor scale = Tensor::empty({rows}, kept, x.device());
  kernel(x.device(), x.dtype(), from.detach(), ops::as_operand(weight), ops::as_operand(bias), y,
         mean, scale, eps);
  return autograd::with_grad(
      "layer_norm", y, {from, weight, bias},
      [x = autograd::Saved(from), weight = autograd::Saved(weight), mean, scale,
       shape = normalized_shape, eps](autograd::GradCall& g) {
        const ops::NormGradients d =
            grad_enabled() ? composed_gradient(g.dy(), g[x], g[weight], shape, eps)
                           : fused_gradient(g.dy(), g[x], g[weight], mean, scale, shape);
        g.set_if_needed(0, [&] { return d.x; });
        g.set_if_needed(1, [&] { return d.weight; });
        g.set_if_needed(2, [&] { return d.bias; });
      });
}

Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight, double eps) {
  if (ops::autocasting()) [[unlikely]]
    return ops::run_wide(
        [&](const Tensor& t, const Tensor& w) { return rms_norm(t, normalized_shape, w, eps); }, x,
        weight);
  check("rms_norm", x, normalized_shape, weight, {});
  const std::vector<int> axes = axes_of(x, normalized_shape.rank(), true);
  const Tensor wide = x.to(ops::statistics_dtype(x.dtype()));  // rounded once, at the end
  const Tensor y = wide * rsqrt(mean(wide * wide, axes, /*keepdim=*/true) + eps);
  return (weight.defined() ? y * weight.to(wide.dtype()) : y).to(x.dtype());
}

}  // namespace brim
