// mse_loss, l1_loss, smooth_l1_loss, huber_loss and bce_with_logits, made of elementwise ops
#include <brim/ops/binary.h>
#include <brim/ops/compare.h>
#include <brim/ops/loss.h>
#include <brim/ops/reduce.h>
#include <brim/ops/unary.h>

#include "ops/autocast.h"
#include "ops/checks.h"

namespace brim {
namespace {

Tensor reduced(const Tensor& losses, Reduction reduction) {
  return reduction == Reduction::mean  ? mean(losses)
         : reduction == Reduction::sum ? sum(losses)
                                       : losses;
}

Tensor difference(const char* op, const Tensor& x, const Tensor& y) {
  (void)ops::common_device(op, x, y);
  (void)ops::common_dtype(op, x, y);
  ops::check_floating(op, x);
  (void)broadcast_shapes(x.shape(), y.shape(), op);
  return x - y;
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
  const Tensor d = difference("smooth_l1_loss", x, y), size = abs(d);
  // At NaN the squares have a gradient of NaN, size has none. An infinite difference is kept out of
  // them: it would give 0 * inf.
  const Tensor far = size >= beta, near = masked_fill(d, far, 0);
  return reduced(where(far, size - 0.5 * beta, near * near * (0.5 / beta)), reduction);
}

Tensor huber_loss(const Tensor& x, const Tensor& y, double delta, Reduction reduction) {
  if (ops::autocasting()) [[unlikely]]
    return ops::run_wide([&](const auto&... t) { return huber_loss(t..., delta, reduction); }, x,
                         y);
  BRIM_CHECK(delta > 0, ValueError, "[huber_loss] delta {} is not above 0", delta);
  return smooth_l1_loss(x, y, delta, reduction) * delta;
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
