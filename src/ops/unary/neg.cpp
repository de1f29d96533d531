// neg: y = -x
#include <brim/ops/unary.h>

#include "autograd/node.h"
#include "ops/elementwise.h"

namespace brim {

Tensor neg(const Tensor& x) {
  static const ops::UnaryKernel kernel("neg");
  return autograd::with_grad("neg", ops::unary(kernel, x), {x},
                             [](autograd::GradCall& g) { g.set(0, neg(g.dy())); });
}

}  // namespace brim
