// index_select and index_add, each the gradient of the other
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/index.h>

#include "autograd/node.h"
#include "ops/checks.h"
#include "ops/index/index.h"
#include "ops/memory/copy.h"

namespace brim {
namespace {

Tensor index_vector(const char* op, const Tensor& wide_index, const Tensor& x) {
  ops::check_defined(op, x);
  const Tensor index = ops::as_index(op, wide_index, x);
  BRIM_CHECK(index.rank() <= 1, ShapeError, "[{}] expects an index (K), got shape {}; use gather",
             op, index.shape().str());
  return index.rank() == 0 ? index.view({1}) : index;
}

}  // namespace

Tensor index_select(const Tensor& x, int axis, const Tensor& wide_index) {
  static const ops::GatherKernel kernel("gather", {.operands = "x, index, y"});
  const Tensor index = index_vector("index_select", wide_index, x);
  if (x.rank() == 0) {
    BRIM_CHECK(index.numel() == 1, ShapeError,
               "[index_select] {} indices into a single number; give one", index.numel());
    return index_select(x.reshape({1}), axis, index).reshape({});
  }
  axis = normalize_axis(axis, x.rank(), "index_select");
  Shape shape = x.shape();
  shape[axis] = index.numel();
  Tensor y = Tensor::empty(shape, x.dtype(), x.device());
  kernel(x.device(), x.dtype(), x, ops::along_axis(index, shape, axis), y, {axis, "index_select"});
  return autograd::with_grad(
      "index_select", y, {x},
      [from = x.shape(), axis, index = autograd::Saved(index)](autograd::GradCall& g) {
        const Tensor& dy = g.dy();
        const Tensor zero = zeros(from, {.dtype = dy.dtype(), .device = dy.device()});
        g.set(0, index_add(zero, axis, g[index], dy));
      });
}

Tensor index_add(const Tensor& x, int axis, const Tensor& wide_index, const Tensor& source,
                 double alpha) {
  static const ops::ScatterKernel kernel("scatter_add", {.operands = "index, source, rw y"});
  const Tensor index = index_vector("index_add", wide_index, x);
  ops::common_device("index_add", x, source);
  ops::common_dtype("index_add", x, source);
  axis = normalize_axis(axis, x.rank(), "index_add");
  Shape want = x.shape();
  want[axis] = index.numel();
  BRIM_CHECK(source.shape() == want, ShapeError,
             "[index_add] source of shape {} for x of shape {} and {} indices along axis {}; it "
             "must be {}",
             source.shape().str(), x.shape().str(), index.numel(), axis, want.str());
  const Tensor added = alpha == 1 ? source : mul(source.detach(), alpha);
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  ops::copy_elements(x, y);
  kernel(x.device(), x.dtype(), ops::along_axis(index, want, axis), added, y, {axis, "index_add"});
  return autograd::with_grad("index_add", y, {x, source},
                             [axis, alpha, index = autograd::Saved(index)](autograd::GradCall& g) {
                               g.set_if_needed(0, [&] { return g.dy(); });
                               g.set_if_needed(1, [&] {
                                 const Tensor d = index_select(g.dy(), axis, g[index]);
                                 return alpha == 1 ? d : mul(d, alpha);
                               });
                             });
}

}  // namespace brim
