// sqrt and rsqrt: the square root and its inverse
#include <brim/ops/binary.h>
#include <brim/ops/unary.h>
#include "autograd/node.h"
#include "ops/autocast.h"
#include "ops/elementwise.h"

namespace brim {

Tensor sqrt(const Tensor& x) {
  static const ops::UnaryKernel kernel("sqrt");
  const Tensor y = ops::unary(kernel, x);
  return autograd::with_grad("sqrt", y, {x},
                             [y = autograd::Saved::output(y)](autograd::GradCall& g) {
                               g.set(0, div(mul(g.dy(), 0.5), g[y]));
                             });
}

Tensor rsqrt(const Tensor& x) {
  if (ops::autocasting()) [[unlikely]]
    return ops::run_wide([&](const Tensor& t) { return rsqrt(t); }, x);
  static const ops::UnaryKernel kernel("rsqrt");
  const Tensor y = ops::unary(kernel, x);
  return autograd::with_grad("rsqrt", y, {x},
                             [y = autograd::Saved::output(y)](autograd::GradCall& g) {
                               // From left to right, for y^3 alone overflows where dx does not.
                               const Tensor ty = g[y];
                               g.set(0, mul(mul(mul(mul(g.dy(), -0.5), ty), ty), ty));
                             });
}

}  // namespace brim
