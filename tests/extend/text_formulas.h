// More formulas that carry their text, for tests of what compiles them at run time.
#pragma once

#include <brim/extend.h>

namespace brim::tests {

/// A number of its own.
BRIM_DEFINE_FORMULA(TextSwish, {
  static constexpr const char* kName = "text_swish";
  double beta = 1;
  template <class T>
  BRIM_FORMULA T operator()(T x) const {
    return x * sigmoid(T(beta) * x);
  }
});

/// All functions of formulas.
BRIM_DEFINE_FORMULA(TextEverything, {
  static constexpr const char* kName = "text_everything";
  float slope = 0.5f;
  float shift = 2;
  template <class T>
  BRIM_FORMULA T operator()(T x) const {
    const T a = abs(x) + T(shift);
    const T logs = log(a) + log1p(a) + sqrt(a) + pow(a, 1.5);
    return T(slope) * logs + exp(-a) + expm1(-a) + tanh(x) + erf(x) + sin(x) * cos(x) + sigmoid(x);
  }
});

}  // namespace brim::tests
