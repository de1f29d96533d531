// pow: y = a to the power b
#include <brim/ops/binary.h>

#include <cmath>

#include <brim/ops/compare.h>
#include <brim/ops/unary.h>

#include "autograd/node.h"
#include "ops/autocast.h"
#include "ops/elementwise.h"

namespace brim {

Tensor pow(const Tensor& a, const Tensor& b) {
  if (ops::autocasting()) [[unlikely]]
    return ops::run_wide([](const auto&... t) { return pow(t...); }, a, b);
  static const ops::BinaryKernel kernel("pow");
  const Tensor y = ops::binary(kernel, "pow", a, b);
  return autograd::with_grad(
      "pow", y, {a, b},
      [a = autograd::Saved(a), b = autograd::Saved(b),
       y = autograd::Saved::output(y)](autograd::GradCall& g) {
        const Tensor ta = g[a], tb = g[b];
        // Limits: d a^0 / da is 0 even at a = 0, and d 0^b / db is 0 though log(0) is not finite.
        // The root of a negative number is none, nor is its slope: b - 1 may round to an integer.
        g.set_if_needed(0, [&] {
          const Tensor slope = masked_fill(mul(tb, pow(ta, sub(tb, 1))), eq(tb, 0), 0);
          const Tensor known = masked_fill(slope, isnan(g[y]), std::nan(""));
          return ops::sum_to(mul(g.dy(), known), ta.shape());
        });
        g.set_if_needed(1, [&] {
          const Tensor base = masked_fill(ta, logical_and(eq(ta, 0), ge(tb, 0)), 1);
          return ops::sum_to(mul(g.dy(), mul(g[y], log(base))), tb.shape());
        });
      });
}

}  // namespace brim
