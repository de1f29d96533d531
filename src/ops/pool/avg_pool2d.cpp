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

enum class Way : uint8_t { mean, spread };

/// Each way's gradient is the other way.
Tensor pool(const Pooling& pooling, Way way, const Tensor& x, const PoolGeometry& geo) {
  const bool is_mean = way == Way::mean;
  const Tensor from = ops::dense(x);
  const Shape shape =
      is_mean ? Shape{geo.n, geo.c, geo.oh, geo.ow} : Shape{geo.n, geo.c, geo.h, geo.w};
  Tensor to = ops::empty_in(shape, x.dtype(), from);
  (is_mean ? pooling.mean : pooling.spread)(x.device(), x.dtype(), from, to, geo);
  return autograd::with_grad(pooling.name, to, {x}, [pooling, is_mean, geo](autograd::GradCall& g) {
    g.set(0, pool(pooling, is_mean ? Way::spread : Way::mean, g.dy(), geo));
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
  return pool(pooling, Way::mean, x, geo);
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
  return pool(pooling, Way::mean, x,
              {.n = s[0], .c = s[1], .h = s[2], .w = s[3], .oh = output.h, .ow = output.w});
}

}  // namespace brim
