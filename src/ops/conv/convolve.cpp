// The convolution and the two products its gradient is made of. Each of the three is linear in both
// of its arguments, so the gradients of all three are again among the three.
#include <brim/ops/reduce.h>

#include <algorithm>

#include "autograd/node.h"
#include "backend/kernel.h"
#include "ops/conv/convolve.h"
#include "ops/memory_format.h"

namespace brim::ops {
namespace {

using ConvKernel = backend::Kernel<void(const Context&, const Tensor& x, const Tensor& weight,
                                        const Tensor& bias, Tensor& y, const ConvGeometry&)>;
using ConvGradKernel = backend::Kernel<void(const Context&, const Tensor& a, const Tensor& b,
                                            Tensor& d, const ConvGeometry&)>;

double operations(const ConvGeometry& g) {
  const int64_t products = g.weight_shape().numel() / std::max<int64_t>(g.o, 1);  // an output
  return 2.0 * static_cast<double>(g.y_shape().numel()) * static_cast<double>(products);
}
double conv_operations(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                       const ConvGeometry& g) {
  return operations(g);
}
double conv_grad_operations(const Tensor&, const Tensor&, const Tensor&, const ConvGeometry& g) {
  return operations(g);
}

/// In the memory format of `weight`.
Tensor weight_gradient(const Tensor& x, const Tensor& dy, const ConvGeometry& geo,
                       const Tensor& weight) {
  static const ConvGradKernel kernel("conv2d_grad_weight",
                                     {.operands = "x, dy, dweight", .activations = "x, dy"},
                                     &conv_grad_operations);
  Tensor dw = empty_in(geo.weight_shape(), x.dtype(), weight);
  const Tensor from = dense(x);
  kernel(x.device(), x.dtype(), from, arranged(dy, from), dw, geo);
  return autograd::with_grad(
      "conv2d_grad_weight", dw, {x, dy},
      [x = autograd::Saved(x), dy = autograd::Saved(dy), geo](autograd::GradCall& g) {
        g.set_if_needed(0, [&] { return convolve_back(g[dy], g.dy(), geo); });
        g.set_if_needed(1, [&] { return convolve(g[x], g.dy(), {}, geo); });
      });
}

}  // namespace

Tensor convolve(const Tensor& x, const Tensor& weight, const Tensor& bias,
                const ConvGeometry& geo) {
  static const ConvKernel kernel(
      "conv2d", {.operands = "x, weight, bias, y", .activations = "x, y"}, &conv_operations);
  const Tensor from = dense(x);
  Tensor y = empty_in(geo.y_shape(), x.dtype(), from);
  kernel(x.device(), x.dtype(), from, dense(weight), bias, y, geo);
  return autograd::with_grad(
      "conv2d", y, {x, weight, bias},
      [x = autograd::Saved(x), w = autograd::Saved(weight), geo](autograd::GradCall& g) {
        g.set_if_needed(0, [&] { return convolve_back(g.dy(), g[w], geo); });
        g.set_if_needed(1, [&] { return weight_gradient(g[x], g.dy(), geo, g[w]); });
        g.set_if_needed(2, [&] { return sum(g.dy(), {0, 2, 3}); });
      });
}

Tensor convolve_back(const Tensor& dy, const Tensor& weight, const ConvGeometry& geo) {
  static const ConvGradKernel kernel("conv2d_grad_x",
                                     {.operands = "dy, weight, dx", .activations = "dy, dx"},
                                     &conv_grad_operations);
  const Tensor from = dense(dy);
  Tensor dx = empty_in(geo.x_shape(), dy.dtype(), from);
  kernel(dy.device(), dy.dtype(), from, dense(weight), dx, geo);
  return autograd::with_grad(
      "conv2d_grad_x", dx, {dy, weight},
      [dy = autograd::Saved(dy), w = autograd::Saved(weight), geo](autograd::GradCall& g) {
        g.set_if_needed(0, [&] { return convolve(g.dy(), g[w], {}, geo); });
        g.set_if_needed(1, [&] { return weight_gradient(g.dy(), g[dy], geo, g[w]); });
      });
}

}  // namespace brim::ops
