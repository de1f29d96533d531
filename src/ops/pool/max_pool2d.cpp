// max_pool2d: the largest element of each window, with its place, which is all the gradient needs.
// scatter (dy to the places) and gather (from the places) are each other's gradients.
#include <brim/ops/pool.h>

#include "autograd/node.h"
#include "backend/kernel.h"
#include "ops/checks.h"
#include "ops/memory_format.h"
#include "ops/pool/geometry.h"

namespace brim {
namespace {

using backend::PoolGeometry;

/// `places`: (N, C, OH, OW) i32, index into the H x W plane.
using PlaceKernel = backend::Kernel<void(const Context&, const Tensor& from, const Tensor& places,
                                         Tensor& to, const PoolGeometry&)>;

Tensor gather(const Tensor& x, const Tensor& places, const PoolGeometry& geo);

Tensor scatter(const Tensor& dy, const Tensor& places, const PoolGeometry& geo) {
  static const PlaceKernel kernel(
      "max_pool2d_scatter", {.operands = "dy, indices, dx", .activations = "dy, indices, dx"});
  Tensor dx = ops::empty_in({geo.n, geo.c, geo.h, geo.w}, dy.dtype(), places);
  kernel(dy.device(), dy.dtype(), ops::arranged(dy, places), places, dx, geo);
  return autograd::with_grad("max_pool2d_scatter", dx, {dy}, [places, geo](autograd::GradCall& g) {
    g.set(0, gather(g.dy(), places, geo));
  });
}

Tensor gather(const Tensor& x, const Tensor& places, const PoolGeometry& geo) {
  static const PlaceKernel kernel("max_pool2d_gather",
                                  {.operands = "x, indices, y", .activations = "x, indices, y"});
  Tensor y = ops::empty_in({geo.n, geo.c, geo.oh, geo.ow}, x.dtype(), places);
  kernel(x.device(), x.dtype(), ops::arranged(x, places), places, y, geo);
  return autograd::with_grad("max_pool2d_gather", y, {x}, [places, geo](autograd::GradCall& g) {
    g.set(0, scatter(g.dy(), places, geo));
  });
}

}  // namespace

Tensor max_pool2d(const Tensor& x, Pair kernel, const MaxPool2dOptions& options) {
  static const backend::Kernel<void(const Context&, const Tensor& x, Tensor& y, Tensor& places,
                                    const PoolGeometry&)>
      max_kernel("max_pool2d", {.operands = "x, y, indices", .activations = "x, y, indices"});
  const PoolGeometry geo = ops::pool_geometry("max_pool2d", x, kernel,
                                              options.stride == Pair(0) ? kernel : options.stride,
                                              options.padding, options.dilation, options.ceil_mode);
  BRIM_CHECK(geo.h * geo.w <= INT32_MAX, ShapeError, "[max_pool2d] x {}: a plane is limited to {}",
             x.shape().str(), INT32_MAX);
  const Tensor from = ops::dense(x);
  Tensor y = ops::empty_in({geo.n, geo.c, geo.oh, geo.ow}, x.dtype(), from);
  Tensor places = ops::empty_in(y.shape(), DType::i32, from);
  max_kernel(x.device(), x.dtype(), from, y, places, geo);
  return autograd::with_grad("max_pool2d", y, {x}, [places, geo](autograd::GradCall& g) {
    g.set(0, scatter(g.dy(), places, geo));
  });
}

}  // namespace brim
