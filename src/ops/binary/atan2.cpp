// atan2: the angle of the point (b, a)
#include <brim/ops/binary.h>
#include <brim/ops/compare.h>
#include <brim/ops/unary.h>

#include <limits>

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
        const DType dtype = g.dy().dtype(), wide = ops::statistics_dtype(dtype);
        const Tensor ta = g[a].to(wide), tb = g[b].to(wide);
        // The point, moved towards 1 along its ray, since squares soon overflow and underflow; one
        // that is infinite stays where it is.
        const Tensor size = maximum(abs(ta.detach()), abs(tb.detach()));
        const Tensor away = eq(size, std::numeric_limits<double>::infinity());
        const Tensor height = div(ta, size), width = div(tb, size);
        const Tensor share = div(div(g.dy().to(wide), size), add(square(height), square(width)));
        const auto slope = [&](const Tensor& side, const Shape& shape) {
          return ops::sum_to(masked_fill(mul(share, side), away, 0), shape).to(dtype);
        };
        g.set_if_needed(0, [&] { return slope(width, ta.shape()); });
        g.set_if_needed(1, [&] { return slope(neg(height), tb.shape()); });
      });
}

}  // namespace brim
