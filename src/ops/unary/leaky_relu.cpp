// leaky_relu: y = x above 0, slope x below
#include <brim/ops/unary.h>

#include "autograd/node.h"
#include "ops/elementwise.h"

namespace brim {

Tensor leaky_relu(const Tensor& x, double slope) {
  static const ops::UnaryKernel kernel("leaky_relu");
  static const ops::BinaryKernel grad_kernel("leaky_relu_grad", "dy, s, dx");
  const Tensor y = ops::unary(kernel, x, {.a = slope});
  return autograd::with_grad("leaky_relu", y, {x},
                             [x = autograd::Saved(x), slope](autograd::GradCall& g) {
                               g.set(0, ops::linear_grad(grad_kernel, g.dy(), g[x], {.a = slope}));
                             });
}

}  // namespace brim
