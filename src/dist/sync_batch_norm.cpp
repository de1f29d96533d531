#include <brim/dist/sync_batch_norm.h>

#include <brim/autograd/autograd.h>
#include <brim/nn/norm.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/reduce.h>
#include <brim/ops/shape.h>
#include <brim/ops/unary.h>

#include <algorithm>

#include "autograd/node.h"
#include "core/check.h"
#include "ops/norm/operands.h"

namespace brim::dist {
namespace {

/// Of each channel, over all ranks.
struct Statistics {
  Tensor mean, variance;
  Tensor count;  // () values a channel
};

/// (C) as it lies in x.
Tensor along_channels(const Tensor& t, const Tensor& x) {
  Shape shape = Shape::filled(x.rank(), 1);
  shape[1] = x.shape()[1];
  return t.reshape(shape);
}

/// Each rank's mean and variance are exchanged, and not sums of squares, which cancel.
Statistics statistics_of(ProcessGroup& group, const Tensor& x, const std::vector<int>& axes) {
  const int64_t channels = x.shape()[1], count = x.numel() / std::max<int64_t>(1, channels);
  const Tensor about = mean(x, axes, true);
  const Tensor centred = x - about;
  const Tensor off = mean(centred, axes);  // by rounding
  const Tensor own_mean = about.reshape({channels}) + off;
  const Tensor own_variance = mean(centred * centred, axes) - off * off;
  const Tensor own = stack({own_mean, own_variance, full_like(off, static_cast<double>(count))});
  Tensor all = Tensor::empty({group.size(), 3, channels}, own.dtype(), own.device());
  all_gather(group, own, all);
  const Tensor means = all.select(1, 0), variances = all.select(1, 1), counts = all.select(1, 2);
  const Tensor total = sum(counts, {0});
  const Tensor share = counts / total;
  Statistics found;
  found.mean = sum(share * means, {0});
  const Tensor apart = means - found.mean;
  found.variance = sum(share * (variances + apart * apart), {0});
  found.count = total;
  return found;
}

}  // namespace

Tensor sync_batch_norm(ProcessGroup& group, const Tensor& x, const Tensor& weight,
                       const Tensor& bias, const Tensor& running_mean, const Tensor& running_var,
                       const BatchNormOptions& options) {
  if (group.size() == 1 || !options.training)
    return batch_norm(x, weight, bias, running_mean, running_var, options);
  ops::check_floating("sync_batch_norm", x);
  BRIM_CHECK(x.rank() >= 2 && x.numel() > 0, ShapeError,
             "[sync_batch_norm] expects (N, C, ...) with one sample or more, got shape {}",
             x.shape().str());
  BRIM_CHECK(running_mean.defined() == running_var.defined(), ValueError,
             "[sync_batch_norm] running_mean and running_var come together");
  std::vector<int> axes = {0};
  for (int i = 2; i < x.rank(); ++i) axes.push_back(i);
  const DType wide = ops::statistics_dtype(x.dtype());
  Statistics all;
  Tensor y, scale;
  {
    const NoGrad guard;
    const Tensor samples = x.detach();
    all = statistics_of(group, samples.to(wide), axes);
    const auto widened = [&](const Tensor& t) { return t.defined() ? t.detach().to(wide) : t; };
    y = batch_norm(samples, widened(weight), widened(bias), all.mean, all.variance,
                   {.training = false, .eps = options.eps});
    scale = rsqrt(all.variance + options.eps);
    if (running_mean.defined()) {
      const auto move = [&](Tensor running, const Tensor& batch) {
        running.mul_(1 - options.momentum).add_((batch * options.momentum).to(running.dtype()));
      };
      move(running_mean, all.mean);
      move(running_var, all.variance * (all.count / (all.count - 1.0)));
    }
  }
  const DType parameters = weight.defined() ? weight.dtype() : wide;
  return autograd::with_grad(
      "sync_batch_norm", y, {x, weight, bias},
      [x = autograd::Saved(x), weight = autograd::Saved(weight), mean = all.mean, scale,
       count = all.count, parameters, group = group.shared_from_this()](autograd::GradCall& g) {
        BRIM_CHECK(!grad_enabled(), AutogradError,
                   "[sync_batch_norm] has gradients of first order only; use BatchNorm2d where "
                   "gradients are differentiated again");
        const Tensor samples = g[x];
        ops::NormGradients d = ops::batch_norm_gradients(g.dy(), samples, g[weight], mean, scale,
                                                         mean.dtype(), /*training=*/false);
        Tensor sums = stack({d.bias, d.weight});  // of dy, and of dy times the normalised x
        all_reduce(*group, sums);
        // What the statistics owe to this x: dy less its mean, and less its part along x.
        const Tensor slope = g[weight].defined() ? g[weight].to(mean.dtype()) * scale : scale;
        const Tensor level = slope * sums[0] / count, tilt = slope * scale * sums[1] / count;
        const Tensor owed = (samples.to(mean.dtype()) - along_channels(mean, samples)) *
                                along_channels(tilt, samples) +
                            along_channels(level, samples);
        g.set_if_needed(0, [&] { return (d.x.to(mean.dtype()) - owed).to(samples.dtype()); });
        g.set_if_needed(1, [&] { return d.weight.to(parameters); });
        g.set_if_needed(2, [&] { return d.bias.to(parameters); });
      });
}

int64_t convert_sync_batch_norm(nn::Module& network, const GroupPtr& group) {
  int64_t count = 0;
  network.apply([&](nn::Module& module) {
    auto* const norm = dynamic_cast<nn::BatchNorm2d*>(&module);
    if (!norm) return;
    norm->normalise_with([group](const Tensor& x, nn::BatchNorm2d& layer) {
      return sync_batch_norm(
          *group, x, layer.weight, layer.bias, layer.running_mean, layer.running_var,
          {.training = true, .momentum = layer.options.momentum, .eps = layer.options.eps});
    });
    ++count;
  });
  return count;
}

}  // namespace brim::dist
