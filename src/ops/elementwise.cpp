#include "ops/elementwise.h"

#include <array>
#include <cmath>

#include <brim/ops/reduce.h>

#include "autograd/node.h"
#include "core/axes_by_stride.h"

namespace brim::ops {

MemoryFormat format_of(const Tensor& x) {
  if (x.is_contiguous() || x.rank() != 4) return MemoryFormat::nchw;
  for (const MemoryFormat format : {MemoryFormat::nhwc, MemoryFormat::chwn})
    if (x.is_contiguous(format)) return format;
  return MemoryFormat::nchw;
}

Tensor empty_as(const Tensor& x) { return empty_as(x, x.dtype()); }
Tensor empty_as(const Tensor& x, DType dtype) { return empty_as(x, dtype, x.device()); }
Tensor empty_as(const Tensor& x, DType dtype, Device device) {
  const MemoryFormat format = format_of(x);
  Tensor y = Tensor::empty(x.shape(), dtype, device);
  return format == MemoryFormat::nchw ? y : y.alias(x.shape(), strides_of(x.shape(), format), 0);
}

namespace {

/// Whether the elements fill their memory, each once.
bool is_dense(const Tensor& x) {
  const std::array<int, kMaxRank> order = axes_by_stride(x);
  int64_t step = 1;
  for (int i = x.rank() - 1; i >= 0; --i) {
    const int axis = order[static_cast<size_t>(i)];
    if (x.size(axis) == 1) continue;
    if (x.strides()[axis] != step) return false;
    step *= x.size(axis);
  }
  return true;
}

}  // namespace

Tensor empty_result(const Tensor& x, DType dtype) {
  if (x.is_contiguous() || !is_dense(x)) return Tensor::empty(x.shape(), dtype, x.device());
  return Tensor::empty(x.shape(), dtype, x.device()).alias(x.shape(), x.strides(), 0);
}

namespace {

Tensor run_unary(const UnaryKernel& kernel, const Tensor& x, const formula::Params& params,
                 bool truth) {
  check_defined(kernel.name(), x);
  Tensor y = empty_result(x, truth ? DType::bool_ : x.dtype());
  kernel(x.device(), x.dtype(), x, y, params);
  return y;
}

Tensor run_binary(const BinaryKernel& kernel, const char* op, const Tensor& a, const Tensor& b,
                  const formula::Params& params, bool truth) {
  const Device device = common_device(op, a, b);
  const DType dtype = common_dtype(op, a, b);
  const DType result = truth ? DType::bool_ : dtype;
  Tensor y;
  if (a.shape() == b.shape()) {
    y = empty_result(a, result);
  } else {
    const Shape shape = broadcast_shapes(a.shape(), b.shape(), op);
    y = shape == a.shape()   ? empty_result(a, result)
        : shape == b.shape() ? empty_result(b, result)
                             : Tensor::empty(shape, result, device);
  }
  kernel(device, dtype, a, b, y, params);
  return y;
}

}  // namespace

Tensor unary(const UnaryKernel& kernel, const Tensor& x, formula::Params params) {
  return run_unary(kernel, x, params, false);
}
Tensor predicate(const UnaryKernel& kernel, const Tensor& x, formula::Params params) {
  return run_unary(kernel, x, params, true);
}
Tensor binary(const BinaryKernel& kernel, const char* op, const Tensor& a, const Tensor& b,
              formula::Params params) {
  return run_binary(kernel, op, a, b, params, false);
}
Tensor compare(const BinaryKernel& kernel, const char* op, const Tensor& a, const Tensor& b) {
  return run_binary(kernel, op, a, b, {}, true);
}

void binary_in_place(const BinaryKernel& kernel, const char* op, Tensor& x, const Tensor& other,
                     formula::Params params) {
  const Device device = common_device(op, x, other);
  const DType dtype = common_dtype(op, x, other);
  BRIM_CHECK(
      x.shape() == other.shape() || broadcast_shapes(x.shape(), other.shape(), op) == x.shape(),
      ShapeError, "[{}] shape {} does not broadcast into {}", op, other.shape().str(),
      x.shape().str());
  autograd::check_recordable(op, x, {other});
  // What is read must not change under the loop: another view of x's memory is copied first.
  const bool shifted = x.storage() == other.storage() &&
                       !(x.offset() == other.offset() && x.shape() == other.shape() &&
                         x.strides() == other.strides());
  if (shifted) {
    kernel(device, dtype, x, other.detach().clone(), x, params);
  } else {
    kernel(device, dtype, x, other, x, params);
  }
}

Before needed_before(const char* op, const Tensor& x, const Tensor& other) {
  common_device(op, x, other);
  if (!autograd::needs_grad({other})) return {.x = {}, .other = other};
  const Tensor old = x.clone();
  return {.x = old, .other = other.is_same(x) ? old : other};
}

void unary_in_place(const UnaryKernel& kernel, const char* op, Tensor& x, formula::Params params) {
  check_defined(op, x);
  autograd::check_recordable(op, x);
  kernel(x.device(), x.dtype(), x, x, params);
}

void check_number(const char* op, const Tensor& x, double value) {
  check_defined(op, x);
  if (is_floating(x.dtype())) return;
  BRIM_CHECK(value == std::trunc(value), DTypeError,
             "[{}] {} is not a whole number, but the tensor is {}; cast it with x.to(f32)", op,
             value, name(x.dtype()));
  check_whole(op, value);
}

Tensor linear_grad(const BinaryKernel& kernel, const Tensor& dy, const Tensor& s,
                   formula::Params params) {
  const char* name = kernel.name();
  return autograd::with_grad(
      name, binary(kernel, name, dy, s, params), {dy},
      [&kernel, s = autograd::Saved(s.detach()), params](autograd::GradCall& g) {
        g.set(0, linear_grad(kernel, g.dy(), g[s], params));
      });
}

Tensor sum_to(const Tensor& g, const Shape& shape) {
  if (g.shape() == shape) return g;
  const int shift = g.rank() - shape.rank();
  std::vector<int> axes;
  for (int i = 0; i < g.rank(); ++i)
    if (i < shift || (shape[i - shift] == 1 && g.shape()[i] != 1)) axes.push_back(i);
  return sum(g, axes, /*keepdim=*/true).reshape(shape);
}

}  // namespace brim::ops
