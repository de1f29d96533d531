// Formulas: an elementwise op as arithmetic on one or two numbers, written once. What follows from
// it (loops for each dtype, strides, broadcasting, derivatives, the place in fused chains) comes by
// itself; see elementwise.h.
//
//   struct Softsign : brim::extend::Formula {
//     static constexpr const char* kName = "softsign";
//     template <class T>
//     BRIM_FORMULA T operator()(T x) const {
//       return x / (T(1) + abs(x));
//     }
//   };
//
// T is float, double, or such a number with its derivative (brim/formula/dual.h). Write constants
// as T(...), choices as `c ? a : b`, and functions without `std::`: those below are meant then,
// which have derivatives and vectorise in f32, but for pow, sin and cos. kName has no dot: names
// with one are those of derivatives ("softsign.grad"). Members are the formula's numbers, 16 bytes
// of them at most: `struct Scaled : Formula { double slope = 1; ... }`. A formula of one number may
// say its gradient itself, where that is more exact or cheaper than what follows from the
// derivative:
//
//     template <class T>
//     BRIM_FORMULA T gradient(T dy, T x) const;  // linear in dy
//
// Defined by BRIM_DEFINE_FORMULA, a formula runs on GPUs, too.
#pragma once

#include <type_traits>

#include <brim/formula/dual.h>
#include <brim/formula/formula.h>
#include <brim/formula/math.h>

namespace brim::extend {

/// The functions of formulas. Base of every formula, so that they are what their names mean there.
struct Formula {
#define BRIM_FORMULA_FUNCTION_AS(name, other) \
  template <class T>                          \
  static BRIM_FORMULA T name(T x) {           \
    return formula::other(x);                 \
  }
#define BRIM_FORMULA_FUNCTION(name) BRIM_FORMULA_FUNCTION_AS(name, name)
  ///@{
  /// As in <brim/formula/math.h> and <brim/formula/dual.h>.
  BRIM_FORMULA_FUNCTION(abs)
  BRIM_FORMULA_FUNCTION(sqrt)
  BRIM_FORMULA_FUNCTION(exp)
  BRIM_FORMULA_FUNCTION(expm1)
  BRIM_FORMULA_FUNCTION(log)
  BRIM_FORMULA_FUNCTION(log1p)
  BRIM_FORMULA_FUNCTION(tanh)
  BRIM_FORMULA_FUNCTION(erf)
  BRIM_FORMULA_FUNCTION_AS(sin, any_sin)
  BRIM_FORMULA_FUNCTION_AS(cos, any_cos)
  BRIM_FORMULA_FUNCTION(sigmoid)
#undef BRIM_FORMULA_FUNCTION
#undef BRIM_FORMULA_FUNCTION_AS
  /// The exponent is a constant.
  template <class T>
  static BRIM_FORMULA T pow(T x, double a) {
    return formula::pow(x, a);
  }
  ///@}
};

/// A formula as text.
struct FormulaSource {
  const char* type;  ///< its name
  const char* text;  ///< its definition
};

}  // namespace brim::extend

/// Defines the formula `name`, at namespace scope, and keeps its text, of which the CUDA backend
/// makes kernels at run time:
///
///   BRIM_DEFINE_FORMULA(Softsign, {
///     static constexpr const char* kName = "softsign";
///     template <class T>
///     BRIM_FORMULA T operator()(T x) const {
///       return x / (T(1) + abs(x));
///     }
///   });
///
/// The text is all that the GPU's compiler sees: it names nothing but its own members and what
/// brim/extend/formula.h has; no macros, constants or types of the program.
#define BRIM_DEFINE_FORMULA(name, ...)                                            \
  struct name : ::brim::extend::Formula __VA_ARGS__;                              \
  [[maybe_unused]] constexpr ::brim::extend::FormulaSource formula_source(        \
      ::std::type_identity<name>) {                                               \
    return {#name, "struct " #name " : brim::extend::Formula " #__VA_ARGS__ ";"}; \
  }                                                                               \
  static_assert(true)
