// repeat and repeat_interleave: made of reshape and expand, so their gradients are sums
#include <algorithm>

#include <brim/ops/index.h>
#include <brim/ops/shape.h>

#include "core/recording.h"
#include "ops/checks.h"

namespace brim {
namespace {

/// A copy of `y` if it is only a view of `x`: these ops promise new memory.
Tensor own(const Tensor& y, const Tensor& x) { return y.storage() == x.storage() ? y.clone() : y; }

/// Sees x as (blocks, block) and repeats each block; `to` is the resulting shape.
Tensor repeat_blocks(const Tensor& x, int first_axis_of_block, int64_t times, const Shape& to) {
  int64_t blocks = 1, block = 1;
  for (int i = 0; i < x.rank(); ++i) (i < first_axis_of_block ? blocks : block) *= x.shape()[i];
  return x.reshape({blocks, 1, block}).expand({blocks, times, block}).reshape(to);
}

}  // namespace

Tensor repeat(const Tensor& x, const Shape& repeats) {
  ops::check_defined("repeat", x);
  BRIM_CHECK(repeats.rank() >= x.rank(), ShapeError,
             "[repeat] {} repeats for shape {}; name one for every axis", repeats.rank(),
             x.shape().str());
  Shape to = x.shape();
  while (to.rank() < repeats.rank()) to.insert(0, 1);
  Tensor y = x.reshape(to);
  for (int axis = 0; axis < to.rank(); ++axis) {
    BRIM_CHECK(repeats[axis] >= 0, ValueError, "[repeat] {} repeats of axis {}; use 0 or more",
               repeats[axis], axis);
    if (repeats[axis] == 1) continue;
    BRIM_CHECK(!__builtin_mul_overflow(to[axis], repeats[axis], &to[axis]), ShapeError,
               "[repeat] shape {} times {} is more than memory can hold", x.shape().str(),
               repeats.str());
    y = repeat_blocks(y, axis, repeats[axis], to);
  }
  return own(y, x);
}

Tensor repeat_interleave(const Tensor& x, int64_t repeats, std::optional<int> axis) {
  ops::check_defined("repeat_interleave", x);
  BRIM_CHECK(repeats >= 0, ValueError, "[repeat_interleave] {} repeats; use 0 or more", repeats);
  if (!axis) return repeat_interleave(x.reshape({x.numel()}), repeats, 0);
  const int at = normalize_axis(*axis, x.rank(), "repeat_interleave");
  Shape to = x.shape();
  BRIM_CHECK(!__builtin_mul_overflow(to[at], repeats, &to[at]), ShapeError,
             "[repeat_interleave] {} repeats of shape {} are more than memory can hold", repeats,
             x.shape().str());
  return own(repeat_blocks(x, at + 1, repeats, to), x);
}

Tensor repeat_interleave(const Tensor& x, const std::vector<int64_t>& repeats,
                         std::optional<int> axis) {
  ops::check_defined("repeat_interleave", x);
  refuse_in_recording("repeat_interleave",
                      "a plan would never copy the repeats again; make an index of them before the "
                      "step, and use index_select");
  if (!axis) return repeat_interleave(x.reshape({x.numel()}), repeats, 0);
  const int at = normalize_axis(*axis, x.rank(), "repeat_interleave");
  BRIM_CHECK(static_cast<int64_t>(repeats.size()) == x.shape()[at], ShapeError,
             "[repeat_interleave] {} repeats for axis {} of shape {}; give one for each element",
             repeats.size(), at, x.shape().str());
  int64_t count = 0;
  for (size_t i = 0; i < repeats.size(); ++i) {
    BRIM_CHECK(repeats[i] >= 0, ValueError,
               "[repeat_interleave] {} repeats of element {}; use 0 or more", repeats[i], i);
    BRIM_CHECK(!__builtin_add_overflow(count, repeats[i], &count), ShapeError,
               "[repeat_interleave] the repeats of shape {} are more than memory can hold",
               x.shape().str());
  }
  const Tensor index = Tensor::empty({count}, i64, Device::cpu());
  int64_t* to = index.data<int64_t>();
  for (size_t i = 0; i < repeats.size(); ++i)
    to = std::fill_n(to, repeats[i], static_cast<int64_t>(i));
  return index_select(x, at, index.to(x.device()));
}

Tensor repeat_interleave(const Tensor& x, const Tensor& repeats, std::optional<int> axis) {
  ops::common_device("repeat_interleave", x, repeats);
  ops::check_rank("repeat_interleave", repeats, 1, "repeats (n)");
  BRIM_CHECK(is_integral(repeats.dtype()), DTypeError,
             "[repeat_interleave] repeats are {}; use i64", name(repeats.dtype()));
  ops::refuse_shape_of_values("repeat_interleave");
  return repeat_interleave(x, repeats.to(i64).to_vector<int64_t>(), axis);
}

}  // namespace brim
