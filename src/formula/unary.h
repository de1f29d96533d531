// Formulas of one number, y = f(x). To add one: the functor here (activations: activation.h), its
// name in UnaryFormulas, the op in src/ops/unary/.
#pragma once

#include <brim/formula/math.h>

#include "formula/activation.h"
#include "formula/power.h"

namespace brim::formula {

#define BRIM_UNARY(Name, kernel, expression)     \
  struct Name {                                  \
    static constexpr const char* kName = kernel; \
    explicit Name(Params) {}                     \
    template <class T>                           \
    BRIM_FORMULA T operator()(T x) const {       \
      return static_cast<T>(expression);         \
    }                                            \
  }

BRIM_UNARY(Neg, "neg", -static_cast<Wrapping<T>>(x));
BRIM_UNARY(Exp, "exp", exp(x));
BRIM_UNARY(Expm1, "expm1", expm1(x));
BRIM_UNARY(Log, "log", log(x));
BRIM_UNARY(Log1p, "log1p", log1p(x));
BRIM_UNARY(Log2, "log2", log2(x));
BRIM_UNARY(Log10, "log10", log10(x));
BRIM_UNARY(Sqrt, "sqrt", std::sqrt(x));
BRIM_UNARY(Rsqrt, "rsqrt", T(1) / std::sqrt(x));
BRIM_UNARY(Square, "square", static_cast<Wrapping<T>>(x) * static_cast<Wrapping<T>>(x));
BRIM_UNARY(Reciprocal, "reciprocal", T(1) / x);
BRIM_UNARY(Tanh, "tanh", tanh(x));
BRIM_UNARY(Erf, "erf", erf(x));
BRIM_UNARY(Sign, "sign", T(x > T(0)) - T(x < T(0)));  // 0 for NaN, as in PyTorch
BRIM_UNARY(Floor, "floor", std::floor(x));
BRIM_UNARY(Ceil, "ceil", std::ceil(x));
BRIM_UNARY(Round, "round", std::nearbyint(x));  // half to even
#undef BRIM_UNARY

struct Abs {
  static constexpr const char* kName = "abs";
  explicit Abs(Params) {}
  template <class T>
  BRIM_FORMULA T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>)
      return std::fabs(x);  // clears the sign of -0 too
    else
      return x < T(0) ? static_cast<T>(-static_cast<Wrapping<T>>(x)) : x;
  }
};

// sin and cos of large f32 arguments need another reduction; loops call slow() for those of
// which is_fast() is false.
struct Sin {
  static constexpr const char* kName = "sin";
  explicit Sin(Params) {}
  static bool is_fast(float x) { return std::fabs(x) <= detail::kTrigLimit; }
  template <class T>
  BRIM_FORMULA T operator()(T x) const {
    return sin(x);
  }
  float slow(float x) const { return std::sin(x); }
};

struct Cos {
  static constexpr const char* kName = "cos";
  explicit Cos(Params) {}
  static bool is_fast(float x) { return std::fabs(x) <= detail::kTrigLimit; }
  template <class T>
  BRIM_FORMULA T operator()(T x) const {
    return cos(x);
  }
  float slow(float x) const { return std::cos(x); }
};

struct PowScalar {  // x^a; the common exponents have formulas of their own
  static constexpr const char* kName = "pow_scalar";
  Params p;
  explicit PowScalar(Params p) : p(p) {}
  template <class T>
  BRIM_FORMULA T operator()(T x) const {
    return power(x, static_cast<T>(p.a));
  }
};

struct Clamp {  // to [a, b]; NaN stays NaN, and b wins where a > b
  static constexpr const char* kName = "clamp";
  Params p;
  explicit Clamp(Params p) : p(p) {}
  template <class T>
  BRIM_FORMULA T operator()(T x) const {
    const T low = saturate<T>(p.a), high = saturate<T>(p.b);
    const T y = x < low ? low : x;
    return y > high ? high : y;
  }
};

struct AddScalar {
  static constexpr const char* kName = "add_scalar";
  Params p;
  explicit AddScalar(Params p) : p(p) {}
  template <class T>
  BRIM_FORMULA T operator()(T x) const {
    return static_cast<T>(static_cast<Wrapping<T>>(x) + static_cast<Wrapping<T>>(number<T>(p.a)));
  }
};

struct MulScalar {
  static constexpr const char* kName = "mul_scalar";
  Params p;
  explicit MulScalar(Params p) : p(p) {}
  template <class T>
  BRIM_FORMULA T operator()(T x) const {
    return static_cast<T>(static_cast<Wrapping<T>>(x) * static_cast<Wrapping<T>>(number<T>(p.a)));
  }
};

struct DivScalar {
  static constexpr const char* kName = "div_scalar";
  Params p;
  explicit DivScalar(Params p) : p(p) {}
  template <class T>
  BRIM_FORMULA T operator()(T x) const {
    return x / static_cast<T>(p.a);
  }
};

using UnaryFormulas =
    List<Neg, Abs, Exp, Expm1, Log, Log1p, Log2, Log10, Sqrt, Rsqrt, Square, Reciprocal, Sin, Cos,
         Tanh, Erf, Sign, Floor, Ceil, Round, PowScalar, Clamp, AddScalar, MulScalar, DivScalar,
         Sigmoid, Relu, LeakyRelu, Elu, Gelu, GeluTanh, Silu, Softplus>;
/// Those that integers have too.
using UnaryIntegerFormulas = List<Neg, Abs, Square, Sign, Relu, Clamp, AddScalar, MulScalar>;

}  // namespace brim::formula
