// Shape arithmetic: strides, broadcasting, axes.
#include <brim/core/shape.h>

#include <algorithm>

#include "core/check.h"

namespace brim {

Shape::Shape(std::span<const int64_t> dims) {
  BRIM_CHECK(dims.size() <= kMaxRank, ShapeError, "[shape] rank {} is above the limit of {}",
             dims.size(), kMaxRank);
  rank_ = static_cast<int>(dims.size());
  std::copy(dims.begin(), dims.end(), dims_.begin());
}

Shape Shape::filled(int rank, int64_t value) {
  Shape s;
  for (int i = 0; i < rank; ++i) s.push_back(value);
  return s;
}

void Shape::push_back(int64_t dim) { insert(rank_, dim); }

void Shape::insert(int at, int64_t dim) {
  BRIM_CHECK(rank_ < kMaxRank, ShapeError, "[shape] rank {} is above the limit of {}", rank_ + 1,
             kMaxRank);
  for (int i = rank_; i > at; --i) dims_[i] = dims_[i - 1];
  dims_[at] = dim;
  ++rank_;
}

void Shape::erase(int at) {
  for (int i = at; i + 1 < rank_; ++i) dims_[i] = dims_[i + 1];
  dims_[--rank_] = 0;
}

std::string Shape::str() const {
  std::string s = "(";
  for (int i = 0; i < rank_; ++i) {
    if (i) s += ", ";
    s += std::to_string(dims_[i]);
  }
  return s + ")";
}

Strides contiguous_strides(const Shape& shape) {
  Strides strides = shape;
  int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[i] = step;
    step *= std::max<int64_t>(shape[i], 1);
  }
  return strides;
}

Shape broadcast_shapes(const Shape& a, const Shape& b, const char* op) {
  if (a == b) return a;
  Shape out = a.rank() >= b.rank() ? a : b;
  const Shape& small = a.rank() >= b.rank() ? b : a;
  const int shift = out.rank() - small.rank();
  for (int i = 0; i < small.rank(); ++i) {
    int64_t& d = out[i + shift];
    if (d == small[i] || small[i] == 1) continue;
    BRIM_CHECK(d == 1, ShapeError,
               "[{}] shapes {} and {} do not broadcast: sizes {} and {} differ in axis {}", op,
               a.str(), b.str(), a.rank() >= b.rank() ? d : small[i],
               a.rank() >= b.rank() ? small[i] : d, i + shift);
    d = small[i];
  }
  return out;
}

int normalize_axis(int axis, int rank, const char* op) {
  BRIM_CHECK(axis >= -rank && axis < rank, IndexError, "[{}] axis {} is out of range for rank {}",
             op, axis, rank);
  return axis < 0 ? axis + rank : axis;
}

}  // namespace brim
