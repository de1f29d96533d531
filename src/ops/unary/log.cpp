// log and log1p: natural logarithms of x and of 1 + x
#include <brim/ops/binary.h>
#include <brim/ops/unary.h>
#include "autograd/node.h"
#include "ops/autocast.h"
#include "ops/elementwise.h"

namespace brim {

Tensor log(const Tensor& x) {
  if (ops::autocasting()) [[unlikely]]
    return ops::run_wide([&](const Tensor& t) { return log(t); }, x);
  static const ops::UnaryKernel kernel("log");
  return autograd::with_grad(
      "log", ops::unary(kernel, x), {x},
      [x = autograd::Saved(x)](autograd::GradCall& g) { g.set(0, div(g.dy(), g[x])); });
}

Tensor log1p(const Tensor& x) {
  if (ops::autocasting()) [[unlikely]]
    return ops::run_wide([&](const Tensor& t) { return log1p(t); }, x);
  static const ops::UnaryKernel kernel("log1p");
  return autograd::with_grad(
      "log1p", ops::unary(kernel, x), {x},
      [x = autograd::Saved(x)](autograd::GradCall& g) { g.set(0, div(g.dy(), add(g[x], 1))); });
}

}  // namespace brim
