// conv2d, and the two products its gradient is made of. Each of the three is linear in both of its
// arguments, so the gradients of all three are again among the three.
#include <brim/ops/conv.h>
#include <brim/ops/reduce.h>

#include <algorithm>

#include "autograd/node.h"
#include "backend/kernel.h"
#include "backend/options/geometry.h"
#include "ops/autocast.h"
#include "ops/checks.h"
#include "ops/memory_format.h"

namespace brim {
namespace {

using backend::ConvGeometry;
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

using ops::arranged, ops::dense, ops::empty_in;

Tensor forward(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvGeometry& g);
Tensor grad_x(const Tensor& dy, const Tensor& weight, const ConvGeometry& g);
/// In the memory format of `weight`.
Tensor grad_weight(const Tensor& x, const Tensor& dy, const ConvGeometry& g, const Tensor& weight);

Tensor forward(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvGeometry& geo) {
  static const ConvKernel kernel(
      "conv2d", {.operands = "x, weight, bias, y", .activations = "x, y"}, &conv_operations);
  const Tensor from = dense(x);
  Tensor y = empty_in(geo.y_shape(), x.dtype(), from);
  kernel(x.device(), x.dtype(), from, dense(weight), bias, y, geo);
  return autograd::with_grad(
      "conv2d", y, {x, weight, bias},
      [x = autograd::Saved(x), w = autograd::Saved(weight), geo](autograd::GradCall& g) {
        g.set_if_needed(0, [&] { return grad_x(g.dy(), g[w], geo); });
        g.set_if_needed(1, [&] { return grad_weight(g[x], g.dy(), geo, g[w]); });
        g.set_if_needed(2, [&] { return sum(g.dy(), {0, 2, 3}); });
      });
}

Tensor grad_x(const Tensor& dy, const Tensor& weight, const ConvGeometry& geo) {
  static const ConvGradKernel kernel("conv2d_grad_x",
                                     {.operands = "dy, weight, dx", .activations = "dy, dx"},
                                     &conv_grad_operations);
  const Tensor from = dense(dy);
  Tensor dx = empty_in(geo.x_shape(), dy.dtype(), from);
  kernel(dy.device(), dy.dtype(), from, dense(weight), dx, geo);
  return autograd::with_grad(
      "conv2d_grad_x", dx, {dy, weight},
      [dy = autograd::Saved(dy), w = autograd::Saved(weight), geo](autograd::GradCall& g) {
        g.set_if_needed(0, [&] { return forward(g.dy(), g[w], {}, geo); });
        g.set_if_needed(1, [&] { return grad_weight(g.dy(), g[dy], geo, g[w]); });
      });
}

Tensor grad_weight(const Tensor& x, const Tensor& dy, const ConvGeometry& geo,
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
        g.set_if_needed(0, [&] { return grad_x(g[dy], g.dy(), geo); });
        g.set_if_needed(1, [&] { return forward(g[x], g.dy(), {}, geo); });
      });
}

/// Output size of one axis; throws when the window does not fit.
int64_t output_size(const char* axis, int64_t in, int64_t kernel, int64_t stride, int64_t padding,
                    int64_t dilation, const Tensor& x, const Tensor& weight) {
  BRIM_CHECK(stride >= 1 && dilation >= 1 && padding >= 0, ValueError,
             "[conv2d] {}: stride {} and dilation {} must be 1 or more, padding {} 0 or more", axis,
             stride, dilation, padding);
  const int64_t reach = dilation * (kernel - 1) + 1;
  BRIM_CHECK(kernel >= 1 && in + 2 * padding >= reach, ShapeError,
             "[conv2d] x {} with weight {}: the kernel spans {} elements in {}, but x has {} with "
             "its padding; use a smaller kernel or more padding",
             x.shape().str(), weight.shape().str(), reach, axis, in + 2 * padding);
  return (in + 2 * padding - reach) / stride + 1;
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Conv2dOptions& options) {
  if (ops::autocasting()) [[unlikely]]
    return ops::run_low([&](const auto&... t) { return conv2d(t..., options); }, x, weight, bias);
  ops::common_device("conv2d", x, weight);
  ops::common_dtype("conv2d", x, weight);
  ops::check_rank("conv2d", x, 4, "x (N, C, H, W)");
  ops::check_rank("conv2d", weight, 4, "weight (O, C / groups, KH, KW)");
  const Shape& s = x.shape();
  const Shape& k = weight.shape();
  const int64_t groups = options.groups;
  BRIM_CHECK(groups >= 1 && s[1] % groups == 0 && k[0] % groups == 0, ShapeError,
             "[conv2d] {} groups do not divide the {} channels of x {} and the {} of weight {}",
             groups, s[1], s.str(), k[0], k.str());
  BRIM_CHECK(s[1] == k[1] * groups, ShapeError,
             "[conv2d] x {} has {} channels, but weight {} with {} group(s) expects {}", s.str(),
             s[1], k.str(), groups, k[1] * groups);
  if (bias.defined()) {
    ops::common_device("conv2d", x, bias);
    ops::common_dtype("conv2d", x, bias);
    BRIM_CHECK(bias.shape() == Shape{k[0]}, ShapeError,
               "[conv2d] bias {} with weight {}: expected ({})", bias.shape().str(), k.str(), k[0]);
  }
  const Pair st = options.stride, pad = options.padding, dil = options.dilation;
  return forward(x, weight, bias,
                 {.n = s[0],
                  .c = s[1],
                  .h = s[2],
                  .w = s[3],
                  .o = k[0],
                  .kh = k[2],
                  .kw = k[3],
                  .oh = output_size("height", s[2], k[2], st.h, pad.h, dil.h, x, weight),
                  .ow = output_size("width", s[3], k[3], st.w, pad.w, dil.w, x, weight),
                  .stride = st,
                  .padding = pad,
                  .dilation = dil,
                  .groups = groups});
}

}  // namespace brim
