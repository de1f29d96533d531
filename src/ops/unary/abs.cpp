// abs: y = |x|
#include <brim/ops/unary.h>

#include "autograd/node.h"
#include "ops/elementwise.h"

namespace brim {

Tensor abs(const Tensor& x) {
  static const ops::UnaryKernel kernel("abs");
  static const ops::BinaryKernel grad_kernel("abs_grad", "dy, s, dx");
  const Tensor y = ops::unary(kernel, x);
  return autograd::with_grad("abs", y, {x}, [x = autograd::Saved(x)](autograd::GradCall& g) {
    g.set(0, ops::linear_grad(grad_kernel, g.dy(), g[x]));
  });
}

}  // namespace brim
