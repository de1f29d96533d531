// Comparisons and logic, whose result is bool, and selection by such a mask. Two tensors broadcast
// (NumPy's rule) and must be on one device (DeviceError) and of one dtype (DTypeError).
#pragma once

#include <brim/core/tensor.h>

namespace brim {

Tensor eq(const Tensor& a, const Tensor& b);  ///< a == b; two NaN are not equal
///@{
/// Bool: a != b, a < b, a <= b, a > b and a >= b, in this order. With NaN only ne() is true.
Tensor ne(const Tensor& a, const Tensor& b);
Tensor lt(const Tensor& a, const Tensor& b);
Tensor le(const Tensor& a, const Tensor& b);
Tensor gt(const Tensor& a, const Tensor& b);
Tensor ge(const Tensor& a, const Tensor& b);
///@}
///@{
/// As between two tensors.
Tensor eq(const Tensor& x, double value);
Tensor ne(const Tensor& x, double value);
Tensor lt(const Tensor& x, double value);
Tensor le(const Tensor& x, double value);
Tensor gt(const Tensor& x, double value);
Tensor ge(const Tensor& x, double value);
///@}

// There is no operator== between tensors: it would read as "the same tensor", which is is_same().
///@{
/// As the functions lt, le, gt and ge.
inline Tensor operator<(const Tensor& a, const Tensor& b) { return lt(a, b); }
inline Tensor operator<=(const Tensor& a, const Tensor& b) { return le(a, b); }
inline Tensor operator>(const Tensor& a, const Tensor& b) { return gt(a, b); }
inline Tensor operator>=(const Tensor& a, const Tensor& b) { return ge(a, b); }
inline Tensor operator<(const Tensor& x, double v) { return lt(x, v); }
inline Tensor operator<=(const Tensor& x, double v) { return le(x, v); }
inline Tensor operator>(const Tensor& x, double v) { return gt(x, v); }
inline Tensor operator>=(const Tensor& x, double v) { return ge(x, v); }
inline Tensor operator<(double v, const Tensor& x) { return gt(x, v); }
inline Tensor operator<=(double v, const Tensor& x) { return ge(x, v); }
inline Tensor operator>(double v, const Tensor& x) { return lt(x, v); }
inline Tensor operator>=(double v, const Tensor& x) { return le(x, v); }
///@}

Tensor isnan(const Tensor& x);     ///< bool: which elements are NaN
Tensor isfinite(const Tensor& x);  ///< neither infinite nor NaN

// Of any dtype; an element counts as true unless it is 0.
///@{
/// Bool, of any dtype: an element counts as true unless it is 0.
Tensor logical_not(const Tensor& x);
Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_xor(const Tensor& a, const Tensor& b);
///@}

/// a where `condition` (bool) is true, else b; all three broadcast. The gradient goes to a and b.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
/// x with `value` where `mask` (bool, broadcast with x) is true; there the gradient is 0.
Tensor masked_fill(const Tensor& x, const Tensor& mask, double value);

}  // namespace brim
