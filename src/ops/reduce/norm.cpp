// norm: the p-norm over any axes, with a kernel of its own for p = 2
#include <brim/ops/binary.h>
#include <brim/ops/compare.h>
#include <brim/ops/create.h>
#include <brim/ops/reduce.h>
#include <brim/ops/unary.h>

#include <cmath>

#include "autograd/node.h"
#include "ops/autocast.h"
#include "ops/reduce/reduction.h"

namespace brim {

Tensor norm(const Tensor& x, double p, const std::vector<int>& axes, bool keepdim) {
  if (ops::autocasting()) [[unlikely]]
    return ops::run_wide([&](const Tensor& t) { return norm(t, p, axes, keepdim); }, x);
  static const ops::ReduceKernel kernel("norm");
  ops::check_floating("norm", x);
  BRIM_CHECK(!std::isnan(p), ValueError, "[norm] p is NaN; use a number or infinity");
  if (p == 1) return sum(abs(x), axes, keepdim);
  if (p == 0)  // constant but for jumps
    return autograd::with_grad("norm", sum(ne(x.detach(), 0.0).to(x.dtype()), axes, keepdim), {x},
                               [shape = x.shape()](autograd::GradCall& g) {
                                 const Tensor dy = g.dy();
                                 g.set(0,
                                       zeros(shape, {.dtype = dy.dtype(), .device = dy.device()}));
                               });
  if (std::isinf(p)) return p > 0 ? amax(abs(x), axes, keepdim) : amin(abs(x), axes, keepdim);
  const ops::Reduction r("norm", x, axes);
  // Powers leave the range of f32 soon.
  const Tensor y =
      p == 2 ? ops::reduce(kernel, x, r, keepdim, x.dtype())
             : pow(sum(pow(abs(x.detach().to(f64)), p), axes, keepdim), 1 / p).to(x.dtype());
  return autograd::with_grad(
      "norm", y, {x},
      [x = autograd::Saved(x), y = autograd::Saved::output(y), r, p](autograd::GradCall& g) {
        // dx = dy sign(x) (|x| / y)^(p-1), of which dy / y may overflow. Where y or x is 0 the
        // subgradient 0 is chosen; zeros are filled before the powers, whose own gradients would be
        // NaN.
        const Tensor from = g[x];
        const DType wide = p == 2 ? ops::statistics_dtype(from.dtype()) : f64;
        const Tensor tx = from.to(wide), length = g[y].to(wide).reshape(r.kept),
                     dy = g.dy().to(wide).reshape(r.kept), is_zero = eq(length, 0.0);
        const Tensor filled = masked_fill(length, is_zero, 1);
        const Tensor dx = p == 2 ? masked_fill(dy, is_zero, 0) * (tx / filled)
                                 : masked_fill(dy, is_zero, 0) * sign(tx) *
                                       pow(masked_fill(abs(tx), eq(tx, 0.0), 1) / filled, p - 1);
        g.set(0, dx.to(from.dtype()));
      });
}

}  // namespace brim
