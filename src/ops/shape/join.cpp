// cat and stack: several tensors along one axis
#include <algorithm>

#include <brim/ops/shape.h>

#include "autograd/node.h"
#include "ops/autocast.h"
#include "ops/checks.h"
#include "ops/memory/copy.h"
#include "ops/memory_format.h"

namespace brim {

Tensor cat(const std::vector<Tensor>& tensors, int axis) {
  BRIM_CHECK(!tensors.empty(), ValueError, "[cat] no tensors were given; pass at least one");
  const Tensor& first = tensors[0];
  ops::check_defined("cat", first);
  for (const Tensor& x : tensors)
    if (ops::autocast_mixes(first, x)) [[unlikely]] {
      const autograd::AutocastPause off;
      std::vector<Tensor> wide;
      for (const Tensor& t : tensors) wide.push_back(autograd::autocast_wide(t));
      return cat(wide, axis);
    }
  axis = normalize_axis(axis, first.rank(), "cat");
  Shape shape = first.shape();
  shape[axis] = 0;
  std::vector<int64_t> starts;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& x = tensors[i];
    ops::common_device("cat", first, x);
    ops::common_dtype("cat", first, x);
    bool fits = x.rank() == first.rank();
    for (int d = 0; d < first.rank() && fits; ++d)
      fits = d == axis || x.shape()[d] == first.shape()[d];
    BRIM_CHECK(fits, ShapeError,
               "[cat] tensor {} has shape {}, the first {}; only axis {} may differ", i,
               x.shape().str(), first.shape().str(), axis);
    starts.push_back(shape[axis]);
    shape[axis] += x.shape()[axis];
  }
  starts.push_back(shape[axis]);
  const bool nhwc = std::ranges::all_of(tensors, ops::is_nhwc);
  Tensor y = nhwc ? ops::empty_in(shape, first.dtype(), first)
                  : Tensor::empty(shape, first.dtype(), first.device());
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].numel() == 0) continue;
    Tensor part = y.slice(axis, starts[i], starts[i + 1]);
    ops::copy_elements(tensors[i], part);
  }
  return autograd::with_grad(
      "cat", y, tensors,
      autograd::SavesNothing{[axis, starts = std::move(starts)](autograd::GradCall& g) {
        for (size_t i = 0; i + 1 < starts.size(); ++i)
          g.set_if_needed(i, [&] { return g.dy().slice(axis, starts[i], starts[i + 1]); });
      }});
}

Tensor stack(const std::vector<Tensor>& tensors, int axis) {
  BRIM_CHECK(!tensors.empty(), ValueError, "[stack] no tensors were given; pass at least one");
  ops::check_defined("stack", tensors[0]);
  axis = normalize_axis(axis, tensors[0].rank() + 1, "stack");
  std::vector<Tensor> parts;
  parts.reserve(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    ops::check_defined("stack", tensors[i]);
    BRIM_CHECK(tensors[i].shape() == tensors[0].shape(), ShapeError,
               "[stack] tensor {} has shape {}, the first {}; all must be equal", i,
               tensors[i].shape().str(), tensors[0].shape().str());
    parts.push_back(tensors[i].unsqueeze(axis));
  }
  return cat(parts, axis);
}

}  // namespace brim
