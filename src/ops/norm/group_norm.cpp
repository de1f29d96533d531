// group_norm: one kernel each way, or layer_norm of the groups where a device has none
#include <brim/ops/binary.h>
#include <brim/ops/norm.h>
#include <brim/ops/reduce.h>
#include <brim/ops/unary.h>

#include "autograd/node.h"
#include "backend/kernel.h"
#include "backend/options/norm_params.h"
#include "ops/autocast.h"
#include "ops/checks.h"
#include "ops/memory_format.h"
#include "ops/norm/operands.h"

namespace brim {
namespace {

using backend::GroupNormParams;

/// mean and scale: (N groups).
using GroupNormKernel =
    backend::Kernel<void(const Context&, const Tensor& x, const Tensor& weight, const Tensor& bias,
                         Tensor& y, Tensor& mean, Tensor& scale, const GroupNormParams&)>;
using GroupNormGradKernel = backend::Kernel<void(
    const Context&, const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean,
    const Tensor& scale, Tensor& dx, Tensor& dweight, Tensor& dbias, const GroupNormParams&)>;

const GroupNormKernel& forward_kernel() {
  static const GroupNormKernel kernel(
      "group_norm", {.operands = "x, weight, bias, y, mean, scale", .activations = "x, y"});
  return kernel;
}
const GroupNormGradKernel& gradient_kernel() {
  static const GroupNormGradKernel kernel(
      "group_norm_grad",
      {.operands = "dy, x, weight, mean, scale, dx, dweight, dbias", .activations = "dy, x, dx"});
  return kernel;
}

/// The shape of what belongs to channels, beside x.
Shape along_channels(const Tensor& x) {
  Shape along = Shape::filled(x.rank(), 1);
  along[1] = x.shape()[1];
  return along;
}
/// (N, groups, elements of a group)
Shape in_groups(const Tensor& x, int64_t groups) {
  const int64_t n = x.shape()[0];
  return {n, groups, n > 0 ? x.numel() / (n * groups) : 0};
}

ops::NormGradients fused_gradient(const Tensor& dy, const Tensor& any_x, const Tensor& weight,
                                  const Tensor& mean, const Tensor& scale,
                                  const GroupNormParams& params) {
  const Tensor x = ops::dense(any_x);
  const Shape channels = {x.shape()[1]};
  ops::NormGradients d = {ops::empty_in(x.shape(), x.dtype(), x),
                          Tensor::empty(channels, x.dtype(), x.device()),
                          Tensor::empty(channels, x.dtype(), x.device())};
  gradient_kernel()(x.device(), x.dtype(), ops::arranged(dy, x), x, ops::as_operand(weight), mean,
                    scale, d.x, d.weight, d.bias, params);
  return d;
}

/// The same made of ops, so that it has gradients itself. 16 bits are computed in f32.
ops::NormGradients composed_gradient(const Tensor& narrow_dy, const Tensor& narrow_x,
                                     const Tensor& weight, const GroupNormParams& params) {
  const DType dtype = narrow_x.dtype(), wide = ops::statistics_dtype(dtype);
  const Tensor x = narrow_x.to(wide), dy = narrow_dy.to(wide);
  const Shape grouped = in_groups(x, params.groups);
  const Tensor centred = ops::centred(x.reshape(grouped), {2});
  const Tensor scale = rsqrt(mean(centred * centred, {2}, true) + params.eps);
  const Tensor unit = centred * scale;
  const Tensor weighted = weight.defined() ? dy * weight.to(wide).reshape(along_channels(x)) : dy;
  const Tensor g = weighted.reshape(grouped);
  const Tensor dx = scale * (g - mean(g, {2}, true) - unit * mean(g * unit, {2}, true));
  std::vector<int> axes = {0};
  for (int i = 2; i < x.rank(); ++i) axes.push_back(i);
  const auto of_channels = [&](const Tensor& t) { return sum(t, axes).to(dtype); };
  return {dx.reshape(x.shape()).to(dtype), of_channels(dy * unit.reshape(x.shape())),
          of_channels(dy)};
}

/// For devices without the kernel.
Tensor composed(const Tensor& x, const Tensor& weight, const Tensor& bias,
                const GroupNormParams& params) {
  const Shape grouped = in_groups(x, params.groups);
  const DType wide = ops::statistics_dtype(x.dtype());  // 16 bits are rounded once, at the end
  const Tensor rows = x.to(wide).reshape({grouped[0] * grouped[1], grouped[2]});
  Tensor y = layer_norm(rows, {grouped[2]}, {}, {}, params.eps).reshape(x.shape());
  const Shape along = along_channels(x);
  if (weight.defined()) y = y * weight.to(wide).reshape(along);
  if (bias.defined()) y = y + bias.to(wide).reshape(along);
  return y.to(x.dtype());
}

}  // namespace

Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight, const Tensor& bias,
                  double eps) {
  if (ops::autocasting()) [[unlikely]]
    return ops::run_wide([&](const Tensor& t, const Tensor& w,
                             const Tensor& b) { return group_norm(t, groups, w, b, eps); },
                         x, weight, bias);
  ops::check_floating("group_norm", x);
  BRIM_CHECK(x.rank() >= 2 && groups >= 1 && x.shape()[1] % groups == 0, ShapeError,
             "[group_norm] {} groups do not divide the channels of shape {}, which is (N, C, ...)",
             groups, x.shape().str());
  ops::check_parameters("group_norm", x, {x.shape()[1]}, weight, bias);
  const GroupNormParams params = {groups, eps};
  const DType dtype = x.dtype();
  if (!forward_kernel().exists(x.device(), dtype) || !gradient_kernel().exists(x.device(), dtype))
    return composed(x, weight, bias, params);
  const Tensor from = ops::dense(x);
  Tensor y = ops::empty_in(x.shape(), dtype, from);
  const Shape statistics = {x.shape()[0] * groups};
  Tensor mean = Tensor::empty(statistics, ops::statistics_dtype(dtype), x.device());
  Tensor scale = Tensor::empty(statistics, ops::statistics_dtype(dtype), x.device());
  forward_kernel()(x.device(), dtype, from, ops::as_operand(weight), ops::as_operand(bias), y, mean,
                   scale, params);
  return autograd::with_grad(
      "group_norm", y, {x, weight, bias},
      [x = autograd::Saved(x), weight = autograd::Saved(weight), mean, scale,
       params](autograd::GradCall& g) {
        const ops::NormGradients d =
            grad_enabled() ? composed_gradient(g.dy(), g[x], g[weight], params)
                           : fused_gradient(g.dy(), g[x], g[weight], mean, scale, params);
        g.set_if_needed(0, [&] { return d.x; });
        g.set_if_needed(1, [&] { return d.weight; });
        g.set_if_needed(2, [&] { return d.bias; });
      });
}

}  // namespace brim
