// div: y = a / b, also with a number, and in place; integers are divided as f32
#include <brim/ops/binary.h>
#include <brim/ops/unary.h>

#include "autograd/node.h"
#include "ops/autocast.h"
#include "ops/elementwise.h"

namespace brim {
namespace {

const ops::BinaryKernel& div_kernel() {
  static const ops::BinaryKernel kernel("div");
  return kernel;
}

}  // namespace

Tensor div(const Tensor& a, const Tensor& b) {
  if (ops::autocast_mixes(a, b)) [[unlikely]]
    return ops::run_wide([](const auto&... t) { return div(t...); }, a, b);
  ops::common_device("div", a, b);
  if (is_integral(ops::common_dtype("div", a, b))) return div(a.to(f32), b.to(f32));
  return autograd::with_grad(
      "div", ops::binary(div_kernel(), "div", a, b), {a, b},
      [a = autograd::Saved(a), b = autograd::Saved(b)](autograd::GradCall& g) {
        const Tensor ta = g[a], tb = g[b];
        g.set_if_needed(0, [&] { return ops::sum_to(div(g.dy(), tb), ta.shape()); });
        g.set_if_needed(
            1, [&] { return ops::sum_to(neg(mul(g.dy(), div(div(ta, tb), tb))), tb.shape()); });
      });
}

Tensor div(const Tensor& x, double value) {
  static const ops::UnaryKernel kernel("div_scalar");
  ops::check_defined("div", x);
  if (is_integral(x.dtype())) return div(x.to(f32), value);
  return autograd::with_grad("div", ops::unary(kernel, x, {.a = value}), {x},
                             [value](autograd::GradCall& g) { g.set(0, div(g.dy(), value)); });
}

Tensor div(double value, const Tensor& x) {
  ops::check_defined("div", x);
  if (is_integral(x.dtype())) return div(value, x.to(f32));
  const Tensor y = reciprocal(x);
  return value == 1 ? y : mul(y, value);
}

Tensor& Tensor::div_(const Tensor& other) {
  ops::binary_in_place(div_kernel(), "div_", *this, other);
  return *this;
}

}  // namespace brim
