// sin and cos of radians
#include <brim/ops/binary.h>
#include <brim/ops/unary.h>
#include "autograd/node.h"
#include "ops/elementwise.h"

namespace brim {

Tensor sin(const Tensor& x) {
  static const ops::UnaryKernel kernel("sin");
  return autograd::with_grad(
      "sin", ops::unary(kernel, x), {x},
      [x = autograd::Saved(x)](autograd::GradCall& g) { g.set(0, mul(g.dy(), cos(g[x]))); });
}

Tensor cos(const Tensor& x) {
  static const ops::UnaryKernel kernel("cos");
  return autograd::with_grad(
      "cos", ops::unary(kernel, x), {x},
      [x = autograd::Saved(x)](autograd::GradCall& g) { g.set(0, neg(mul(g.dy(), sin(g[x])))); });
}

}  // namespace brim
