// var and stddev over any axes
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

using VarianceKernel =
    backend::Kernel<void(const Context&, const Tensor& x, Tensor& y, double correction)>;

/// kernel(x), without a gradient.
Tensor reduce(const VarianceKernel& kernel, const Tensor& x, const ops::Reduction& r, bool keepdim,
              double correction) {
  ops::check_floating(kernel.name(), x);
  Tensor y = Tensor::empty(r.kept, x.dtype(), x.device());
  kernel(x.device(), x.dtype(), x, y, correction);
  if (!keepdim) ops::reshape_fresh(y, r.dropped);
  return y;
}

}  // namespace

Tensor var(const Tensor& x, const std::vector<int>& axes, double correction, bool keepdim) {
  if (ops::autocasting()) [[unlikely]]
    return ops::run_wide([&](const Tensor& t) { return var(t, axes, correction, keepdim); }, x);
  static const VarianceKernel kernel("var", {.operands = "x, y", .work = backend::Work::reduction});
  const ops::Reduction r("var", x, axes);
  return autograd::with_grad(
      "var", reduce(kernel, x, r, keepdim, correction), {x},
      [x = autograd::Saved(x), r, correction](autograd::GradCall& g) {
        const Tensor from = g[x], dy = g.dy().reshape(r.kept);
        const DType wide = ops::statistics_dtype(from.dtype());
        g.set(0, (mul(dy.to(wide), 2) * spread(from.to(wide), r, correction)).to(from.dtype()));
      });
}

Tensor stddev(const Tensor& x, const std::vector<int>& axes, double correction, bool keepdim) {
  if (ops::autocasting()) [[unlikely]]
    return ops::run_wide([&](const Tensor& t) { return stddev(t, axes, correction, keepdim); }, x);
  static const VarianceKernel kernel("stddev",
                                     {.operands = "x, y", .work = backend::Work::reduction});
  const ops::Reduction r("stddev", x, axes);
  const Tensor y = reduce(kernel, x, r, keepdim, correction);
  return autograd::with_grad(
      "stddev", y, {x},
      [x = autograd::Saved(x), y = autograd::Saved::output(y), r,
       correction](autograd::GradCall& g) {
        const Tensor from = g[x];
        const DType wide = ops::statistics_dtype(from.dtype());
        // Where all are equal the gradient is 0, not 0 / 0. Elsewhere dy / s may overflow.
        const Tensor s = g[y].to(wide).reshape(r.kept), is_zero = eq(s, 0.0);
        const Tensor dy = masked_fill(g.dy().to(wide).reshape(r.kept), is_zero, 0);
        const Tensor deviations = spread(from.to(wide), r, correction) / masked_fill(s, is_zero, 1);
        g.set(0, (dy * deviations).to(from.dtype()));
      });
}

}  // namespace brim
