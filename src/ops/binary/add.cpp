// add: y = a + alpha * b, also with a number; sub and the in-place add_ are made of it
#include <brim/ops/binary.h>
#include <brim/ops/unary.h>

#include "autograd/node.h"
#include "ops/autocast.h"
#include "ops/elementwise.h"

namespace brim {
namespace {

const ops::BinaryKernel& add_kernel() {
  static const ops::BinaryKernel kernel("add");
  return kernel;
}
const ops::UnaryKernel& shift_kernel() {
  static const ops::UnaryKernel kernel("add_scalar");
  return kernel;
}

/// Of a + alpha * b, for a and b of these shapes.
auto sum_gradient(const Shape& a, const Shape& b, double alpha) {
  return [a, b, alpha](autograd::GradCall& g) {
    g.set_if_needed(0, [&] { return ops::sum_to(g.dy(), a); });
    g.set_if_needed(1, [&] {
      const Tensor db = ops::sum_to(g.dy(), b);
      return alpha == 1 ? db : mul(db, alpha);
    });
  };
}
void pass_on(autograd::GradCall& g) { g.set(0, g.dy()); }

}  // namespace

Tensor add(const Tensor& a, const Tensor& b, double alpha) {
  if (ops::autocast_mixes(a, b)) [[unlikely]]
    return ops::run_wide([&](const auto&... t) { return add(t..., alpha); }, a, b);
  if (alpha != 1) ops::check_number("add", a, alpha);
  Tensor y = ops::binary(add_kernel(), "add", a, b, {.a = alpha});  // before a and b are looked at
  return autograd::with_grad("add", std::move(y), {a, b},
                             sum_gradient(a.shape(), b.shape(), alpha));
}

Tensor sub(const Tensor& a, const Tensor& b, double alpha) { return add(a, b, -alpha); }

Tensor add(const Tensor& x, double value) {
  ops::check_number("add", x, value);
  return autograd::with_grad("add", ops::unary(shift_kernel(), x, {.a = value}), {x}, pass_on);
}

Tensor sub(const Tensor& x, double value) { return add(x, -value); }
Tensor sub(double value, const Tensor& x) { return add(neg(x), value); }

Tensor& Tensor::add_(const Tensor& other, double alpha) {
  ops::check_number("add_", *this, alpha);
  ops::binary_in_place(add_kernel(), "add_", *this, other, {.a = alpha});
  autograd::record_in_place("add_", *this, {other}, sum_gradient(shape(), other.shape(), alpha));
  return *this;
}

Tensor& Tensor::add_(double value) {
  ops::check_number("add_", *this, value);
  ops::unary_in_place(shift_kernel(), "add_", *this, {.a = value});
  autograd::record_in_place("add_", *this, {}, pass_on);
  return *this;
}

}  // namespace brim
