// slice_scatter and select_scatter: x with part of an axis replaced
#include <brim/ops/create.h>
#include <brim/ops/shape.h>

#include "autograd/node.h"
#include "ops/checks.h"
#include "ops/memory/copy.h"

namespace brim {
namespace {

/// x with `source` written where `part` of its copy lies; its gradient is the same with zeros, and
/// the source's the part.
template <class Part>
Tensor with_part(const char* op, const Tensor& x, const Tensor& source, const Part& part) {
  ops::common_device(op, x, source);
  ops::common_dtype(op, x, source);
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  Tensor to = part(y);
  BRIM_CHECK(to.shape() == source.shape(), ShapeError,
             "[{}] source of shape {} for a part of shape {}; expand or reshape it", op,
             source.shape().str(), to.shape().str());
  ops::copy_elements(x, y);
  ops::copy_elements(source, to);
  return autograd::with_grad(
      op, y, {x, source}, [op, part, shape = source.shape()](autograd::GradCall& g) {
        g.set_if_needed(0, [&] {
          const Tensor& dy = g.dy();
          const Tensor none = zeros(shape, {.dtype = dy.dtype(), .device = dy.device()});
          return with_part(op, dy, none, part);
        });
        g.set_if_needed(1, [&] { return part(g.dy()); });
      });
}

}  // namespace

Tensor slice_scatter(const Tensor& x, const Tensor& source, int axis, int64_t start, int64_t stop,
                     int64_t step) {
  return with_part("slice_scatter", x, source,
                   [=](const Tensor& t) { return t.slice(axis, start, stop, step); });
}

Tensor select_scatter(const Tensor& x, const Tensor& source, int axis, int64_t index) {
  return with_part("select_scatter", x, source,
                   [=](const Tensor& t) { return t.select(axis, index); });
}

}  // namespace brim
