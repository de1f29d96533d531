// square: y = x * x
#include <brim/ops/binary.h>
#include <brim/ops/unary.h>
#include "autograd/node.h"
#include "ops/elementwise.h"

namespace brim {

Tensor square(const Tensor& x) {
  static const ops::UnaryKernel kernel("square");
  return autograd::with_grad(
      "square", ops::unary(kernel, x), {x},
      [x = autograd::Saved(x)](autograd::GradCall& g) { g.set(0, mul(mul(g.dy(), g[x]), 2)); });
}

}  // namespace brim
