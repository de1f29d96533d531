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
const ops::UnaryKernel& quotient_kernel() {
  static const ops::UnaryKernel kernel("div_scalar");
  return kernel;
}

/// Of a / b with respect to b, before broadcasting is undone.
Tensor divisor_gradient(const Tensor& dy, const Tensor& a, const Tensor& b) {
  return neg(mul(dy, div(div(a, b), b)));
}
auto quotient_gradient(double value) {
  return [value](autograd::GradCall& g) { g.set(0, div(g.dy(), value)); };
}

void check_holds_quotients(const Tensor& x) {
  ops::check_defined("div_", x);
  BRIM_CHECK(is_floating(x.dtype()), DTypeError,
             "[div_] a tensor of {} does not hold quotients; write x = x / y, which is f32",
             name(x.dtype()));
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
        g.set_if_needed(1,
                        [&] { return ops::sum_to(divisor_gradient(g.dy(), ta, tb), tb.shape()); });
      });
}

Tensor div(const Tensor& x, double value) {
  ops::check_defined("div", x);
  if (is_integral(x.dtype())) return div(x.to(f32), value);
  return autograd::with_grad("div", ops::unary(quotient_kernel(), x, {.a = value}), {x},
                             quotient_gradient(value));
}

Tensor div(double value, const Tensor& x) {
  ops::check_defined("div", x);
  if (is_integral(x.dtype())) return div(value, x.to(f32));
  const Tensor y = reciprocal(x);
  return value == 1 ? y : mul(y, value);
}

Tensor& Tensor::div_(const Tensor& other) {
  check_holds_quotients(*this);
  const auto before = ops::needed_before("div_", *this, other);
  ops::binary_in_place(div_kernel(), "div_", *this, other);
  autograd::record_in_place(
      "div_", *this, {other},
      [a = autograd::Saved(before.x), b = autograd::Saved(before.other),
       to = other.shape()](autograd::GradCall& g) {
        const Tensor tb = g[b];
        g.set_if_needed(0, [&] { return div(g.dy(), tb); });
        g.set_if_needed(1, [&] { return ops::sum_to(divisor_gradient(g.dy(), g[a], tb), to); });
      });
  return *this;
}

Tensor& Tensor::div_(double value) {
  check_holds_quotients(*this);
  ops::unary_in_place(quotient_kernel(), "div_", *this, {.a = value});
  autograd::record_in_place("div_", *this, {}, quotient_gradient(value));
  return *this;
}

}  // namespace brim
