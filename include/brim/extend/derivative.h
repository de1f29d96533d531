// What follows from a formula (formula.h): its derivatives, as formulas.
#pragma once

#include <type_traits>

#include <brim/extend/formula.h>
#include <brim/formula/dual.h>

namespace brim::extend {

/// How many numbers a formula takes.
template <class F>
inline constexpr int kInputs = std::is_invocable_v<const F&, double, double> ? 2 : 1;
/// Whether a formula brings its gradient along.
template <class F>
inline constexpr bool kHasGradient = requires(const F& f) {
  f.gradient(1.0, 1.0);
};

/// How often a formula is differentiated: the gradient, and the gradient of that.
inline constexpr int kMaxDerivative = 2;

/// The derivative of F by its input I.
template <class F, int I>
struct Slope {
  F f;  ///< what is differentiated
  ///@{
  /// The derivative at that place.
  template <class T>
  BRIM_FORMULA T operator()(T x) const requires(kInputs<F> == 1) {
    if constexpr (kHasGradient<F>)
      return f.gradient(T(1), x);
    else
      return f(formula::Dual<T>(x, T(1))).slope;
  }
  template <class T>
  BRIM_FORMULA T operator()(T a, T b) const requires(kInputs<F> == 2) {
    return f(formula::Dual<T>(a, T(I == 0)), formula::Dual<T>(b, T(I == 1))).slope;
  }
  ///@}
};

/// dx from dy and x, of an F of one number.
template <class F>
struct GradientOf {
  F f;  ///< what is differentiated
  /// Dx.
  template <class T>
  BRIM_FORMULA T operator()(T dy, T x) const {
    if constexpr (kHasGradient<F>)
      return f.gradient(dy, x);
    else
      return dy * f(formula::Dual<T>(x, T(1))).slope;
  }
};

}  // namespace brim::extend
