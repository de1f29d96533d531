// silu: y = x sigmoid(x)
#include <brim/ops/binary.h>
#include <brim/ops/unary.h>
#include "autograd/node.h"
#include "ops/elementwise.h"

namespace brim {

Tensor silu(const Tensor& x) {
  static const ops::UnaryKernel kernel("silu");
  static const ops::BinaryKernel grad_kernel("silu_grad", "dy, s, dx");
  const Tensor y = ops::unary(kernel, x);
  return autograd::with_grad("silu", y, {x}, [x = autograd::Saved(x)](autograd::GradCall& g) {
    g.set(0, ops::fused_grad(grad_kernel, g.dy(), g[x], {}, [](const Tensor& dy, const Tensor& tx) {
            const Tensor s = sigmoid(tx);
            return mul(dy, mul(s, mul(tx, 1 - s) + 1));
          }));
  });
}

}  // namespace brim
