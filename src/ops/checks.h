// Checks that ops share. Every message names the op.
#pragma once

#include <brim/core/tensor.h>

#include "core/check.h"

namespace brim::ops {

[[noreturn]] void throw_devices(const char* op, Device a, Device b);
[[noreturn]] void throw_dtypes(const char* op, const Tensor& a, const Tensor& b);
[[noreturn]] void throw_not_floating(const char* op, const Tensor& x);
[[noreturn]] void throw_undefined(const char* op);

inline void check_defined(const char* op, const Tensor& x) {
  if (!x.defined()) [[unlikely]]
    throw_undefined(op);
}

/// The device of both; throws DeviceError naming the two.
inline Device common_device(const char* op, const Tensor& a, const Tensor& b) {
  check_defined(op, a);
  check_defined(op, b);
  const Device da = a.device(), db = b.device();
  if (da != db) [[unlikely]]
    throw_devices(op, da, db);
  return da;
}

/// Throws NotImplemented where no op computes with the dtype of `x`.
void check_computed(const char* op, const Tensor& x);

/// The dtype of both; throws DTypeError naming the two.
inline DType common_dtype(const char* op, const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype()) [[unlikely]]
    throw_dtypes(op, a, b);
  return a.dtype();
}

/// What sums and statistics of `dtype` are kept in: f32 for the 16-bit floats.
inline DType statistics_dtype(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16 ? DType::f32 : dtype;
}

/// For ops whose result's shape depends on values: throws CompileError in a recorded step.
void refuse_shape_of_values(const char* op);

/// Throws ValueError unless a double holds the whole number `value` and its neighbours exactly.
void check_whole(const char* op, double value);

inline void check_floating(const char* op, const Tensor& x) {
  check_defined(op, x);
  if (!is_floating(x.dtype())) [[unlikely]]
    throw_not_floating(op, x);
}

inline void check_rank(const char* op, const Tensor& x, int rank, const char* layout) {
  check_defined(op, x);
  BRIM_CHECK(x.rank() == rank, ShapeError, "[{}] expects {}, got shape {}", op, layout,
             x.shape().str());
}

}  // namespace brim::ops
