// Arithmetic of two tensors, and of a tensor and a number, with broadcasting (NumPy's rule) and
// gradients of any order. Two tensors must be on one device (DeviceError) and of one dtype
// (DTypeError); a number takes the tensor's dtype, and must be whole where that is an integer.
#pragma once

#include <brim/core/tensor.h>

namespace brim {

Tensor add(const Tensor& a, const Tensor& b, double alpha = 1);  ///< a + alpha * b
Tensor sub(const Tensor& a, const Tensor& b, double alpha = 1);  ///< a - alpha * b
Tensor mul(const Tensor& a, const Tensor& b);                    ///< a * b
Tensor div(const Tensor& a, const Tensor& b);  ///< true division: integers give f32
Tensor pow(const Tensor& a, const Tensor& b);  ///< a^b, element by element
///@{
/// NaN where either is NaN; equal elements share the gradient.
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);
///@}
/// The angle of the point (b, a), in [-pi, pi]. Floating dtypes only.
Tensor atan2(const Tensor& a, const Tensor& b);
/// a - b floor(a / b): what is left of a, with the sign of b, as Python's %. Of integers 0 where b
/// is 0.
Tensor remainder(const Tensor& a, const Tensor& b);
/// The same with the sign of a, as C's fmod.
Tensor fmod(const Tensor& a, const Tensor& b);

///@{
/// As between two tensors.
Tensor add(const Tensor& x, double value);
Tensor sub(const Tensor& x, double value);
Tensor sub(double value, const Tensor& x);
Tensor mul(const Tensor& x, double value);
Tensor div(const Tensor& x, double value);
///@}
Tensor div(double value, const Tensor& x);  ///< value * (1 / x), as in PyTorch
///@{
/// As between two tensors.
Tensor remainder(const Tensor& x, double value);
Tensor fmod(const Tensor& x, double value);
///@}

///@{
/// As the functions add, sub, mul, div and remainder.
inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor operator%(const Tensor& a, const Tensor& b) { return remainder(a, b); }
inline Tensor operator%(const Tensor& x, double v) { return remainder(x, v); }
inline Tensor operator+(const Tensor& x, double v) { return add(x, v); }
inline Tensor operator+(double v, const Tensor& x) { return add(x, v); }
inline Tensor operator-(const Tensor& x, double v) { return sub(x, v); }
inline Tensor operator-(double v, const Tensor& x) { return sub(v, x); }
inline Tensor operator*(const Tensor& x, double v) { return mul(x, v); }
inline Tensor operator*(double v, const Tensor& x) { return mul(x, v); }
inline Tensor operator/(const Tensor& x, double v) { return div(x, v); }
inline Tensor operator/(double v, const Tensor& x) { return div(v, x); }
///@}

}  // namespace brim
