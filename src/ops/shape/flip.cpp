// flip and roll: other orders of the elements of an axis
#include <brim/ops/shape.h>

#include "autograd/node.h"
#include "ops/checks.h"
#include "ops/memory/copy.h"

namespace brim {
namespace {

Tensor roll_axis(const Tensor& x, int64_t shift, int axis) {
  const int64_t size = x.shape()[axis];
  if (size == 0 || (shift %= size) == 0) return x;
  if (shift < 0) shift += size;
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  const Tensor from = x.detach();
  Tensor head = y.slice(axis, 0, shift), tail = y.slice(axis, shift, size);
  ops::copy_elements(from.slice(axis, size - shift, size), head);
  ops::copy_elements(from.slice(axis, 0, size - shift), tail);
  return autograd::with_grad("roll", y, {x}, [shift, axis](autograd::GradCall& g) {
    g.set(0, roll_axis(g.dy(), -shift, axis));
  });
}

}  // namespace

Tensor flip(const Tensor& x, const std::vector<int>& axes) {
  ops::check_defined("flip", x);
  // Negative strides stay inside: the copy below reads through them.
  Strides strides = x.strides();
  int64_t offset = x.offset();
  std::array<bool, kMaxRank> done{};
  for (int axis : axes) {
    const int at = normalize_axis(axis, x.rank(), "flip");
    BRIM_CHECK(!done[static_cast<size_t>(at)], ValueError, "[flip] axis {} is named twice", at);
    done[static_cast<size_t>(at)] = true;
    offset += std::max<int64_t>(0, x.shape()[at] - 1) * strides[at];
    strides[at] = -strides[at];
  }
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  ops::copy_elements(x.alias(x.shape(), strides, offset), y);
  return autograd::with_grad("flip", y, {x}, autograd::SavesNothing{[axes](autograd::GradCall& g) {
                               g.set(0, flip(g.dy(), axes));
                             }});
}

Tensor roll(const Tensor& x, const std::vector<int64_t>& shifts, const std::vector<int>& axes) {
  ops::check_defined("roll", x);
  if (axes.empty()) {
    BRIM_CHECK(shifts.size() == 1, ValueError,
               "[roll] {} shifts without axes; give one shift, or an axis for each", shifts.size());
    const Tensor y = roll_axis(x.reshape({x.numel()}), shifts[0], 0).reshape(x.shape());
    return y.storage() == x.storage() ? x.clone() : y;
  }
  BRIM_CHECK(shifts.size() == axes.size(), ValueError,
             "[roll] {} shifts for {} axes; give one for each", shifts.size(), axes.size());
  Tensor y = x;
  for (size_t i = 0; i < axes.size(); ++i)
    y = roll_axis(y, shifts[i], normalize_axis(axes[i], x.rank(), "roll"));
  return y.is_same(x) ? x.clone() : y;
}

}  // namespace brim
