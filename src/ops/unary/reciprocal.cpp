// reciprocal: y = 1 / x
#include <brim/ops/binary.h>
#include <brim/ops/unary.h>
#include "autograd/node.h"
#include "ops/autocast.h"
#include "ops/elementwise.h"

namespace brim {

Tensor reciprocal(const Tensor& x) {
  if (ops::autocasting()) [[unlikely]]
    return ops::run_wide([&](const Tensor& t) { return reciprocal(t); }, x);
  static const ops::UnaryKernel kernel("reciprocal");
  const Tensor y = ops::unary(kernel, x);
  return autograd::with_grad("reciprocal", y, {x},
                             [y = autograd::Saved::output(y)](autograd::GradCall& g) {
                               const Tensor ty = g[y];  // whose square may overflow
                               g.set(0, neg(mul(mul(g.dy(), ty), ty)));
                             });
}

}  // namespace brim
