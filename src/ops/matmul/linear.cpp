// linear: y = x W^T + b
#include <brim/ops/matmul.h>
#include <brim/ops/reduce.h>

#include "autograd/node.h"
#include "ops/autocast.h"
#include "ops/checks.h"

#include "backend/kernel.h"

namespace brim {

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (ops::autocasting()) [[unlikely]]
    return ops::run_low([](const auto&... t) { return linear(t...); }, x, weight, bias);
  static const backend::Kernel<void(const Context&, const Tensor& x, const Tensor& weight,
                                    const Tensor& bias, Tensor& y)>
      kernel("linear");
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
        g.set_if_needed(0, [&] { return matmul(dy, g[w]); });
        g.set_if_needed(1, [&] { return matmul(tall.t(), g[x].reshape({rows, in})); });
        g.set_if_needed(2, [&] { return sum(tall, {0}); });
      });
}

}  // namespace brim
