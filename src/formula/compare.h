// Formulas with a truth value: comparisons of two numbers, and of a number with a parameter.
#pragma once

#include <brim/formula/math.h>

namespace brim::formula {

#define BRIM_COMPARE(Name, kernel, operation)                            \
  struct Name {                                                          \
    static constexpr const char* kName = kernel;                         \
    explicit Name(Params) {}                                             \
    template <class T>                                                   \
    BRIM_FORMULA bool operator()(T a, T b) const {                       \
      return a operation b;                                              \
    }                                                                    \
  };                                                                     \
  struct Name##Scalar {                                                  \
    static constexpr const char* kName = kernel "_scalar";               \
    Params p;                                                            \
    explicit Name##Scalar(Params p) : p(p) {}                            \
    template <class T>                                                   \
    BRIM_FORMULA bool operator()(T x) const {                            \
      using Wide = std::conditional_t<std::is_integral_v<T>, double, T>; \
      return static_cast<Wide>(x) operation static_cast<Wide>(p.a);      \
    }                                                                    \
  }

BRIM_COMPARE(Eq, "eq", ==);
BRIM_COMPARE(Ne, "ne", !=);
BRIM_COMPARE(Lt, "lt", <);
BRIM_COMPARE(Le, "le", <=);
BRIM_COMPARE(Gt, "gt", >);
BRIM_COMPARE(Ge, "ge", >=);
#undef BRIM_COMPARE

struct IsFinite {
  static constexpr const char* kName = "isfinite";
  explicit IsFinite(Params) {}
  template <class T>
  BRIM_FORMULA bool operator()(T x) const {
    return x - x == T(0);
  }
};

struct LogicalAnd {
  static constexpr const char* kName = "logical_and";
  explicit LogicalAnd(Params) {}
  BRIM_FORMULA bool operator()(bool a, bool b) const { return a & b; }
};
struct LogicalOr {
  static constexpr const char* kName = "logical_or";
  explicit LogicalOr(Params) {}
  BRIM_FORMULA bool operator()(bool a, bool b) const { return a | b; }
};

using CompareFormulas = List<Eq, Ne, Lt, Le, Gt, Ge>;
using CompareScalarFormulas = List<EqScalar, NeScalar, LtScalar, LeScalar, GtScalar, GeScalar>;

}  // namespace brim::formula
