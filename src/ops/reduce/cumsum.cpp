// cumsum along an axis
#include <brim/ops/reduce.h>

#include "autograd/node.h"
#include "backend/kernel.h"
#include "ops/autocast.h"
#include "ops/checks.h"

namespace brim {
namespace {

/// From the end when `reverse`; the gradient of each direction is the other one.
Tensor running_sum(const Tensor& x, int axis, bool reverse) {
  static const backend::Kernel<void(const Context&, const Tensor& x, Tensor& y, int axis,
                                    bool reverse)>
      kernel("cumsum", {.operands = "x, y"});
  const DType dtype = is_integral(x.dtype()) ? DType::i64 : x.dtype();
  Tensor y = Tensor::empty(x.shape(), dtype, x.device());
  if (x.rank() == 0) {
    y.copy_(x.detach());
  } else {
    kernel(x.device(), x.dtype(), x.detach().contiguous(), y, axis, reverse);
  }
  return autograd::with_grad("cumsum", y, {x}, [axis, reverse](autograd::GradCall& g) {
    g.set(0, running_sum(g.dy(), axis, !reverse));
  });
}

}  // namespace

Tensor cumsum(const Tensor& x, int axis) {
  if (ops::autocasting()) [[unlikely]]
    return ops::run_wide([&](const Tensor& t) { return cumsum(t, axis); }, x);
  ops::check_defined("cumsum", x);
  return running_sum(x, normalize_axis(axis, std::max(x.rank(), 1), "cumsum"), false);
}

}  // namespace brim
