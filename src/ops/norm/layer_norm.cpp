// layer_norm: one kernel each way
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
  const std::vector<int> axes = ops::last_axes(x, shape.rank());
  const Tensor centred = ops::centred(x, axes);
  const Tensor scale = rsqrt(mean(centred * centred, axes, true) + eps);
  const Tensor unit = centred * scale, g = weight.defined() ? dy * weight.to(wide) : dy;
  const auto over_rows = [&](const Tensor& t) { return ops::sum_of_rows(t, shape.rank()); };
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
  const int64_t rows = ops::check_normalized("layer_norm", x, normalized_shape, weight, bias);
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

}  // namespace brim
