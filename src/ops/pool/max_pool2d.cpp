// max_pool2d: the largest element of each window, with its index, which is all the gradient needs.
// scatter (dy to the indices) and gather (from the indices) are each other's gradients.
#include <brim/ops/pool.h>

#include "autograd/node.h"
#include "backend/kernel.h"
#include "ops/checks.h"
#include "ops/memory_format.h"
#include "ops/pool/geometry.h"

namespace brim {
namespace {

using backend::PoolGeometry;

/// `indices`: (N, C, OH, OW), of elements in their windows, row by row
/// (backend/options/geometry.h).
using IndexedKernel = backend::Kernel<void(const Context&, const Tensor& from,
                                           const Tensor& indices, Tensor& to, const PoolGeometry&)>;

Tensor gather(const Tensor& x, const Tensor& indices, const PoolGeometry& geo);

Tensor scatter(const Tensor& dy, const Tensor& indices, const PoolGeometry& geo) {
  static const IndexedKernel kernel(
      "max_pool2d_scatter", {.operands = "dy, indices, dx", .activations = "dy, indices, dx"});
  Tensor dx = ops::empty_in({geo.n, geo.c, geo.h, geo.w}, dy.dtype(), indices);
  kernel(dy.device(), dy.dtype(), ops::arranged(dy, indices), indices, dx, geo);
  return autograd::with_grad("max_pool2d_scatter", dx, {dy}, [indices, geo](autograd::GradCall& g) {
    g.set(0, gather(g.dy(), indices, geo));
  });
}

Tensor gather(const Tensor& x, const Tensor& indices, const PoolGeometry& geo) {
  static const IndexedKernel kernel("max_pool2d_gather",
                                    {.operands = "x, indices, y", .activations = "x, indices, y"});
  Tensor y = ops::empty_in({geo.n, geo.c, geo.oh, geo.ow}, x.dtype(), indices);
  kernel(x.device(), x.dtype(), ops::arranged(x, indices), indices, y, geo);
  return autograd::with_grad("max_pool2d_gather", y, {x}, [indices, geo](autograd::GradCall& g) {
    g.set(0, scatter(g.dy(), indices, geo));
  });
}

}  // namespace

Tensor max_pool2d(const Tensor& x, Pair kernel, const MaxPool2dOptions& options) {
  static const backend::Kernel<void(const Context&, const Tensor& x, Tensor& y, Tensor& indices,
                                    const PoolGeometry&)>
      max_kernel("max_pool2d", {.operands = "x, y, indices", .activations = "x, y, indices"});
  const PoolGeometry geo = ops::pool_geometry("max_pool2d", x, kernel,
                                              options.stride == Pair(0) ? kernel : options.stride,
                                              options.padding, options.dilation, options.ceil_mode);
  const auto [kh, kw] = geo.kernel;
  BRIM_CHECK(kh <= INT32_MAX / kw, ShapeError, "[max_pool2d] a window of {} x {} is limited to {}",
             kh, kw, INT32_MAX);
  const Tensor from = ops::dense(x);
  Tensor y = ops::empty_in({geo.n, geo.c, geo.oh, geo.ow}, x.dtype(), from);
  const bool is_byte = kh * kw <= backend::kBytePoolWindow;
  Tensor indices = ops::empty_in(y.shape(), is_byte ? DType::u8 : DType::i32, from);
  max_kernel(x.device(), x.dtype(), from, y, indices, geo);
  return autograd::with_grad("max_pool2d", y, {x}, [indices, geo](autograd::GradCall& g) {
    g.set(0, scatter(g.dy(), indices, geo));
  });
}

}  // namespace brim
