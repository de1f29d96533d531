// remainder and fmod: what is left of a when whole multiples of b are taken off
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/unary.h>

#include "autograd/node.h"
#include "ops/autocast.h"
#include "ops/elementwise.h"

namespace brim {
namespace {

/// y = a - n b for a whole n, which is constant almost everywhere.
Tensor what_is_left(const ops::BinaryKernel& kernel, const Tensor& a, const Tensor& b) {
  const Tensor y = ops::binary(kernel, kernel.name(), a, b);
  return autograd::with_grad(
      kernel.name(), y, {a, b},
      [a = autograd::Saved(a), b = autograd::Saved(b), y = autograd::Saved(y.detach()),
       from = a.shape()](autograd::GradCall& g) {
        g.set_if_needed(0, [&] { return ops::sum_to(g.dy(), from); });
        g.set_if_needed(1, [&] {
          // (a - y) / b is whole but for its rounding; a / b itself may round across a whole
          // number.
          const DType wide = ops::statistics_dtype(g.dy().dtype());
          const Tensor tb = g[b].detach().to(wide);
          const Tensor n = round(div(sub(g[a].detach().to(wide), g[y].to(wide)), tb));
          return ops::sum_to(mul(g.dy(), neg(n).to(g.dy().dtype())), tb.shape());
        });
      });
}

Tensor number_like(const char* op, const Tensor& x, double value) {
  ops::check_number(op, x, value);
  return full({}, value, {.dtype = x.dtype(), .device = x.device()});
}

}  // namespace

Tensor remainder(const Tensor& a, const Tensor& b) {
  if (ops::autocast_mixes(a, b)) [[unlikely]]
    return ops::run_wide([](const auto&... t) { return remainder(t...); }, a, b);
  static const ops::BinaryKernel kernel("remainder");
  return what_is_left(kernel, a, b);
}

Tensor fmod(const Tensor& a, const Tensor& b) {
  if (ops::autocast_mixes(a, b)) [[unlikely]]
    return ops::run_wide([](const auto&... t) { return fmod(t...); }, a, b);
  static const ops::BinaryKernel kernel("fmod");
  return what_is_left(kernel, a, b);
}

Tensor remainder(const Tensor& x, double value) {
  return remainder(x, number_like("remainder", x, value));
}
Tensor fmod(const Tensor& x, double value) { return fmod(x, number_like("fmod", x, value)); }

}  // namespace brim
