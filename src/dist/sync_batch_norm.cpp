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

/// (C) as it lies in x.
Tensor along_channels(const Tensor& t, const Tensor& x) {
  Shape shape = Shape::filled(x.rank(), 1);
  shape[1] = x.shape()[1];
  return t.reshape(shape);
}

/// Of each channel (C): of all ranks' samples, told by this rank's own mean, so that large numbers
/// keep their digits.
struct Statistics {
  Tensor about;            // this rank's mean, but for rounding
  Tensor offset;           // what the mean of all is above that
  Tensor variance, count;  // of all
};

/// `x`: in the dtype of statistics. Each rank's mean and variance are exchanged, and not sums of
/// squares, which cancel.
Statistics statistics_of(ProcessGroup& group, const Tensor& x, const std::vector<int>& axes) {
  const int64_t channels = x.shape()[1], count = x.numel() / channels;
  Statistics found;
  found.about = mean(x, axes);
  const Tensor centred = x - along_channels(found.about, x);
  const Tensor rounded = mean(centred, axes);
  const Tensor own_variance = mean(centred * centred, axes) - rounded * rounded;
  const Tensor own =
      stack({found.about, rounded, own_variance, full_like(rounded, static_cast<double>(count))});
  Tensor all = Tensor::empty({group.size(), 4, channels}, own.dtype(), own.device());
  all_gather(group, own, all);
  const Tensor counts = all.select(1, 3);
  found.count = sum(counts, {0});
  const Tensor share = counts / found.count;
  const Tensor offsets = (all.select(1, 0) - found.about) + all.select(1, 1);
  found.offset = sum(share * offsets, {0});
  const Tensor apart = offsets - found.offset;
  found.variance = sum(share * (all.select(1, 2) + apart * apart), {0});
  return found;
}

}  // namespace

Tensor sync_batch_norm(ProcessGroup& group, const Tensor& x, const Tensor& weight,
                       const Tensor& bias, const Tensor& running_mean, const Tensor& running_var,
                       const BatchNormOptions& options) {
  if (group.size() == 1 || !options.training)
    return batch_norm(x, weight, bias, running_mean, running_var, options);
  const DType parameters =
      ops::check_batch_norm(x, weight, bias, running_mean, running_var, options.training);
  BRIM_CHECK(x.numel() > 0, ShapeError,
             "[sync_batch_norm] shape {} is empty; each rank has one sample or more",
             x.shape().str());
  std::vector<int> axes = {0};
  for (int i = 2; i < x.rank(); ++i) axes.push_back(i);
  const DType wide = ops::statistics_dtype(x.dtype());
  Statistics all;
  Tensor y, scale;
  {
    const NoGrad guard;
    const Tensor samples = x.detach().to(wide);
    all = statistics_of(group, samples, axes);
    const auto widened = [&](const Tensor& t) { return t.defined() ? t.detach().to(wide) : t; };
    y = batch_norm(samples - along_channels(all.about, samples), widened(weight), widened(bias),
                   all.offset, all.variance, {.training = false, .eps = options.eps})
            .to(x.dtype());
    scale = rsqrt(all.variance + options.eps);
    if (running_mean.defined()) {
      const auto move = [&](Tensor running, const Tensor& batch) {
        running.mul_(1 - options.momentum).add_((batch * options.momentum).to(running.dtype()));
      };
      move(running_mean, all.about + all.offset);
      move(running_var, all.variance * (all.count / (all.count - 1.0)));
    }
  }
  return autograd::with_grad(
      "sync_batch_norm", y, {x, weight, bias},
      [x = autograd::Saved(x), weight = autograd::Saved(weight), all, scale, axes, wide, parameters,
       group = group.shared_from_this()](autograd::GradCall& g) {
        BRIM_CHECK(!grad_enabled(), AutogradError,
                   "[sync_batch_norm] has gradients of first order only; use BatchNorm2d where "
                   "gradients are differentiated again");
        const Tensor samples = g[x].to(wide), dy = g.dy().to(wide);
        const auto along = [&](const Tensor& t) { return along_channels(t, samples); };
        const Tensor unit = ((samples - along(all.about)) - along(all.offset)) * along(scale);
        const Tensor dbias = sum(dy, axes), dweight = sum(dy * unit, axes);
        Tensor sums = stack({dbias, dweight});
        all_reduce(*group, sums);
        g.set_if_needed(0, [&] {
          // Less its mean, and less its part along x: what the statistics owe to this x.
          const Tensor level = sums[0] / all.count, tilt = sums[1] / all.count;
          const Tensor slope = g[weight].defined() ? g[weight].to(wide) * scale : scale;
          return ((dy - along(level) - unit * along(tilt)) * along(slope)).to(g[x].dtype());
        });
        g.set_if_needed(1, [&] { return dweight.to(parameters); });
        g.set_if_needed(2, [&] { return dbias.to(parameters); });
      });
}

int64_t convert_sync_batch_norm(nn::Module& network, const GroupPtr& group) {
  BRIM_CHECK(group, ValueError, "[dist] batch norm over no group; give one");
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
