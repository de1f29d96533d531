// Losses of a pair of numbers with their gradients.
#pragma once

#include <brim/formula/math.h>

namespace brim::formula {

/// b (d^2 / 2a) within a of 0, b (|d| - a / 2) beyond, where d = x - y.
struct SmoothL1 {
  static constexpr const char* kName = "smooth_l1";
  Params p;
  explicit SmoothL1(Params p) : p(p) {}
  template <class T>
  BRIM_FORMULA T operator()(T x, T y) const {
    const T a = static_cast<T>(p.a), size = std::fabs(x - y);
    const T near = size * size * (T(0.5) / a), far = size - T(0.5) * a;
    return static_cast<T>(p.b) * (size >= a ? far : near);
  }
};
struct SmoothL1Grad {  // from dy and d
  static constexpr const char* kName = "smooth_l1_grad";
  Params p;
  explicit SmoothL1Grad(Params p) : p(p) {}
  template <class T>
  BRIM_FORMULA T operator()(T dy, T d) const {
    const T slope = d / static_cast<T>(p.a);
    const T low = slope <= T(-1) ? T(-1) : slope;  // NaN stays NaN
    return dy * (static_cast<T>(p.b) * (low >= T(1) ? T(1) : low));
  }
};

}  // namespace brim::formula
