// log and log1p: natural logarithms of x and of 1 + x; log2 and log10: to other bases
#include <numbers>

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

namespace {

/// dy / (x log(base))
auto base_gradient(const Tensor& x, double log_of_base) {
  return [x = autograd::Saved(x), log_of_base](autograd::GradCall& g) {
    g.set(0, div(g.dy(), mul(g[x], log_of_base)));
  };
}

}  // namespace

Tensor log2(const Tensor& x) {
  if (ops::autocasting()) [[unlikely]]
    return ops::run_wide([&](const Tensor& t) { return log2(t); }, x);
  static const ops::UnaryKernel kernel("log2");
  return autograd::with_grad("log2", ops::unary(kernel, x), {x},
                             base_gradient(x, std::numbers::ln2));
}

Tensor log10(const Tensor& x) {
  if (ops::autocasting()) [[unlikely]]
    return ops::run_wide([&](const Tensor& t) { return log10(t); }, x);
  static const ops::UnaryKernel kernel("log10");
  return autograd::with_grad("log10", ops::unary(kernel, x), {x},
                             base_gradient(x, std::numbers::ln10));
}

}  // namespace brim
