// Ops of formulas that the tests share.
#pragma once

#include <brim/extend.h>

namespace brim::tests {

/// x sigmoid(beta x): a number of its own, and no text.
struct Swish : extend::Formula {
  static constexpr const char* kName = "test_swish";
  double beta = 1;
  template <class T>
  BRIM_FORMULA T operator()(T x) const {
    return x * sigmoid(T(beta) * x);
  }
};

/// log(exp(a) + exp(b)): two numbers.
BRIM_DEFINE_FORMULA(LogAddExp, {
  static constexpr const char* kName = "test_logaddexp";
  template <class T>
  BRIM_FORMULA T operator()(T a, T b) const {
    const T most = a > b ? a : b;
    return most + log1p(exp(-abs(a - b)));
  }
});

/// relu with a gradient that nobody would derive.
BRIM_DEFINE_FORMULA(GuidedRelu, {
  static constexpr const char* kName = "test_guided_relu";
  template <class T>
  BRIM_FORMULA T operator()(T x) const {
    return x > T(0) ? x : T(0);
  }
  template <class T>
  BRIM_FORMULA T gradient(T dy, T x) const {
    return x > T(0) ? T(3) * dy : T(0);
  }
});

inline Tensor swish(const Tensor& x, double beta) {
  return extend::elementwise(Swish{.beta = beta}, x);
}
inline Tensor logaddexp(const Tensor& a, const Tensor& b) {
  return extend::elementwise(LogAddExp{}, a, b);
}
inline Tensor guided_relu(const Tensor& x) { return extend::elementwise(GuidedRelu{}, x); }

}  // namespace brim::tests
