// tanh
#include <brim/ops/binary.h>
#include <brim/ops/unary.h>
#include "autograd/node.h"
#include "ops/elementwise.h"

namespace brim {

Tensor tanh(const Tensor& x) {
  static const ops::UnaryKernel kernel("tanh");
  static const ops::BinaryKernel grad_kernel("tanh_grad", "dy, s, dx");
  const Tensor y = ops::unary(kernel, x);
  return autograd::with_grad(
      "tanh", y, {x}, [y = autograd::Saved::output(y)](autograd::GradCall& g) {
        g.set(0, ops::fused_grad(
                     grad_kernel, g.dy(), g[y], {},
                     [](const Tensor& dy, const Tensor& ty) { return mul(dy, 1 - square(ty)); }));
      });
}

}  // namespace brim
