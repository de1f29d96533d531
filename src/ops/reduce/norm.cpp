// norm: the p-norm over any axes, with a kernel of its own for p = 2
#include <brim/ops/binary.h>
#include <brim/ops/compare.h>
#include <brim/ops/reduce.h>
#include <brim/ops/unary.h>

#include <cmath>

#include "autograd/node.h"
#include "ops/reduce/reduction.h"

namespace brim {

Tensor norm(const Tensor& x, double p, const std::vector<int>& axes, bool keepdim) {
  static const ops::ReduceKernel kernel("norm");
  ops::check_floating("norm", x);
  BRIM_CHECK(!std::isnan(p), ValueError, "[norm] p is NaN; use a number or infinity");
  if (p == 1) return sum(abs(x), axes, keepdim);
  if (p == 0) return sum(ne(x, 0.0).to(x.dtype()), axes, keepdim);
  if (std::isinf(p)) return p > 0 ? amax(abs(x), axes, keepdim) : amin(abs(x), axes, keepdim);
  if (p != 2) return pow(sum(pow(abs(x), p), axes, keepdim), 1 / p);
  const ops::Reduction r("norm", x, axes);
  const Tensor y = ops::reduce(kernel, x, r, keepdim, x.dtype());
  return autograd::with_grad(
      "norm", y, {x},
      [x = autograd::Saved(x), y = autograd::Saved::output(y), r](autograd::GradCall& g) {
        // At 0 the subgradient 0 is chosen; filled before the division, whose gradient would be
        // NaN.
        const Tensor length = g[y], is_zero = eq(length, 0.0);
        const Tensor rate = masked_fill(g.dy() / masked_fill(length, is_zero, 1), is_zero, 0);
        g.set(0, rate.reshape(r.kept) * g[x]);
      });
}

}  // namespace brim
