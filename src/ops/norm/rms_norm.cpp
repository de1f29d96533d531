// rms_norm: one kernel each way where the device has them, else made of ops
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

using RmsNormKernel = backend::Kernel<void(const Context&, const Tensor& x, const Tensor& weight,
                                           Tensor& y, Tensor& scale, double eps)>;

/// 16 bits are computed in f32, and rounded once, at the end.
Tensor composed(const Tensor& x, const Shape& shape, const Tensor& weight, double eps) {
  const Tensor wide = x.to(ops::statistics_dtype(x.dtype()));
  const std::vector<int> axes = ops::last_axes(x, shape.rank());
  const Tensor y = wide * rsqrt(mean(wide * wide, axes, /*keepdim=*/true) + eps);
  return (weight.defined() ? y * weight.to(wide.dtype()) : y).to(x.dtype());
}

ops::NormGradients fused_gradient(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                  const Tensor& scale, const Shape& shape) {
  static const backend::Kernel<void(const Context&, const Tensor& dy, const Tensor& x,
                                    const Tensor& weight, const Tensor& scale, Tensor& dx,
                                    Tensor& dweight)>
      kernel("rms_norm_grad", {.operands = "dy, x, weight, scale, dx, dweight"});
  ops::NormGradients d = {Tensor::empty(x.shape(), x.dtype(), x.device()),
                          Tensor::empty(shape, x.dtype(), x.device()),
                          {}};
  kernel(x.device(), x.dtype(), dy.contiguous(), x, ops::as_operand(weight), scale, d.x, d.weight);
  return d;
}

/// The same made of ops, so that it has gradients itself.
ops::NormGradients composed_gradient(const Tensor& narrow_dy, const Tensor& narrow_x,
                                     const Tensor& weight, const Shape& shape, double eps) {
  const DType dtype = narrow_x.dtype(), wide = ops::statistics_dtype(dtype);
  const Tensor x = narrow_x.to(wide), dy = narrow_dy.to(wide);
  const std::vector<int> axes = ops::last_axes(x, shape.rank());
  const Tensor scale = rsqrt(mean(x * x, axes, true) + eps);
  const Tensor unit = x * scale, g = weight.defined() ? dy * weight.to(wide) : dy;
  const Tensor dx = scale * (g - unit * mean(g * unit, axes, true));
  return {dx.to(dtype), ops::sum_of_rows(dy * unit, shape.rank()).to(dtype), {}};
}

}  // namespace

Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight, double eps) {
  if (ops::autocasting()) [[unlikely]]
    return ops::run_wide(
        [&](const Tensor& t, const Tensor& w) { return rms_norm(t, normalized_shape, w, eps); }, x,
        weight);
  static const RmsNormKernel kernel("rms_norm", {.operands = "x, weight, y, scale"});
  const int64_t rows = ops::check_normalized("rms_norm", x, normalized_shape, weight, {});
  if (!kernel.exists(x.device(), x.dtype())) return composed(x, normalized_shape, weight, eps);
  const Tensor from = x.contiguous();
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  Tensor scale = Tensor::empty({rows}, ops::statistics_dtype(x.dtype()), x.device());
  kernel(x.device(), x.dtype(), from.detach(), ops::as_operand(weight), y, scale, eps);
  return autograd::with_grad("rms_norm", y, {from, weight},
                             [x = autograd::Saved(from), weight = autograd::Saved(weight), scale,
                              shape = normalized_shape, eps](autograd::GradCall& g) {
                               const ops::NormGradients d =
                                   grad_enabled()
                                       ? composed_gradient(g.dy(), g[x], g[weight], shape, eps)
                                       : fused_gradient(g.dy(), g[x], g[weight], scale, shape);
                               g.set_if_needed(0, [&] { return d.x; });
                               g.set_if_needed(1, [&] { return d.weight; });
                             });
}

}  // namespace brim
