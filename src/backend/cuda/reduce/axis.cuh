// One axis of a row-major tensor.
#pragma once

#include <cstdint>

#include "backend/cuda/reduce/reduce.cuh"

namespace brim::cuda {

/// A row-major tensor as (outer, n, inner), n being the axis; a line is what lies along it.
struct AxisView {
  int64_t outer = 1, n, inner = 1;

  AxisView(const Tensor& x, int axis) : n(x.shape()[axis]) {
    for (int i = 0; i < axis; ++i) outer *= x.shape()[i];
    for (int i = axis + 1; i < x.rank(); ++i) inner *= x.shape()[i];
  }

  __host__ __device__ int64_t lines() const { return outer * inner; }
  /// Offset of a line's first element.
  __device__ int64_t first(int64_t line) const {
    return inner == 1 ? line * n : line / inner * n * inner + line % inner;
  }
  /// The number of the line that the element at `index` is on.
  __device__ int64_t line_of(int64_t index) const {
    return inner == 1 ? index / n : index / (n * inner) * inner + index % inner;
  }
  /// The axis reduced, to one result a line.
  ReduceShape reduction() const {
    return {Shape({outer, n, inner}), Strides({n * inner, inner, 1}), Strides({inner, 0, 1})};
  }
};

}  // namespace brim::cuda
