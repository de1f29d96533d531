// What reductions share: which axes go, the shapes with and without them, and the launch.
#pragma once

#include <array>
#include <vector>

#include <brim/core/tensor.h>

#include "backend/kernel.h"
#include "ops/checks.h"

namespace brim::ops {

struct ReduceKernel : backend::Kernel<void(const Context&, const Tensor& x, Tensor& y)> {
  explicit ReduceKernel(const char* name)
      : Kernel(name, {.operands = "x, y", .work = backend::Work::reduction}) {}
};

/// Axes resolved against a shape. No axes means all.
struct Reduction {
  Reduction(const char* op, const Tensor& x, const std::vector<int>& axes);

  Shape from;         // of the input
  Shape kept;         // reduced axes have size 1
  Shape dropped;      // reduced axes are gone
  int64_t count = 1;  // elements per result
  std::array<bool, kMaxRank> reduced{};
};

/// Gives `y`, row-major and seen by nobody else, another shape without making a new handle.
Tensor& reshape_fresh(Tensor& y, const Shape& shape);

/// y = kernel(x), without a gradient.
Tensor reduce(const ReduceKernel& kernel, const Tensor& x, const Reduction& axes, bool keepdim,
              DType dtype);

/// `y` (a result or its gradient) with its reduced axes put back as size 1; differentiable.
inline Tensor with_axes(const Tensor& y, const Reduction& axes) { return y.reshape(axes.kept); }

}  // namespace brim::ops
