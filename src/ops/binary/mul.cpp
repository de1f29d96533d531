// mul: y = a * b, also with a number, and in place
#include <brim/ops/binary.h>

#include "autograd/node.h"
#include "ops/autocast.h"
#include "ops/elementwise.h"

namespace brim {
namespace {

const ops::BinaryKernel& mul_kernel() {
  static const ops::BinaryKernel kernel("mul");
  return kernel;
}
const ops::UnaryKernel& scale_kernel() {
  static const ops::UnaryKernel kernel("mul_scalar");
  return kernel;
}
auto scale_gradient(double factor) {
  return [factor](autograd::GradCall& g) { g.set(0, mul(g.dy(), factor)); };
}

}  // namespace

Tensor mul(const Tensor& a, const Tensor& b) {
  if (ops::autocast_mixes(a, b)) [[unlikely]]
    return ops::run_wide([](const auto&... t) { return mul(t...); }, a, b);
  return autograd::with_grad(
      "mul", ops::binary(mul_kernel(), "mul", a, b), {a, b},
      [a = autograd::Saved(a), b = autograd::Saved(b)](autograd::GradCall& g) {
        const Tensor ta = g[a], tb = g[b];
        g.set_if_needed(0, [&] { return ops::sum_to(mul(g.dy(), tb), ta.shape()); });
        g.set_if_needed(1, [&] { return ops::sum_to(mul(g.dy(), ta), tb.shape()); });
      });
}

Tensor mul(const Tensor& x, double value) {
  ops::check_number("mul", x, value);
  return autograd::with_grad("mul", ops::unary(scale_kernel(), x, {.a = value}), {x},
                             scale_gradient(value));
}

Tensor& Tensor::mul_(const Tensor& other) {
  const auto before = ops::needed_before("mul_", *this, other);
  ops::binary_in_place(mul_kernel(), "mul_", *this, other);
  autograd::record_in_place("mul_", *this, {other},
                            [a = autograd::Saved(before.x), b = autograd::Saved(before.other),
                             to = other.shape()](autograd::GradCall& g) {
                              g.set_if_needed(0, [&] { return mul(g.dy(), g[b]); });
                              g.set_if_needed(1,
                                              [&] { return ops::sum_to(mul(g.dy(), g[a]), to); });
                            });
  return *this;
}

Tensor& Tensor::mul_(double factor) {
  ops::check_number("mul_", *this, factor);
  ops::unary_in_place(scale_kernel(), "mul_", *this, {.a = factor});
  autograd::record_in_place("mul_", *this, {}, scale_gradient(factor));
  return *this;
}

}  // namespace brim
