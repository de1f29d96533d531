// nll_loss: the negative log-probability of each label
#include <brim/ops/loss.h>

#include "autograd/node.h"
#include "ops/autocast.h"
#include "ops/checks.h"
#include "ops/loss/class_loss.h"

namespace brim {
namespace {

using ops::ClassLoss;

const ops::ClassLossKernels& nll_kernels() {
  static const ops::ClassLossKernels value("nll_loss", "nll_loss_grad", "nll_loss_planes",
                                           "nll_loss_planes_grad");
  return value;
}

Tensor nll_rows(const Tensor& x, const Tensor& target, const Tensor& weight,
                const ClassLoss& params);

/// Linear in dy, and the transpose of nll_rows, which therefore is its gradient.
Tensor nll_grad(const Tensor& dy, const Tensor& x, const Tensor& target, const Tensor& weight,
                const Tensor& stats, const ClassLoss& params) {
  Tensor dx = Tensor::empty(x.shape(), x.dtype(), x.device());
  nll_kernels().gradient(x)(x.device(), x.dtype(), dy.contiguous(), x, target, weight, stats, dx,
                            params);
  return autograd::with_grad("nll_loss_grad", dx, {dy},
                             [target, weight, params](autograd::GradCall& g) {
                               g.set(0, nll_rows(g.dy().contiguous(), target, weight, params));
                             });
}

Tensor nll_rows(const Tensor& x, const Tensor& target, const Tensor& weight,
                const ClassLoss& params) {
  const bool single = params.shape == ops::LossShape::single;
  Tensor loss = Tensor::empty(single ? target.shape() : Shape{}, x.dtype(), x.device());
  Tensor stats = Tensor::empty({1}, ops::statistics_dtype(x.dtype()), x.device());
  nll_kernels().forward(x)(x.device(), x.dtype(), x, target, weight, loss, stats, params);
  return autograd::with_grad(
      "nll_loss", loss, {x},
      [x = x.detach(), target = autograd::Saved(target), weight = autograd::Saved(weight), stats,
       params](autograd::GradCall& g) {
        g.set(0, nll_grad(g.dy(), x, g[target], g[weight], stats, params));
      });
}

}  // namespace

Tensor nll_loss(const Tensor& log_probs, const Tensor& target, const NllLossOptions& options) {
  if (ops::autocasting()) [[unlikely]]
    return ops::run_wide(
        [&](const Tensor& t, const Tensor& weight) {
          NllLossOptions wide = options;
          wide.weight = weight;
          return nll_loss(t, target, wide);
        },
        log_probs, options.weight);
  const ops::ClassRows rows("nll_loss", log_probs, target, options.weight,
                            log_probs.defined() && nll_kernels().has_planes(log_probs));
  const Tensor weight = options.weight.defined() ? options.weight.detach().contiguous() : Tensor();
  const Tensor y =
      nll_rows(rows.x, rows.target, weight,
               {.ignore_index = options.ignore_index, .shape = ops::loss_shape(options.reduction)});
  return options.reduction == Reduction::none ? y.reshape(rows.shape) : y;
}

}  // namespace brim
