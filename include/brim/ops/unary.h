// Elementwise functions of one tensor. All keep shape, dtype, device and memory format, accept any
// strides, and have gradients of any order. Integers: neg, abs, square, sign, relu and clamp only.
#pragma once

#include <optional>

#include <brim/core/tensor.h>

namespace brim {

Tensor neg(const Tensor& x);    ///< -x
Tensor abs(const Tensor& x);    ///< the gradient at 0 is 0
Tensor exp(const Tensor& x);    ///< e^x
Tensor expm1(const Tensor& x);  ///< exp(x) - 1, exact near 0
Tensor log(const Tensor& x);    ///< natural logarithm
Tensor log1p(const Tensor& x);  ///< log(1 + x), exact near 0
///@{
/// Logarithm of base 2 and of base 10.
Tensor log2(const Tensor& x);
Tensor log10(const Tensor& x);
///@}
Tensor sqrt(const Tensor& x);        ///< square root; NaN below 0
Tensor rsqrt(const Tensor& x);       ///< 1 / sqrt(x)
Tensor square(const Tensor& x);      ///< x * x
Tensor reciprocal(const Tensor& x);  ///< 1 / x
///@{
/// Element by element; angles in radians.
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor erf(const Tensor& x);
///@}
Tensor pow(const Tensor& x, double exponent);  ///< x^exponent
/// x moved into [min, max], either of which may be left out: `clamp(x, {}, 1)`. The gradient is 1
/// inside and at the bounds, else 0.
Tensor clamp(const Tensor& x, std::optional<double> min, std::optional<double> max = {});

Tensor sign(const Tensor& x);  ///< -1, 0 or 1; 0 for NaN. This and the next have gradient 0.
///@{
/// The next whole number below or above; gradient 0.
Tensor floor(const Tensor& x);
Tensor ceil(const Tensor& x);
///@}
Tensor round(const Tensor& x);  ///< half to even

Tensor sigmoid(const Tensor& x);  ///< 1 / (1 + exp(-x))
Tensor relu(const Tensor& x);     ///< max(x, 0); the gradient at 0 is 0, and at NaN 1 like elu's
Tensor leaky_relu(const Tensor& x, double slope = 0.01);  ///< x where it is above 0, else slope * x
Tensor elu(const Tensor& x, double alpha = 1);            ///< Clevert et al. 2016
/// How gelu() is computed.
enum class GeluForm {
  exact,  ///< x Phi(x)
  tanh    ///< its approximation by tanh
};
/// x Phi(x) (Hendrycks and Gimpel 2016), exact or with the approximation by tanh.
Tensor gelu(const Tensor& x, GeluForm form = GeluForm::exact);
Tensor silu(const Tensor& x);  ///< x sigmoid(x)
/// log(1 + exp(beta x)) / beta, and x itself where beta x > threshold.
Tensor softplus(const Tensor& x, double beta = 1, double threshold = 20);

inline Tensor operator-(const Tensor& x) { return neg(x); }  ///< as neg()

}  // namespace brim
