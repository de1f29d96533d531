// Launching elementwise kernels: what every op in unary/ and binary/ is made of.
#pragma once

#include <brim/autograd/autograd.h>
#include <brim/core/tensor.h>
#include <brim/formula/formula.h>

#include "backend/kernel.h"
#include "ops/checks.h"

namespace brim::ops {

struct UnaryKernel
    : backend::Kernel<void(const Context&, const Tensor& x, Tensor& y, const formula::Params&)> {
  explicit UnaryKernel(const char* name)
      : Kernel(name, {.operands = "x, y", .work = backend::Work::pointwise}) {}
};
struct BinaryKernel : backend::Kernel<void(const Context&, const Tensor& a, const Tensor& b,
                                           Tensor& y, const formula::Params&)> {
  explicit BinaryKernel(const char* name, const char* operands = "a, b, y")
      : Kernel(name, {.operands = operands, .work = backend::Work::pointwise}) {}
};

/// The memory format in which `x` is dense; nchw, row-major, if it is in none.
MemoryFormat format_of(const Tensor& x);

/// A new tensor like `x`, in its memory format where `x` is dense.
Tensor empty_as(const Tensor& x);
Tensor empty_as(const Tensor& x, DType dtype);
Tensor empty_as(const Tensor& x, DType dtype, Device device);

/// A new tensor for what an elementwise op makes of `x`: with its strides where its elements fill
/// their memory, in whatever order of the axes, so that the op runs along both; else row-major.
Tensor empty_result(const Tensor& x, DType dtype);

/// y = f(x), without a gradient.
Tensor unary(const UnaryKernel& kernel, const Tensor& x, formula::Params params = {});
/// The same with a truth value as the result.
Tensor predicate(const UnaryKernel& kernel, const Tensor& x, formula::Params params = {});
/// y = f(a, b) with broadcasting, without a gradient. Throws when devices or dtypes differ.
Tensor binary(const BinaryKernel& kernel, const char* op, const Tensor& a, const Tensor& b,
              formula::Params params = {});
/// The same with a truth value as the result.
Tensor compare(const BinaryKernel& kernel, const char* op, const Tensor& a, const Tensor& b);
/// x = f(x, other), where `other` broadcasts to x's shape; the caller records it.
void binary_in_place(const BinaryKernel& kernel, const char* op, Tensor& x, const Tensor& other,
                     formula::Params params = {});
/// What the gradient of an op needs of its operands before it writes x over: x, cloned, where
/// `other` requires a gradient, and `other`, which is that clone where it is x itself.
struct Before {
  Tensor x, other;
};
Before needed_before(const char* op, const Tensor& x, const Tensor& other);
/// x = f(x); the caller records it.
void unary_in_place(const UnaryKernel& kernel, const char* op, Tensor& x, formula::Params params);

/// When `x` holds integers, throws DTypeError unless `value` is a whole number, and ValueError
/// where a double does not hold it exactly.
void check_number(const char* op, const Tensor& x, double value);

/// dx of a unary op from dy and its input or output `s`: by the fused kernel, or where the gradient
/// is itself recorded by composed(dy, s), which is the same written with ops; 16 bits, whose
/// squares soon overflow, as f32.
template <class F>
Tensor fused_grad(const BinaryKernel& kernel, const Tensor& dy, const Tensor& s,
                  formula::Params params, F&& composed) {
  if (!grad_enabled()) return binary(kernel, kernel.name(), dy, s, params);
  const DType wide = statistics_dtype(s.dtype());
  return composed(dy.to(wide), s.to(wide)).to(s.dtype());
}
/// The same for piecewise linear ops: linear in dy and constant in s, so its gradient is itself.
Tensor linear_grad(const BinaryKernel& kernel, const Tensor& dy, const Tensor& s,
                   formula::Params params = {});

/// The gradient of broadcasting: sums `g` over the axes that `shape` was stretched along.
Tensor sum_to(const Tensor& g, const Shape& shape);

}  // namespace brim::ops
