// elu: y = x above 0, alpha (exp(x) - 1) below
#include <brim/ops/binary.h>
#include <brim/ops/compare.h>
#include <brim/ops/unary.h>
#include "autograd/node.h"
#include "ops/elementwise.h"

namespace brim {

Tensor elu(const Tensor& x, double alpha) {
  static const ops::UnaryKernel kernel("elu");
  static const ops::BinaryKernel grad_kernel("elu_grad", "dy, s, dx");
  const Tensor y = ops::unary(kernel, x, {.a = alpha});
  return autograd::with_grad("elu", y, {x}, [x = autograd::Saved(x), alpha](autograd::GradCall& g) {
    g.set(0, ops::fused_grad(grad_kernel, g.dy(), g[x], {.a = alpha},
                             [&](const Tensor& dy, const Tensor& tx) {
                               // The clamp keeps exp finite where it is not used: infinity times 0
                               // would be NaN.
                               const Tensor below = mul(exp(clamp(tx, {}, 0)), alpha);
                               return where(le(tx, 0), mul(dy, below), dy);
                             }));
  });
}

}  // namespace brim
