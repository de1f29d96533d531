// Formulas of two numbers, y = f(a, b), gradients of unary ops among them. To add one: the functor
// here, its name in BinaryFormulas, the op in src/ops/.
#pragma once

#include "formula/activation.h"
#include "formula/loss.h"
#include "formula/power.h"

namespace brim::formula {

struct Add {  // a + alpha * b
  static constexpr const char* kName = "add";
  Params p;
  explicit Add(Params p) : p(p) {}
  template <class T>
  BRIM_FORMULA T operator()(T a, T b) const {
    using W = Wrapping<T>;
    return static_cast<T>(static_cast<W>(a) + static_cast<W>(number<T>(p.a)) * static_cast<W>(b));
  }
};

/// What is left of a when as many whole b as fit are taken off, with the sign of a; of integers 0
/// where b is 0. Of f32 in loops only where detail::fmod_is_exact(a, b).
template <class T>
BRIM_FORMULA T left_over(T a, T b) {
  if constexpr (kOwnMath<T>) {
    return detail::fmod(a, b);
  } else if constexpr (std::is_floating_point_v<T>) {
    return std::fmod(a, b);
  } else {
    // The smallest number by -1 overflows; by 1 nothing is left of it, either.
    const bool whole = b == T(0) || (std::is_signed_v<T> && b == static_cast<T>(-1));
    return static_cast<T>(a % (whole ? T(1) : b));
  }
}
/// The same with the sign of b, as Python's %, from left_over's.
template <class T>
BRIM_FORMULA T with_sign_of(T left, T b) {
  const bool beyond = (left != T(0)) & ((left < T(0)) != (b < T(0)));
  return static_cast<T>(beyond ? left + b : left);
}

#define BRIM_BINARY(Name, kernel, expression)    \
  struct Name {                                  \
    static constexpr const char* kName = kernel; \
    explicit Name(Params) {}                     \
    template <class T>                           \
    BRIM_FORMULA T operator()(T a, T b) const {  \
      return static_cast<T>(expression);         \
    }                                            \
  }

BRIM_BINARY(Mul, "mul", static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
BRIM_BINARY(Div, "div", a / b);
BRIM_BINARY(Pow, "pow", power(a, b));
BRIM_BINARY(Maximum, "maximum", a > b || a != a ? a : b);  // NaN if either is
BRIM_BINARY(Minimum, "minimum", a < b || a != a ? a : b);
BRIM_BINARY(Atan2, "atan2", atan2(a, b));
// The share of a in the gradient of maximum and minimum: one half where equal.
BRIM_BINARY(MaximumShare, "maximum_share", a == b ? T(0.5) : a < b ? T(0) : T(1));
BRIM_BINARY(MinimumShare, "minimum_share", a == b ? T(0.5) : a > b ? T(0) : T(1));
// Gradients of unary ops from (dy, x).
BRIM_BINARY(AbsGrad, "abs_grad", b > T(0) ? a : b < T(0) ? -a : T(0));
#undef BRIM_BINARY

// Quotients of f32 that are too large for the fast way go by slow(), as arguments of Sin.
struct Fmod {
  static constexpr const char* kName = "fmod";
  explicit Fmod(Params) {}
  static bool is_fast(float a, float b) { return detail::fmod_is_exact(a, b); }
  template <class T>
  BRIM_FORMULA T operator()(T a, T b) const {
    return left_over(a, b);
  }
  float slow(float a, float b) const { return std::fmod(a, b); }
};

struct Remainder {
  static constexpr const char* kName = "remainder";
  explicit Remainder(Params) {}
  static bool is_fast(float a, float b) { return detail::fmod_is_exact(a, b); }
  template <class T>
  BRIM_FORMULA T operator()(T a, T b) const {
    return with_sign_of(left_over(a, b), b);
  }
  float slow(float a, float b) const { return with_sign_of(std::fmod(a, b), b); }
};

struct ClampGrad {
  static constexpr const char* kName = "clamp_grad";
  Params p;
  explicit ClampGrad(Params p) : p(p) {}
  template <class T>
  BRIM_FORMULA T operator()(T dy, T x) const {
    return x >= static_cast<T>(p.a) && x <= static_cast<T>(p.b) ? dy : T(0);
  }
};

using BinaryFormulas =
    List<Add, Mul, Div, Pow, Maximum, Minimum, Atan2, Fmod, Remainder, MaximumShare, MinimumShare,
         AbsGrad, ClampGrad, ReluGrad, LeakyReluGrad, EluGrad, SigmoidGrad, TanhGrad, GeluGrad,
         GeluTanhGrad, SiluGrad, SoftplusGrad, SmoothL1, SmoothL1Grad>;
/// Those that integers have too.
using BinaryIntegerFormulas = List<Add, Mul, Maximum, Minimum, Fmod, Remainder>;

}  // namespace brim::formula
