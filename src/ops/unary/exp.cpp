// exp and expm1
#include <brim/ops/binary.h>
#include <brim/ops/unary.h>
#include "autograd/node.h"
#include "ops/autocast.h"
#include "ops/elementwise.h"

namespace brim {

Tensor exp(const Tensor& x) {
  if (ops::autocasting()) [[unlikely]]
    return ops::run_wide([&](const Tensor& t) { return exp(t); }, x);
  static const ops::UnaryKernel kernel("exp");
  const Tensor y = ops::unary(kernel, x);
  return autograd::with_grad(
      "exp", y, {x},
      [y = autograd::Saved::output(y)](autograd::GradCall& g) { g.set(0, mul(g.dy(), g[y])); });
}

Tensor expm1(const Tensor& x) {
  if (ops::autocasting()) [[unlikely]]
    return ops::run_wide([&](const Tensor& t) { return expm1(t); }, x);
  static const ops::UnaryKernel kernel("expm1");
  const Tensor y = ops::unary(kernel, x);
  return autograd::with_grad("expm1", y, {x},
                             [y = autograd::Saved::output(y)](autograd::GradCall& g) {
                               g.set(0, mul(g.dy(), add(g[y], 1)));
                             });
}

}  // namespace brim
