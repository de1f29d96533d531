// avg_pool2d and adaptive_avg_pool2d: the mean of each window. Both are linear: the gradient
// spreads dy over the windows, and the gradient of that is the pooling itself.
#include <brim/ops/pool.h>

#include "autograd/node.h"
#include "backend/kernel.h"
#include "ops/checks.h"
#include "ops/memory_format.h"
#include "ops/pool/geometry.h"

namespace brim {
namespace {

using backend::PoolGeometry;
using PoolKernel =
    backend::Kernel<void(const Context&, const Tensor& from, Tensor& to, const PoolGeometry&)>;

/// A pooling and its transpose, by the names of their kernels.
struct Pooling {
  const PoolKernel& mean;
  const PoolKernel& spread;
  const char* name;
};

Tensor spread(const Pooling& pooling, const Tensor& dy, const PoolGeometry& geo);

Tensor mean(const Pooling& pooling, const Tensor& x, const PoolGeometry& geo) {
  const Tensor from = ops::dense(x);
  Tensor y = ops::empty_in({geo.n, geo.c, geo.oh, geo.ow}, x.dtype(), from);
  pooling.mean(x.device(), x.dtype(), from, y, geo);
  return autograd::with_grad(pooling.name, y, {x}, [pooling, geo](autograd::GradCall& g) {
    g.set(0, spread(pooling, g.dy(), geo));
  });
}

Tensor spread(const Pooling& pooling, const Tensor& dy, const PoolGeometry& geo) {
  const Tensor from = ops::dense(dy);
  Tensor dx = ops::empty_in({geo.n, geo.c, geo.h, geo.w}, dy.dtype(), from);
  pooling.spread(dy.device(), dy.dtype(), from, dx, geo);
  return autograd::with_grad(pooling.name, dx, {dy}, [pooling, geo](autograd::GradCall& g) {
    g.set(0, mean(pooling, g.dy(), geo));
  });
}

}  // namespace

Tensor avg_pool2d(const Tensor& x, Pair kernel, const AvgPool2dOptions& options) {
  static const PoolKernel forward("avg_pool2d", {.operands = "x, y", .activations = "x, y"}),
      backward("avg_pool2d_spread", {.operands = "dy, dx", .activations = "dy, dx"});
  static const Pooling pooling{forward, backward, "avg_pool2d"};
  PoolGeometry geo = ops::pool_geometry("avg_pool2d", x, kernel,
                                        options.stride == Pair(0) ? kernel : options.stride,
                                        options.padding, 1, options.ceil_mode);
  geo.count_include_pad = options.count_include_pad;
  return mean(pooling, x, geo);
}

Tensor adaptive_avg_pool2d(const Tensor& x, Pair output) {
  static const PoolKernel forward("adaptive_avg_pool2d",
                                  {.operands = "x, y", .activations = "x, y"}),
      backward("adaptive_avg_pool2d_spread", {.operands = "dy, dx", .activations = "dy, dx"});
  static const Pooling pooling{forward, backward, "adaptive_avg_pool2d"};
  ops::check_rank("adaptive_avg_pool2d", x, 4, "x (N, C, H, W)");
  ops::check_floating("adaptive_avg_pool2d", x);
  const Shape& s = x.shape();
  BRIM_CHECK(output.h >= 1 && output.w >= 1 && s[2] >= 1 && s[3] >= 1, ShapeError,
             "[adaptive_avg_pool2d] x {} to {} x {}: sizes must be 1 or more", s.str(), output.h,
             output.w);
  return mean(pooling, x,
              {.n = s[0], .c = s[1], .h = s[2], .w = s[3], .oh = output.h, .ow = output.w});
}

}  // namespace brim
