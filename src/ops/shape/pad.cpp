// pad: a border of numbers, or of copies of the inside. The gradient of a constant border is the
// inside, which is a pad with negative sizes.
#include <algorithm>

#include <brim/ops/create.h>
#include <brim/ops/shape.h>

#include "autograd/node.h"
#include "ops/checks.h"
#include "ops/memory/copy.h"

namespace brim {
namespace {

Tensor pad_constant(const Tensor& x, const std::vector<int64_t>& pads, double value) {
  Shape shape = x.shape();
  for (size_t i = 0; i < pads.size(); ++i) shape[x.rank() - 1 - static_cast<int>(i / 2)] += pads[i];
  Tensor y = full(shape, value, {.dtype = x.dtype(), .device = x.device()});
  Tensor from = x.detach(), to = y;
  for (int i = 0; i < static_cast<int>(pads.size()) / 2; ++i) {
    const int axis = x.rank() - 1 - i;
    const int64_t before = pads[2 * static_cast<size_t>(i)];
    const int64_t after = pads[2 * static_cast<size_t>(i) + 1];
    const int64_t size = x.shape()[axis];
    // The part of x that is kept may be empty where a negative pad takes all of it.
    const int64_t first = std::max<int64_t>(0, -before);
    const int64_t last = std::max(first, size - std::max<int64_t>(0, -after));
    from = from.slice(axis, std::min(first, size), last);
    to = to.slice(axis, std::max<int64_t>(0, before), std::max<int64_t>(0, before) + last - first);
  }
  if (from.numel() > 0 && to.shape() == from.shape()) ops::copy_elements(from, to);
  return autograd::with_grad("pad", y, {x}, autograd::SavesNothing{[pads](autograd::GradCall& g) {
                               std::vector<int64_t> inverse = pads;
                               for (int64_t& p : inverse) p = -p;
                               g.set(0, pad_constant(g.dy(), inverse, 0));
                             }});
}

/// One axis of the other modes: the inside between copies of its parts.
Tensor pad_axis(const Tensor& x, int axis, int64_t before, int64_t after, PadMode mode) {
  const int64_t size = x.shape()[axis];
  const int64_t most = mode == PadMode::reflect ? size - 1 : size;
  const bool enough =
      mode == PadMode::replicate ? size > 0 : std::max(before, after) <= std::max<int64_t>(0, most);
  BRIM_CHECK(enough, ShapeError,
             "[pad] axis {} of shape {} is too small for a {} border of {} and {}; use PadMode::"
             "constant",
             axis, x.shape().str(),
             mode == PadMode::reflect     ? "reflected"
             : mode == PadMode::replicate ? "replicated"
                                          : "circular",
             before, after);
  Shape left = x.shape(), right = x.shape();
  left[axis] = before;
  right[axis] = after;
  std::vector<Tensor> parts;
  if (mode == PadMode::reflect) {
    if (before) parts.push_back(flip(x.slice(axis, 1, 1 + before), {axis}));
    parts.push_back(x);
    if (after) parts.push_back(flip(x.slice(axis, size - 1 - after, size - 1), {axis}));
  } else if (mode == PadMode::replicate) {
    if (before) parts.push_back(x.slice(axis, 0, 1).expand(left));
    parts.push_back(x);
    if (after) parts.push_back(x.slice(axis, size - 1, size).expand(right));
  } else {
    if (before) parts.push_back(x.slice(axis, size - before, size));
    parts.push_back(x);
    if (after) parts.push_back(x.slice(axis, 0, after));
  }
  return cat(parts, axis);
}

}  // namespace

Tensor pad(const Tensor& x, const std::vector<int64_t>& pads, PadMode mode, double value) {
  ops::check_defined("pad", x);
  BRIM_CHECK(pads.size() % 2 == 0 && static_cast<int>(pads.size()) <= 2 * x.rank(), ShapeError,
             "[pad] {} pads for shape {}; give two for each padded axis, the last axis first",
             pads.size(), x.shape().str());
  const int count = static_cast<int>(pads.size()) / 2;
  for (int i = 0; i < count; ++i) {
    const int64_t size = x.shape()[x.rank() - 1 - i], limit = int64_t{1} << 56;
    const int64_t before = pads[2 * static_cast<size_t>(i)];
    const int64_t after = pads[2 * static_cast<size_t>(i) + 1];
    BRIM_CHECK(std::max(before, after) < limit && std::min(before, after) > -limit &&
                   size + before + after >= 0,
               ShapeError, "[pad] pads {} and {} of axis {} leave no valid size, shape {}", before,
               after, x.rank() - 1 - i, x.shape().str());
  }
  if (mode == PadMode::constant) return pad_constant(x, pads, value);
  Tensor y = x;
  for (int i = 0; i < count; ++i) {
    const int axis = x.rank() - 1 - i;
    const int64_t before = pads[2 * static_cast<size_t>(i)];
    const int64_t after = pads[2 * static_cast<size_t>(i) + 1];
    if (before < 0 || after < 0)
      y = y.slice(axis, std::max<int64_t>(0, -before),
                  y.shape()[axis] - std::max<int64_t>(0, -after));
    if (before > 0 || after > 0)
      y = pad_axis(y, axis, std::max<int64_t>(0, before), std::max<int64_t>(0, after), mode);
  }
  return y.storage() == x.storage() ? y.clone() : y;
}

}  // namespace brim
