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

}  // namespace

Tensor add(const Tensor& a, const Tensor& b, double alpha) {
  if (ops::autocast_mixes(a, b)) [[unlikely]]
    return ops::run_wide([&](const auto&... t) { return add(t..., alpha); }, a, b);
  if (alpha != 1) ops::check_number("add", a, alpha);
  Tensor y = ops::binary(add_kernel(), "add", a, b, {.a = alpha});  // before a and b are looked at
  return autograd::with_grad("add", std::move(y), {a, b},
                             [sa = a.shape(), sb = b.shape(), alpha](autograd::GradCall& g) {
                               g.set_if_needed(0, [&] { return ops::sum_to(g.dy(), sa); });
                               g.set_if_needed(1, [&] {
                                 const Tensor db = ops::sum_to(g.dy(), sb);
                                 return alpha == 1 ? db : mul(db, alpha);
                               });
                             });
}

Tensor sub(const Tensor& a, const Tensor& b, double alpha) { return add(a, b, -alpha); }

Tensor add(const Tensor& x, double value) {
  static const ops::UnaryKernel kernel("add_scalar");
  ops::check_number("add", x, value);
  return autograd::with_grad("add", ops::unary(kernel, x, {.a = value}), {x},
                             [](autograd::GradCall& g) { g.set(0, g.dy()); });
}

Tensor sub(const Tensor& x, double value) { return add(x, -value); }
Tensor sub(double value, const Tensor& x) { return add(neg(x), value); }

Tensor& Tensor::add_(const Tensor& other, double alpha) {
  ops::check_number("add_", *this, alpha);
  ops::binary_in_place(add_kernel(), "add_", *this, other, {.a = alpha});
  return *this;
}

}  // namespace brim
