// cross_entropy: softmax and negative log-likelihood in one kernel each way
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/loss.h>
#include <brim/ops/reduce.h>
#include <brim/ops/softmax.h>

#include "autograd/node.h"
#include "ops/autocast.h"
#include "ops/checks.h"
#include "ops/loss/class_loss.h"
#include "ops/reduce/reduction.h"

namespace brim {
namespace {

using ops::ClassLoss;

const ops::ClassLossKernels& entropy_kernels() {
  static const ops::ClassLossKernels value("cross_entropy", "cross_entropy_grad",
                                           "cross_entropy_planes", "cross_entropy_planes_grad");
  return value;
}

Tensor fused_gradient(const Tensor& dy, const Tensor& x, const Tensor& target, const Tensor& weight,
                      const Tensor& stats, const ClassLoss& options) {
  Tensor dx = Tensor::empty(x.shape(), x.dtype(), x.device());
  entropy_kernels().gradient(x)(x.device(), x.dtype(), dy.contiguous(), x, target, weight, stats,
                                dx, options);
  return dx;
}

/// The gradient made of ops. It is dy (a softmax(x) - b) with constants a: (N, 1) and b: (N, C), or
/// (N', 1, S) and (N', C, S), which the fused kernel gives where all probabilities are 0.
Tensor composed_gradient(const Tensor& dy, const Tensor& x, const Tensor& target,
                         const Tensor& weight, const Tensor& stats, const ClassLoss& options) {
  const int64_t n = target.numel();
  Tensor no_exp = stats.clone(), minus_b, a;
  {
    const NoGrad guard;
    no_exp.slice(0, n, 2 * n).fill_(std::numeric_limits<double>::infinity());
    minus_b = fused_gradient(ones_like(dy), x.detach(), target, weight, no_exp, options);
    a = mul(sum(minus_b, {1}, /*keepdim=*/true), -1);
  }
  const Tensor factor = dy.rank() == 0 ? dy : dy.reshape(a.shape());
  return factor * (a * softmax(x, 1) + minus_b);
}

/// -sum(target log softmax(logits)) for targets that are probabilities.
Tensor soft_cross_entropy(const Tensor& logits, const Tensor& target,
                          const CrossEntropyOptions& options) {
  ops::common_dtype("cross_entropy", logits, target);
  const int axis = logits.rank() == 1 ? 0 : 1;
  BRIM_CHECK(logits.rank() >= 1 && logits.shape() == target.shape(), ShapeError,
             "[cross_entropy] logits {} and probabilities {} differ in shape", logits.shape().str(),
             target.shape().str());
  const int64_t classes = logits.shape()[axis];
  Tensor t = target;
  if (options.label_smoothing > 0)
    t = t * (1 - options.label_smoothing) + options.label_smoothing / static_cast<double>(classes);
  if (options.weight.defined()) {
    BRIM_CHECK(options.weight.shape() == Shape({classes}), ShapeError,
               "[cross_entropy] weight has shape {}; expected ({}), one factor per class",
               options.weight.shape().str(), classes);
    Shape along = Shape::filled(logits.rank(), 1);
    along[axis] = classes;
    t = t * options.weight.reshape(along);
  }
  const Tensor loss = mul(sum(log_softmax(logits, axis) * t, {axis}), -1);
  if (options.reduction == Reduction::none) return loss;
  return options.reduction == Reduction::sum ? sum(loss) : mean(loss);
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& target,
                     const CrossEntropyOptions& options) {
  if (ops::autocasting()) [[unlikely]]
    return ops::run_wide(
        [&](const Tensor& t, const Tensor& y, const Tensor& weight) {
          CrossEntropyOptions wide = options;
          wide.weight = weight;
          return cross_entropy(t, y, wide);
        },
        logits, target, options.weight);
  ops::check_floating("cross_entropy", logits);
  (void)ops::common_device("cross_entropy", logits, target);
  BRIM_CHECK(options.label_smoothing >= 0 && options.label_smoothing <= 1, ValueError,
             "[cross_entropy] label_smoothing {} is outside [0, 1]", options.label_smoothing);
  if (is_floating(target.dtype())) return soft_cross_entropy(logits, target, options);

  const ops::ClassRows rows("cross_entropy", logits, target, options.weight,
                            entropy_kernels().has_planes(logits));
  const ClassLoss params = {options.ignore_index, options.label_smoothing,
                            ops::loss_shape(options.reduction)};
  const Tensor weight = options.weight.defined() ? options.weight.detach().contiguous() : Tensor();
  const Tensor x = rows.x;
  const int64_t n = rows.target.numel();
  const bool single = params.shape == ops::LossShape::single;
  Tensor loss = Tensor::empty(single ? Shape{n} : Shape{}, x.dtype(), x.device());
  Tensor stats = Tensor::empty({2 * n + 1}, ops::statistics_dtype(x.dtype()), x.device());
  entropy_kernels().forward(x)(x.device(), x.dtype(), x, rows.target, weight, loss, stats, params);
  const Tensor y = autograd::with_grad(
      "cross_entropy", loss, {x},
      [x = autograd::Saved(x), target = autograd::Saved(rows.target),
       weight = autograd::Saved(weight), stats, params](autograd::GradCall& g) {
        const auto gradient = grad_enabled() ? composed_gradient : fused_gradient;
        g.set(0, gradient(g.dy(), g[x], g[target], g[weight], stats, params));
      });
  return single ? y.reshape(rows.shape) : y;
}

}  // namespace brim
