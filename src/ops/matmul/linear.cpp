// linear: y = x W^T + b
#include <utility>

#include <brim/ops/matmul.h>
#include <brim/ops/reduce.h>

#include "autograd/node.h"
#include "backend/fused/fused_linear.h"
#include "core/recording.h"
#include "ops/autocast.h"
#include "ops/checks.h"

namespace brim {
namespace {

const backend::LinearGradKernel& grad_kernel() {
  static const backend::LinearGradKernel kernel("linear_grad");
  return kernel;
}

/// Whether one launch makes the gradients: where it is fast, of the weight and something else, and
/// nobody wants to see the ops, as a second gradient and the passes of a plan do.
bool in_one_launch(const autograd::GradCall& g, const Tensor& dy, int64_t rows, int64_t in,
                   int64_t out) {
  return g.needs(1) && (g.needs(0) || g.needs(2)) && !grad_enabled() &&
         !(recording && recording->for_passes) &&
         grad_kernel().is_fast(dy.device(), backend::LinearSize{rows, in, out}) &&
         grad_kernel().exists(dy.device(), dy.dtype());
}

/// x: (N, I), weight: (O, I), dy: (N, O).
void fused_gradient(autograd::GradCall& g, const Tensor& x, const Tensor& weight, const Tensor& dy,
                    const Shape& x_shape) {
  const Device device = dy.device();
  const DType dtype = dy.dtype();
  const int64_t in = x.shape()[1], out = dy.shape()[1];
  Tensor dw = Tensor::empty({out, in}, dtype, device), dx, flat, db;
  if (g.needs(0)) {
    dx = Tensor::empty(x_shape, dtype, device);
    flat = dx.alias(x.shape(), {in, 1}, 0);
  }
  if (g.needs(2)) db = Tensor::empty({out}, dtype, device);
  grad_kernel()(device, dtype, x, weight, dy, Tensor(), flat, dw, db);
  flat = {};  // dx is its memory's only owner, so that it may be summed in place
  g.set_if_needed(0, [&] { return std::move(dx); });
  g.set(1, std::move(dw));
  g.set_if_needed(2, [&] { return std::move(db); });
}

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (ops::autocasting()) [[unlikely]]
    return ops::run_low([](const auto&... t) { return linear(t...); }, x, weight, bias);
  static const backend::Kernel<void(const Context&, const Tensor& x, const Tensor& weight,
                                    const Tensor& bias, Tensor& y)>
      kernel("linear", {.operands = "x, weight, bias, y"}, &backend::linear_operations);
  const Device device = ops::common_device("linear", x, weight);
  const DType dtype = ops::common_dtype("linear", x, weight);
  ops::check_rank("linear", weight, 2, "weight (out, in)");
  const int64_t in = weight.shape()[1], out = weight.shape()[0];
  BRIM_CHECK(x.rank() >= 1 && x.size(-1) == in, ShapeError,
             "[linear] x {} with weight {}: the last axis of x must have {} elements",
             x.shape().str(), weight.shape().str(), in);
  if (bias.defined()) {
    ops::common_device("linear", x, bias);
    ops::common_dtype("linear", x, bias);
    BRIM_CHECK(bias.shape() == Shape{out}, ShapeError,
               "[linear] bias {} with weight {}: expected ({})", bias.shape().str(),
               weight.shape().str(), out);
  }
  int64_t rows = 1;
  for (int i = 0; i + 1 < x.rank(); ++i) rows *= x.shape()[i];
  const Tensor packed = x.rank() == 2 ? x.detach() : x.detach().reshape({rows, in});
  Shape shape = x.shape();
  shape[x.rank() - 1] = out;
  Tensor y = Tensor::empty(shape, dtype, device);
  Tensor flat = x.rank() == 2 ? y : y.alias({rows, out}, {out, 1}, 0);
  kernel(device, dtype, packed, weight, bias, flat);
  return autograd::with_grad(
      "linear", y, {x, weight, bias},
      [x = autograd::Saved(x), w = autograd::Saved(weight), in, out, rows](autograd::GradCall& g) {
        const Tensor& dy = g.dy();
        const Tensor tall = dy.rank() == 2 ? dy : dy.reshape({rows, out});
        if (in_one_launch(g, dy, rows, in, out))
          return fused_gradient(g, g[x].reshape({rows, in}), g.needs(0) ? g[w] : Tensor(), tall,
                                g[x].shape());
        g.set_if_needed(0, [&] { return matmul(dy, g[w]); });
        g.set_if_needed(1, [&] { return matmul(tall.t(), g[x].reshape({rows, in})); });
        g.set_if_needed(2, [&] { return sum(tall, {0}); });
      });
}

}  // namespace brim
