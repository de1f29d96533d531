// mse_loss, l1_loss and bce_with_logits, made of elementwise ops; smooth_l1_loss and huber_loss,
// which are one but for a factor
#include <brim/ops/binary.h>
#include <brim/ops/loss.h>
#include <brim/ops/reduce.h>
#include <brim/ops/unary.h>

#include "autograd/node.h"
#include "ops/autocast.h"
#include "ops/elementwise.h"

namespace brim {
namespace {

Tensor reduced(const Tensor& losses, Reduction reduction) {
  return reduction == Reduction::mean  ? mean(losses)
         : reduction == Reduction::sum ? sum(losses)
                                       : losses;
}

void check_pair(const char* op, const Tensor& x, const Tensor& y) {
  (void)ops::common_device(op, x, y);
  (void)ops::common_dtype(op, x, y);
  ops::check_floating(op, x);
  (void)broadcast_shapes(x.shape(), y.shape(), op);
}

Tensor difference(const char* op, const Tensor& x, const Tensor& y) {
  check_pair(op, x, y);
  return x - y;
}

/// The losses of smooth_l1_loss times `scale`.
Tensor smooth_l1(const char* op, const Tensor& x, const Tensor& y, double beta, double scale) {
  static const ops::BinaryKernel kernel("smooth_l1");
  static const ops::BinaryKernel grad_kernel("smooth_l1_grad", "dy, s, dx");
  check_pair(op, x, y);
  const formula::Params params{.a = beta, .b = scale};
  return autograd::with_grad(
      op, ops::binary(kernel, op, x, y, params), {x, y},
      [x = autograd::Saved(x), y = autograd::Saved(y), params](autograd::GradCall& g) {
        const Tensor tx = g[x], ty = g[y];
        const auto slope = [&](const Tensor& dy, const Tensor& d) {
          return mul(dy, clamp(div(d, params.a), -1, 1) * params.b);
        };
        const Tensor d = ops::fused_grad(grad_kernel, g.dy(), tx - ty, params, slope);
        g.set_if_needed(0, [&] { return ops::sum_to(d, tx.shape()); });
        g.set_if_needed(1, [&] { return ops::sum_to(neg(d), ty.shape()); });
      });
}

}  // namespace

Tensor mse_loss(const Tensor& x, const Tensor& y, Reduction reduction) {
  if (ops::autocasting()) [[unlikely]]
    return ops::run_wide([&](const auto&... t) { return mse_loss(t..., reduction); }, x, y);
  const Tensor d = difference("mse_loss", x, y);
  return reduced(d * d, reduction);
}

Tensor l1_loss(const Tensor& x, const Tensor& y, Reduction reduction) {
  if (ops::autocasting()) [[unlikely]]
    return ops::run_wide([&](const auto&... t) { return l1_loss(t..., reduction); }, x, y);
  return reduced(abs(difference("l1_loss", x, y)), reduction);
}

Tensor smooth_l1_loss(const Tensor& x, const Tensor& y, double beta, Reduction reduction) {
  if (ops::autocasting()) [[unlikely]]
    return ops::run_wide([&](const auto&... t) { return smooth_l1_loss(t..., beta, reduction); }, x,
                         y);
  BRIM_CHECK(beta > 0, ValueError, "[smooth_l1_loss] beta {} is not above 0; use l1_loss for 0",
             beta);
  return reduced(smooth_l1("smooth_l1_loss", x, y, beta, 1), reduction);
}

Tensor huber_loss(const Tensor& x, const Tensor& y, double delta, Reduction reduction) {
  if (ops::autocasting()) [[unlikely]]
    return ops::run_wide([&](const auto&... t) { return huber_loss(t..., delta, reduction); }, x,
                         y);
  BRIM_CHECK(delta > 0, ValueError, "[huber_loss] delta {} is not above 0", delta);
  return reduced(smooth_l1("huber_loss", x, y, delta, delta), reduction);
}

Tensor bce_with_logits(const Tensor& x, const Tensor& target, const BceOptions& options) {
  if (ops::autocasting()) [[unlikely]]
    return ops::run_wide(
        [&](const Tensor& t, const Tensor& y, const Tensor& weight, const Tensor& pos_weight) {
          BceOptions wide = options;
          wide.weight = weight;
          wide.pos_weight = pos_weight;
          return bce_with_logits(t, y, wide);
        },
        x, target, options.weight, options.pos_weight);
  (void)ops::common_device("bce_with_logits", x, target);
  (void)ops::common_dtype("bce_with_logits", x, target);
  ops::check_floating("bce_with_logits", x);
  BRIM_CHECK(x.shape() == target.shape(), ShapeError,
             "[bce_with_logits] x {} and target {} differ in shape", x.shape().str(),
             target.shape().str());
  // softplus(-x) = -log(sigmoid(x)); beyond 40 it is -x to the last bit of f64.
  const Tensor minus_log = softplus(neg(x), 1, 40);
  Tensor losses = (1 - target) * x;
  losses =
      losses + (options.pos_weight.defined() ? (1 + (options.pos_weight - 1.0) * target) * minus_log
                                             : minus_log);
  if (options.weight.defined()) losses = losses * options.weight;
  return reduced(losses, options.reduction);
}

}  // namespace brim
