// What an op does with its inputs before its kernel runs: checks, whose messages name the op, and
// its part in Autocast.
#pragma once

#include <brim/core/tensor.h>

namespace brim::extend {

/// Throws ValueError where `x` is undefined.
void check_defined(const char* op, const Tensor& x);
/// Throws DTypeError unless `x` holds floats.
void check_floating(const char* op, const Tensor& x);
/// Throws ShapeError unless `x` has that rank; `layout` says what is expected: "(N, D)".
void check_rank(const char* op, const Tensor& x, int rank, const char* layout);
/// The device of both; throws DeviceError naming the two.
Device common_device(const char* op, const Tensor& a, const Tensor& b);
/// The dtype of both; throws DTypeError naming the two.
DType common_dtype(const char* op, const Tensor& a, const Tensor& b);

/// In an Autocast scope `x` in f32 if it holds floats of 16 bits, else `x` itself: for ops that are
/// sensitive to rounding or range, and those that have no kernel of 16 bits.
Tensor autocast_wide(const Tensor& x);
/// In an Autocast scope `x` in the scope's dtype if it is a float of at most 32 bits, else `x`
/// itself: for products.
Tensor autocast_low(const Tensor& x);

}  // namespace brim::extend
