// where and masked_fill: elements chosen by a mask
#include <brim/ops/compare.h>

#include "autograd/node.h"
#include "ops/autocast.h"
#include "ops/elementwise.h"

namespace brim {
namespace {

void check_mask(const char* op, const Tensor& mask) {
  BRIM_CHECK(mask.dtype() == DType::bool_, DTypeError,
             "[{}] the mask is {}, not bool; compare something or cast it with x.to(bool_)", op,
             name(mask.dtype()));
}

/// `x` with `value` where the mask is true; where it is false if `invert`.
Tensor fill(const Tensor& x, const Tensor& mask, double value, bool invert) {
  static const ops::BinaryKernel kernel("masked_fill", "x, mask, y");
  const Device device = ops::common_device("masked_fill", x, mask);
  check_mask("masked_fill", mask);
  const Shape shape = broadcast_shapes(x.shape(), mask.shape(), "masked_fill");
  Tensor y = shape == x.shape() ? ops::empty_result(x, x.dtype())
                                : Tensor::empty(shape, x.dtype(), device);
  kernel(device, x.dtype(), x, mask, y, {.a = value, .b = invert ? 1.0 : 0.0});
  return autograd::with_grad(
      "masked_fill", y, {x},
      [mask = autograd::Saved(mask), invert, from = x.shape()](autograd::GradCall& g) {
        g.set(0, ops::sum_to(fill(g.dy(), g[mask], 0, invert), from));
      });
}

}  // namespace

Tensor masked_fill(const Tensor& x, const Tensor& mask, double value) {
  ops::check_number("masked_fill", x, value);
  return fill(x, mask, value, false);
}

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  if (ops::autocast_mixes(a, b)) [[unlikely]]
    return ops::run_wide([&](const auto&... t) { return where(condition, t...); }, a, b);
  static const backend::Kernel<void(const Context&, const Tensor& condition, const Tensor& a,
                                    const Tensor& b, Tensor& y)>
      kernel("where", {.operands = "condition, a, b, y", .work = backend::Work::pointwise});
  const Device device = ops::common_device("where", a, b);
  ops::common_device("where", condition, a);
  const DType dtype = ops::common_dtype("where", a, b);
  check_mask("where", condition);
  const Shape values = broadcast_shapes(a.shape(), b.shape(), "where");
  const Shape shape = broadcast_shapes(condition.shape(), values, "where");
  Tensor y = shape == a.shape()   ? ops::empty_result(a, a.dtype())
             : shape == b.shape() ? ops::empty_result(b, b.dtype())
                                  : Tensor::empty(shape, dtype, device);
  kernel(device, dtype, condition, a, b, y);
  return autograd::with_grad(
      "where", y, {a, b},
      [mask = autograd::Saved(condition), sa = a.shape(), sb = b.shape()](autograd::GradCall& g) {
        g.set_if_needed(0, [&] { return ops::sum_to(fill(g.dy(), g[mask], 0, true), sa); });
        g.set_if_needed(1, [&] { return ops::sum_to(fill(g.dy(), g[mask], 0, false), sb); });
      });
}

}  // namespace brim
