// pow with a number as the exponent
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/unary.h>
#include "autograd/node.h"
#include "ops/autocast.h"
#include "ops/elementwise.h"

namespace brim {

Tensor pow(const Tensor& x, double exponent) {
  if (ops::autocasting()) [[unlikely]]
    return ops::run_wide([&](const Tensor& t) { return pow(t, exponent); }, x);
  static const ops::UnaryKernel kernel("pow_scalar");
  ops::check_defined("pow", x);
  // The exponents of every day, faster and exact.
  if (exponent == 1) return mul(x, 1);
  if (exponent == 2) return square(x);
  if (exponent == 3) return mul(square(x), x);
  if (exponent == 0.5) return sqrt(x);
  if (exponent == -0.5) return rsqrt(x);
  if (exponent == -1) return reciprocal(x);
  return autograd::with_grad("pow", ops::unary(kernel, x, {.a = exponent}), {x},
                             [x = autograd::Saved(x), exponent](autograd::GradCall& g) {
                               g.set(0, exponent == 0
                                            ? zeros_like(g.dy())
                                            : mul(mul(g.dy(), pow(g[x], exponent - 1)), exponent));
                             });
}

}  // namespace brim
