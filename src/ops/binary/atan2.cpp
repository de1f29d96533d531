// atan2: the angle of the point (b, a)
#include <brim/ops/binary.h>
#include <brim/ops/unary.h>

#include "autograd/node.h"
#include "ops/autocast.h"
#include "ops/elementwise.h"

namespace brim {

Tensor atan2(const Tensor& a, const Tensor& b) {
  if (ops::autocast_mixes(a, b)) [[unlikely]]
    return ops::run_wide([](const auto&... t) { return atan2(t...); }, a, b);
  static const ops::BinaryKernel kernel("atan2");
  ops::common_device("atan2", a, b);
  ops::check_floating("atan2", a);
  return autograd::with_grad(
      "atan2", ops::binary(kernel, "atan2", a, b), {a, b},
      [a = autograd::Saved(a), b = autograd::Saved(b)](autograd::GradCall& g) {
        // Squares of 16 bits soon overflow.
        const DType dtype = g.dy().dtype(), wide = ops::statistics_dtype(dtype);
        const Tensor ta = g[a].to(wide), tb = g[b].to(wide);
        const Tensor share = div(g.dy().to(wide), add(square(ta), square(tb)));
        g.set_if_needed(0, [&] { return ops::sum_to(mul(share, tb), ta.shape()).to(dtype); });
        g.set_if_needed(1, [&] { return ops::sum_to(mul(share, neg(ta)), tb.shape()).to(dtype); });
      });
}

}  // namespace brim
