// split, chunk, unbind, narrow: parts of an axis, as views
#include <algorithm>

#include <brim/ops/create.h>
#include <brim/ops/shape.h>

#include "autograd/node.h"
#include "ops/checks.h"
#include "ops/memory/copy.h"

namespace brim {
namespace {

/// Views of x with one history: its gradient is join(the gradients of all), written once. Were each
/// a slice of its own, every one would give zeros as large as x, to be added up. Where some parts
/// have no gradient, the others are written into zeros, at part(dx, i).
template <class Join, class Part>
std::vector<Tensor> with_parts(const char* name, const Tensor& x, std::vector<Tensor> parts,
                               Join join, Part part) {
  const auto count = static_cast<uint32_t>(parts.size());
  return autograd::with_grad(
      name, std::move(parts), x,
      autograd::SavesNothing{[join, part, count, shape = x.shape(), dtype = x.dtype(),
                              device = x.device()](autograd::GradCall& g) {
        bool all = true;
        for (uint32_t i = 0; i < count; ++i) all &= g.has_dy(i);
        if (!all && !grad_enabled()) {
          Tensor dx = zeros(shape, {.dtype = dtype, .device = device});
          for (uint32_t i = 0; i < count; ++i) {
            if (!g.has_dy(i)) continue;
            Tensor to = part(dx, i);
            ops::copy_elements(g.dy(i), to);
          }
          return g.set(0, std::move(dx));
        }
        std::vector<Tensor> gradients;
        for (uint32_t i = 0; i < count; ++i) gradients.push_back(g.dy(i));
        g.set(0, join(gradients));
      }});
}

}  // namespace

Tensor narrow(const Tensor& x, int axis, int64_t start, int64_t length) {
  ops::check_defined("narrow", x);
  axis = normalize_axis(axis, x.rank(), "narrow");
  const int64_t size = x.shape()[axis];
  const int64_t from = start < 0 ? start + size : start;
  BRIM_CHECK(from >= 0 && length >= 0 && from <= size && length <= size - from, IndexError,
             "[narrow] {} elements from {} on are not all in axis {} of shape {}", length, start,
             axis, x.shape().str());
  return x.slice(axis, from, from + length);
}

std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int axis) {
  ops::check_defined("split", x);
  axis = normalize_axis(axis, x.rank(), "split");
  const int64_t size = x.shape()[axis];
  int64_t left = size;
  for (int64_t s : sizes) {
    BRIM_CHECK(s >= 0 && s <= left, ShapeError,
               "[split] the sizes do not add up to axis {} of shape {}: {} asked, {} left", axis,
               x.shape().str(), s, left);
    left -= s;
  }
  BRIM_CHECK(left == 0, ShapeError, "[split] the sizes leave {} of axis {} of shape {} over", left,
             axis, x.shape().str());
  std::vector<Tensor> parts;
  int64_t start = 0;
  for (int64_t s : sizes) {
    Shape shape = x.shape();
    shape[axis] = s;
    parts.push_back(
        x.alias(shape, x.strides(), x.offset() + (s > 0 ? start * x.strides()[axis] : 0)));
    start += s;
  }
  return with_parts(
      "split", x, std::move(parts), [axis](const std::vector<Tensor>& dy) { return cat(dy, axis); },
      [axis, sizes](const Tensor& dx, uint32_t i) {
        int64_t from = 0;
        for (uint32_t k = 0; k < i; ++k) from += sizes[k];
        return dx.slice(axis, from, from + sizes[i]);
      });
}

std::vector<Tensor> split(const Tensor& x, int64_t size, int axis) {
  ops::check_defined("split", x);
  axis = normalize_axis(axis, x.rank(), "split");
  const int64_t total = x.shape()[axis];
  BRIM_CHECK(size > 0 || (size == 0 && total == 0), ValueError,
             "[split] pieces of {} elements; use 1 or more", size);
  std::vector<int64_t> sizes;
  for (int64_t left = total; left > 0; left -= sizes.back()) sizes.push_back(std::min(size, left));
  if (sizes.empty()) sizes.push_back(0);
  return split(x, sizes, axis);
}

std::vector<Tensor> chunk(const Tensor& x, int64_t chunks, int axis) {
  ops::check_defined("chunk", x);
  BRIM_CHECK(chunks >= 1, ValueError, "[chunk] {} chunks; use 1 or more", chunks);
  const int64_t size = x.shape()[normalize_axis(axis, x.rank(), "chunk")];
  if (size == 0) return std::vector<Tensor>(static_cast<size_t>(chunks), x);
  return split(x, (size - 1) / chunks + 1, axis);
}

std::vector<Tensor> unbind(const Tensor& x, int axis) {
  ops::check_defined("unbind", x);
  axis = normalize_axis(axis, x.rank(), "unbind");
  Shape shape = x.shape();
  Strides strides = x.strides();
  shape.erase(axis);
  strides.erase(axis);
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < x.shape()[axis]; ++i)
    parts.push_back(x.alias(shape, strides, x.offset() + i * x.strides()[axis]));
  return with_parts(
      "unbind", x, std::move(parts),
      [axis](const std::vector<Tensor>& dy) { return stack(dy, axis); },
      [axis](const Tensor& dx, uint32_t i) { return dx.select(axis, i); });
}

}  // namespace brim
