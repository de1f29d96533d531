// split, chunk, unbind, narrow: parts of an axis, as views
#include <algorithm>

#include <brim/ops/shape.h>

#include "ops/checks.h"

namespace brim {

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
    parts.push_back(x.slice(axis, start, start + s));
    start += s;
  }
  return parts;
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
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < x.shape()[axis]; ++i) parts.push_back(x.select(axis, i));
  return parts;
}

}  // namespace brim
