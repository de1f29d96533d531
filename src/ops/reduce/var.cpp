// var and std over any axes
#include <brim/ops/binary.h>
#include <brim/ops/compare.h>
#include <brim/ops/reduce.h>
#include <brim/ops/unary.h>

#include <cmath>

#include "autograd/node.h"
#include "ops/autocast.h"
#include "ops/reduce/reduction.h"

namespace brim {
namespace {

std::vector<int> list(const ops::Reduction& r) {
  std::vector<int> axes;
  for (int i = 0; i < r.from.rank(); ++i)
    if (r.reduced[static_cast<size_t>(i)]) axes.push_back(i);
  return axes;
}

/// x - mean, divided by n - correction
Tensor spread(const Tensor& x, const ops::Reduction& r, double correction) {
  const double divisor = std::fmax(0.0, static_cast<double>(r.count) - correction);
  return div(x - mean(x, list(r), /*keepdim=*/true), divisor);
}

/// Shape r.kept, without a gradient.
Tensor variance(const char* op, const Tensor& x, const ops::Reduction& r, double correction) {
  static const backend::Kernel<void(const Context&, const Tensor& x, const Tensor& mean, Tensor& y,
                                    double correction)>
      kernel("var");
  ops::check_floating(op, x);
  const Tensor centre = mean(x.detach(), list(r), /*keepdim=*/true);
  Tensor y = Tensor::empty(r.kept, x.dtype(), x.device());
  kernel(x.device(), x.dtype(), x, centre, y, correction);
  return y;
}

}  // namespace

Tensor var(const Tensor& x, const std::vector<int>& axes, double correction, bool keepdim) {
  if (ops::autocasting()) [[unlikely]]
    return ops::run_wide([&](const Tensor& t) { return var(t, axes, correction, keepdim); }, x);
  const ops::Reduction r("var", x, axes);
  Tensor y = variance("var", x, r, correction);
  if (!keepdim) ops::reshape_fresh(y, r.dropped);
  return autograd::with_grad(
      "var", y, {x}, [x = autograd::Saved(x), r, correction](autograd::GradCall& g) {
        g.set(0, mul(g.dy().reshape(r.kept), 2) * spread(g[x], r, correction));
      });
}

Tensor std(const Tensor& x, const std::vector<int>& axes, double correction, bool keepdim) {
  if (ops::autocasting()) [[unlikely]]
    return ops::run_wide([&](const Tensor& t) { return std(t, axes, correction, keepdim); }, x);
  const ops::Reduction r("std", x, axes);
  Tensor y = variance("std", x, r, correction);
  {
    const NoGrad guard;
    y = sqrt(y);
  }
  if (!keepdim) ops::reshape_fresh(y, r.dropped);
  return autograd::with_grad("std", y, {x},
                             [x = autograd::Saved(x), y = autograd::Saved::output(y), r,
                              correction](autograd::GradCall& g) {
                               // Where all are equal the gradient is 0, not 0 / 0.
                               const Tensor s = g[y], is_zero = eq(s, 0.0);
                               const Tensor rate =
                                   masked_fill(g.dy() / masked_fill(s, is_zero, 1), is_zero, 0);
                               g.set(0, rate.reshape(r.kept) * spread(g[x], r, correction));
                             });
}

}  // namespace brim
