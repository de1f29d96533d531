// batch_norm: one kernel each way
#include <brim/ops/binary.h>
#include <brim/ops/norm.h>
#include <brim/ops/reduce.h>
#include <brim/ops/unary.h>

#include "autograd/node.h"
#include "backend/kernel.h"
#include "backend/options/norm_params.h"
#include "ops/checks.h"
#include "ops/memory_format.h"
#include "ops/norm/operands.h"

namespace brim {
namespace {

using backend::BatchNormParams;

void check_channels(const Tensor& x, const Tensor& t, DType dtype, const char* what) {
  if (!t.defined()) return;
  (void)ops::common_device("batch_norm", x, t);
  BRIM_CHECK(t.dtype() == dtype, DTypeError,
             "[batch_norm] {} is {}, but other parameters are {}; cast it with .to({})", what,
             name(t.dtype()), name(dtype), name(dtype));
  BRIM_CHECK(t.shape() == Shape({x.shape()[1]}), ShapeError,
             "[batch_norm] {} has shape {}; x {} needs ({})", what, t.shape().str(),
             x.shape().str(), x.shape()[1]);
}

/// The dtype that weight, bias and the running statistics must have: x's, or f32 beside 16 bits.
DType parameters_dtype(const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const Tensor& running_mean) {
  for (const Tensor* t : {&weight, &bias, &running_mean})
    if (t->defined()) {
      const DType wide = ops::statistics_dtype(x.dtype());
      BRIM_CHECK(t->dtype() == x.dtype() || t->dtype() == wide, DTypeError,
                 "[batch_norm] x is {} and its parameters are {}; cast them with .to({}){}",
                 name(x.dtype()), name(t->dtype()), name(x.dtype()),
                 wide == x.dtype() ? "" : " or .to(f32)");
      return t->dtype();
    }
  return x.dtype();
}

/// All axes but the channels'.
std::vector<int> batch_axes(const Tensor& x) {
  std::vector<int> axes = {0};
  for (int i = 2; i < x.rank(); ++i) axes.push_back(i);
  return axes;
}

ops::NormGradients fused_gradient(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                  const Tensor& mean, const Tensor& scale, DType parameters,
                                  bool training) {
  static const backend::Kernel<void(const Context&, const Tensor& dy, const Tensor& x,
                                    const Tensor& weight, const Tensor& mean, const Tensor& scale,
                                    Tensor& dx, Tensor& dweight, Tensor& dbias, bool training)>
      kernel("batch_norm_grad", {.operands = "dy, x, weight, mean, scale, dx, dweight, dbias",
                                 .activations = "dy, x, dx"});
  ops::NormGradients d = {ops::empty_in(x.shape(), x.dtype(), x),
                          Tensor::empty(mean.shape(), parameters, x.device()),
                          Tensor::empty(mean.shape(), parameters, x.device())};
  kernel(x.device(), x.dtype(), ops::arranged(dy, x), x, ops::as_operand(weight), mean, scale, d.x,
         d.weight, d.bias, training);
  return d;
}

/// The same made of ops, so that it has gradients itself. 16 bits are computed in f32.
ops::NormGradients composed_gradient(const Tensor& narrow_dy, const Tensor& narrow_x,
                                     const Tensor& weight, const Tensor& fixed_mean,
                                     const Tensor& fixed_scale, DType parameters, bool training,
                                     double eps) {
  const DType wide = fixed_mean.dtype();
  const Tensor x = narrow_x.to(wide), dy = narrow_dy.to(wide);
  const std::vector<int> axes = batch_axes(x);
  Shape along = Shape::filled(x.rank(), 1);
  along[1] = x.shape()[1];
  const Tensor centred = training ? ops::centred(x, axes) : x - fixed_mean.reshape(along);
  const Tensor scale =
      training ? rsqrt(mean(centred * centred, axes, true) + eps) : fixed_scale.reshape(along);
  const Tensor unit = centred * scale;
  const Tensor g = weight.defined() ? dy * weight.to(wide).reshape(along) : dy;
  const Tensor dx =
      training ? scale * (g - mean(g, axes, true) - unit * mean(g * unit, axes, true)) : g * scale;
  return {dx.to(narrow_x.dtype()), sum(dy * unit, axes).to(parameters),
          sum(dy, axes).to(parameters)};
}

}  // namespace

namespace ops {

DType check_batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const Tensor& running_mean, const Tensor& running_var, bool training) {
  check_floating("batch_norm", x);
  BRIM_CHECK(x.rank() >= 2, ShapeError, "[batch_norm] expects (N, C, ...), got shape {}",
             x.shape().str());
  const DType parameters = parameters_dtype(x, weight, bias, running_mean);
  check_channels(x, weight, parameters, "weight");
  check_channels(x, bias, parameters, "bias");
  check_channels(x, running_mean, parameters, "running_mean");
  check_channels(x, running_var, parameters, "running_var");
  BRIM_CHECK(
      running_mean.defined() == running_var.defined() && (training || running_mean.defined()),
      ValueError,
      "[batch_norm] running_mean and running_var are both needed outside of training, and "
      "come together");
  return parameters;
}

}  // namespace ops

Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Tensor& running_mean, const Tensor& running_var,
                  const BatchNormOptions& options) {
  // fixed: what to normalise with outside of training; running: what training updates, if defined.
  static const backend::Kernel<void(
      const Context&, const Tensor& x, const Tensor& weight, const Tensor& bias,
      const Tensor& fixed_mean, const Tensor& fixed_var, Tensor& running_mean, Tensor& running_var,
      Tensor& y, Tensor& mean, Tensor& scale, const BatchNormParams&)>
      kernel("batch_norm", {.operands = "x, weight, bias, fixed_mean, fixed_var, rw running_mean, "
                                        "rw running_var, y, mean, scale",
                            .activations = "x, y"});
  const DType parameters =
      ops::check_batch_norm(x, weight, bias, running_mean, running_var, options.training);
  const int64_t channels = x.shape()[1];
  BRIM_CHECK(!options.training || channels == 0 || x.numel() != channels, ShapeError,
             "[batch_norm] shape {} has one value per channel, whose variance is unknown; use a "
             "larger batch or larger inputs in training",
             x.shape().str());
  const Tensor from = ops::is_nhwc(x) ? x : x.contiguous();
  Tensor y = ops::empty_in(x.shape(), x.dtype(), from);
  // What x is normalised with: the mean and 1 / sqrt(var + eps) of each channel.
  const DType kept = ops::statistics_dtype(x.dtype());
  Tensor mean = Tensor::empty({channels}, kept, x.device());
  Tensor scale = Tensor::empty({channels}, kept, x.device());
  if (options.training && running_mean.defined()) {
    BRIM_CHECK(running_mean.is_contiguous() && running_var.is_contiguous(), ShapeError,
               "[batch_norm] running statistics are written in place and must be contiguous");
    autograd::check_in_place("batch_norm", running_mean);
    autograd::check_in_place("batch_norm", running_var);
  }
  const bool fixed = !options.training;
  Tensor written_mean = fixed ? Tensor() : running_mean;
  Tensor written_var = fixed ? Tensor() : running_var;
  kernel(x.device(), x.dtype(), from, ops::as_operand(weight), ops::as_operand(bias),
         fixed ? ops::as_operand(running_mean) : Tensor(),
         fixed ? ops::as_operand(running_var) : Tensor(), written_mean, written_var, y, mean, scale,
         {options.training, options.momentum, options.eps});
  return autograd::with_grad(
      "batch_norm", y, {from, weight, bias},
      [x = autograd::Saved(from), weight = autograd::Saved(weight), mean, scale, parameters,
       training = options.training, eps = options.eps](autograd::GradCall& g) {
        const ops::NormGradients d =
            grad_enabled()
                ? composed_gradient(g.dy(), g[x], g[weight], mean, scale, parameters, training, eps)
                : fused_gradient(g.dy(), g[x], g[weight], mean, scale, parameters, training);
        g.set_if_needed(0, [&] { return d.x; });
        g.set_if_needed(1, [&] { return d.weight; });
        g.set_if_needed(2, [&] { return d.bias; });
      });
}

}  // namespace brim
