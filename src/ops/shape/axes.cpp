// permute, transpose, expand, squeeze, unsqueeze: views with axes moved, stretched, dropped, added
#include <algorithm>

#include "autograd/node.h"
#include "ops/checks.h"
#include "ops/elementwise.h"

namespace brim {

Tensor Tensor::permute(std::initializer_list<int> axes) const {
  return permute(std::span(axes.begin(), axes.size()));
}

Tensor Tensor::permute(std::span<const int> axes) const {
  ops::check_defined("permute", *this);
  BRIM_CHECK(static_cast<int>(axes.size()) == rank(), ShapeError,
             "[permute] {} axes for shape {}; name every axis once", axes.size(), shape().str());
  Shape to = shape();
  Strides strides = this->strides();
  std::vector<int> inverse(axes.size(), -1);
  for (int i = 0; i < rank(); ++i) {
    const int axis = normalize_axis(axes[static_cast<size_t>(i)], rank(), "permute");
    BRIM_CHECK(inverse[static_cast<size_t>(axis)] < 0, ShapeError,
               "[permute] axis {} is named twice", axis);
    inverse[static_cast<size_t>(axis)] = i;
    to[i] = shape()[axis];
    strides[i] = this->strides()[axis];
  }
  return autograd::with_grad(
      "permute", alias(to, strides, offset()), {*this},
      autograd::SavesNothing{[inverse = std::move(inverse)](autograd::GradCall& g) {
        g.set(0, g.dy().permute(inverse));
      }});
}

Tensor Tensor::transpose(int a, int b) const {
  ops::check_defined("transpose", *this);
  a = normalize_axis(a, rank(), "transpose");
  b = normalize_axis(b, rank(), "transpose");
  Shape to = shape();
  Strides strides = this->strides();
  std::swap(to[a], to[b]);
  std::swap(strides[a], strides[b]);
  return autograd::with_grad("transpose", alias(to, strides, offset()), {*this},
                             [a, b](autograd::GradCall& g) { g.set(0, g.dy().transpose(a, b)); });
}

Tensor Tensor::expand(const Shape& wanted) const {
  ops::check_defined("expand", *this);
  if (wanted == shape()) return *this;
  const int shift = wanted.rank() - rank();
  BRIM_CHECK(shift >= 0, ShapeError, "[expand] shape {} cannot expand to the smaller rank of {}",
             shape().str(), wanted.str());
  Shape to = wanted;
  Strides strides = Shape::filled(wanted.rank(), 0);
  int64_t count = 1;  // of elements: no memory limits it
  for (int i = 0; i < to.rank(); ++i) {
    const bool is_new = i < shift;
    if (!is_new && to[i] == -1) to[i] = shape()[i - shift];
    BRIM_CHECK(to[i] >= 0 && (is_new || to[i] == shape()[i - shift] || shape()[i - shift] == 1),
               ShapeError, "[expand] shape {} cannot expand to {}: axis {} has size {}, not 1",
               shape().str(), wanted.str(), i, is_new ? 0 : shape()[i - shift]);
    BRIM_CHECK(!__builtin_mul_overflow(count, to[i], &count), ShapeError,
               "[expand] shape {} has more elements than 64 bits can count", wanted.str());
    if (!is_new && shape()[i - shift] != 1)
      strides[i] = this->strides()[i - shift];
    else if (!is_new && to[i] == 1)
      strides[i] = this->strides()[i - shift];
  }
  return autograd::with_grad(
      "expand", alias(to, strides, offset()), {*this},
      [from = shape()](autograd::GradCall& g) { g.set(0, ops::sum_to(g.dy(), from)); });
}

Tensor Tensor::squeeze(int axis) const {
  ops::check_defined("squeeze", *this);
  axis = normalize_axis(axis, rank(), "squeeze");
  if (shape()[axis] != 1) return *this;
  Shape to = shape();
  Strides strides = this->strides();
  to.erase(axis);
  strides.erase(axis);
  return autograd::with_grad("squeeze", alias(to, strides, offset()), {*this},
                             [axis](autograd::GradCall& g) { g.set(0, g.dy().unsqueeze(axis)); });
}

Tensor Tensor::squeeze() const {
  ops::check_defined("squeeze", *this);
  Tensor y = *this;
  for (int i = rank() - 1; i >= 0; --i) y = y.squeeze(i);
  return y;
}

Tensor Tensor::unsqueeze(int axis) const {
  ops::check_defined("unsqueeze", *this);
  axis = normalize_axis(axis, rank() + 1, "unsqueeze");
  Shape to = shape();
  Strides strides = this->strides();
  const int64_t step = axis < rank() ? shape()[axis] * this->strides()[axis] : 1;
  to.insert(axis, 1);
  strides.insert(axis, step);
  return autograd::with_grad("unsqueeze", alias(to, strides, offset()), {*this},
                             [axis](autograd::GradCall& g) { g.set(0, g.dy().squeeze(axis)); });
}

}  // namespace brim
