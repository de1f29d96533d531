// Numbers with a derivative: a formula of Dual numbers gives its value and its slope (forward-mode
// differentiation), so an op of a formula needs no gradient of its own. Dual numbers nest: a Dual
// of Duals has second derivatives.
#pragma once

#include <cmath>
#include <type_traits>

#include <brim/formula/formula.h>
#include <brim/formula/math.h>

namespace brim::formula {

/// A value and its derivative by one number.
template <class T>
struct Dual {
  T value{}, slope{};  ///< f(x) and f'(x)

  Dual() = default;
  BRIM_FORMULA Dual(T v, T s) : value(v), slope(s) {}  ///< with that slope
  /// A constant.
  template <class U>
  requires(std::is_arithmetic_v<U> || std::is_same_v<U, T>) BRIM_FORMULA Dual(U v)
      : value(static_cast<T>(v)), slope(T(0)) {}

  BRIM_FORMULA Dual operator-() const { return {-value, -slope}; }  ///< minus the number
  ///@{
  /// Value and derivative.
  friend BRIM_FORMULA Dual operator+(Dual a, Dual b) {
    return {a.value + b.value, a.slope + b.slope};
  }
  friend BRIM_FORMULA Dual operator-(Dual a, Dual b) {
    return {a.value - b.value, a.slope - b.slope};
  }
  friend BRIM_FORMULA Dual operator*(Dual a, Dual b) {
    return {a.value * b.value, a.slope * b.value + a.value * b.slope};
  }
  friend BRIM_FORMULA Dual operator/(Dual a, Dual b) {
    const T y = a.value / b.value;
    return {y, (a.slope - y * b.slope) / b.value};
  }
  ///@}
  ///@{
  /// Of the values.
  friend BRIM_FORMULA bool operator<(Dual a, Dual b) { return a.value < b.value; }
  friend BRIM_FORMULA bool operator>(Dual a, Dual b) { return a.value > b.value; }
  friend BRIM_FORMULA bool operator<=(Dual a, Dual b) { return a.value <= b.value; }
  friend BRIM_FORMULA bool operator>=(Dual a, Dual b) { return a.value >= b.value; }
  friend BRIM_FORMULA bool operator==(Dual a, Dual b) { return a.value == b.value; }
  ///@}
};

/// Absolute value of x.
template <class T>
BRIM_FORMULA T abs(T x) {
  return std::fabs(x);
}
/// Square root of x.
template <class T>
BRIM_FORMULA T sqrt(T x) {
  return std::sqrt(x);
}
/// The exponent is a constant.
template <class T>
BRIM_FORMULA T pow(T x, double a) {
  return std::pow(x, static_cast<T>(a));
}
/// sin and cos of any float: the loops of brim's own ops choose for a block of elements instead.
template <class T>
BRIM_FORMULA T any_sin(T x) {
  if constexpr (kOwnMath<T>)
    return std::fabs(x) <= detail::kTrigLimit ? sin(x) : std::sin(x);
  else
    return sin(x);
}
/// cosine, as any_sin.
template <class T>
BRIM_FORMULA T any_cos(T x) {
  if constexpr (kOwnMath<T>)
    return std::fabs(x) <= detail::kTrigLimit ? cos(x) : std::cos(x);
  else
    return cos(x);
}

/// f(x) with the slope of the function at x's value, by the chain rule.
template <class T>
BRIM_FORMULA Dual<T> chain(T value, T slope, Dual<T> x) {
  return {value, slope * x.slope};
}

///@{
/// By the chain rule.
template <class T>
BRIM_FORMULA Dual<T> abs(Dual<T> x) {
  return chain(abs(x.value), T(x.value > T(0)) - T(x.value < T(0)), x);  // 0 at 0
}
template <class T>
BRIM_FORMULA Dual<T> sqrt(Dual<T> x) {
  const T y = sqrt(x.value);
  return chain(y, T(0.5) / y, x);
}
template <class T>
BRIM_FORMULA Dual<T> pow(Dual<T> x, double a) {
  // Of a constant it is 0 at 0 as well, where x^-1 is infinite.
  return chain(pow(x.value, a), a == 0 ? T(0) : T(a) * pow(x.value, a - 1), x);
}
template <class T>
BRIM_FORMULA Dual<T> exp(Dual<T> x) {
  const T y = exp(x.value);
  return chain(y, y, x);
}
template <class T>
BRIM_FORMULA Dual<T> expm1(Dual<T> x) {
  return chain(expm1(x.value), exp(x.value), x);
}
template <class T>
BRIM_FORMULA Dual<T> log(Dual<T> x) {
  return chain(log(x.value), T(1) / x.value, x);
}
template <class T>
BRIM_FORMULA Dual<T> log1p(Dual<T> x) {
  return chain(log1p(x.value), T(1) / (T(1) + x.value), x);
}
template <class T>
BRIM_FORMULA Dual<T> tanh(Dual<T> x) {
  const T y = tanh(x.value);
  return chain(y, T(1) - y * y, x);
}
template <class T>
BRIM_FORMULA Dual<T> erf(Dual<T> x) {
  constexpr double kTwoOverSqrtPi = 1.12837916709551257390;
  return chain(erf(x.value), T(kTwoOverSqrtPi) * exp(-(x.value * x.value)), x);
}
template <class T>
BRIM_FORMULA Dual<T> any_sin(Dual<T> x) {
  return chain(any_sin(x.value), any_cos(x.value), x);
}
template <class T>
BRIM_FORMULA Dual<T> any_cos(Dual<T> x) {
  return chain(any_cos(x.value), -any_sin(x.value), x);
}
template <class T>
BRIM_FORMULA Dual<T> sigmoid(Dual<T> x) {
  const T y = sigmoid(x.value);
  return chain(y, y * (T(1) - y), x);
}
///@}

}  // namespace brim::formula
