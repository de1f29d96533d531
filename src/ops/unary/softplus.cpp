// softplus: y = log(1 + exp(beta x)) / beta
#include <brim/ops/binary.h>
#include <brim/ops/compare.h>
#include <brim/ops/unary.h>
#include "autograd/node.h"
#include "ops/autocast.h"
#include "ops/elementwise.h"

namespace brim {

Tensor softplus(const Tensor& x, double beta, double threshold) {
  if (ops::autocasting()) [[unlikely]]
    return ops::run_wide([&](const Tensor& t) { return softplus(t, beta, threshold); }, x);
  static const ops::UnaryKernel kernel("softplus");
  static const ops::BinaryKernel grad_kernel("softplus_grad", "dy, s, dx");
  BRIM_CHECK(beta > 0, ValueError, "[softplus] beta is {}; it must be above 0", beta);
  const Tensor y = ops::unary(kernel, x, {.a = beta, .b = threshold});
  return autograd::with_grad(
      "softplus", y, {x}, [x = autograd::Saved(x), beta, threshold](autograd::GradCall& g) {
        g.set(0, ops::fused_grad(grad_kernel, g.dy(), g[x], {.a = beta, .b = threshold},
                                 [&](const Tensor& dy, const Tensor& tx) {
                                   return where(gt(tx, threshold / beta), dy,
                                                mul(dy, sigmoid(mul(tx, beta))));
                                 }));
      });
}

}  // namespace brim
