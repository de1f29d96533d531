// softmax and log_softmax along one axis
#include <brim/ops/softmax.h>

#include <brim/ops/binary.h>
#include <brim/ops/reduce.h>

#include "autograd/node.h"
#include "backend/kernel.h"
#include "ops/autocast.h"
#include "ops/checks.h"

namespace brim {
namespace {

using SoftmaxKernel = backend::Kernel<void(const Context&, const Tensor& x, Tensor& y, int axis)>;
using SoftmaxGradKernel =
    backend::Kernel<void(const Context&, const Tensor& dy, const Tensor& y, Tensor& dx, int axis)>;

/// Rank 0 is seen as one element.
Tensor launch(const SoftmaxKernel& kernel, const char* op, const Tensor& x, int& axis) {
  ops::check_floating(op, x);
  const Tensor rows = x.rank() == 0 ? x.detach().reshape({1}) : x.detach().contiguous();
  axis = normalize_axis(axis, rows.rank(), op);
  Tensor y = Tensor::empty(rows.shape(), x.dtype(), x.device());
  kernel(x.device(), x.dtype(), rows, y, axis);
  return x.rank() == 0 ? y.alias({}, {}, 0) : y;
}

Tensor launch_grad(const SoftmaxGradKernel& kernel, const Tensor& dy, const Tensor& y, int axis) {
  Tensor dx = Tensor::empty(y.shape(), y.dtype(), y.device());
  const Tensor from = dy.contiguous();
  if (y.rank() == 0) {
    Tensor dx1 = dx.alias({1}, {1}, 0);
    kernel(y.device(), y.dtype(), from.alias({1}, {1}, from.offset()),
           y.alias({1}, {1}, y.offset()), dx1, axis);
  } else {
    kernel(y.device(), y.dtype(), from, y, dx, axis);
  }
  return dx;
}

std::vector<int> sum_axes(const Tensor& y, int axis) {
  return y.rank() == 0 ? std::vector<int>{} : std::vector<int>{axis};
}

}  // namespace

Tensor softmax(const Tensor& x, int axis) {
  if (ops::autocasting()) [[unlikely]]
    return ops::run_wide([&](const Tensor& t) { return softmax(t, axis); }, x);
  static const SoftmaxKernel kernel("softmax", {.operands = "x, y"});
  static const SoftmaxGradKernel grad_kernel("softmax_grad", {.operands = "dy, y, dx"});
  const Tensor y = launch(kernel, "softmax", x, axis);
  return autograd::with_grad(
      "softmax", y, {x}, [y = autograd::Saved::output(y), axis](autograd::GradCall& g) {
        const Tensor p = g[y];
        if (grad_enabled())
          g.set(0, p * (g.dy() - sum(g.dy() * p, sum_axes(p, axis), /*keepdim=*/true)));
        else
          g.set(0, launch_grad(grad_kernel, g.dy(), p, axis));
      });
}

Tensor log_softmax(const Tensor& x, int axis) {
  if (ops::autocasting()) [[unlikely]]
    return ops::run_wide([&](const Tensor& t) { return log_softmax(t, axis); }, x);
  static const SoftmaxKernel kernel("log_softmax", {.operands = "x, y"});
  static const SoftmaxGradKernel grad_kernel("log_softmax_grad", {.operands = "dy, y, dx"});
  const Tensor y = launch(kernel, "log_softmax", x, axis);
  return autograd::with_grad(
      "log_softmax", y, {x},
      [x = autograd::Saved(x), y = autograd::Saved::output(y), axis](autograd::GradCall& g) {
        if (grad_enabled())
          g.set(0, g.dy() - softmax(g[x], axis) * sum(g.dy(), sum_axes(g.dy(), axis), true));
        else
          g.set(0, launch_grad(grad_kernel, g.dy(), g[y], axis));
      });
}

}  // namespace brim
