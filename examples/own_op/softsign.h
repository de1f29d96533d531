// The formula of softsign, for the CPU and, as it keeps its text, for GPUs.
#pragma once

#include <brim/extend/formula.h>

namespace own {

BRIM_DEFINE_FORMULA(Softsign, {
  static constexpr const char* kName = "softsign";
  template <class T>
  BRIM_FORMULA T operator()(T x) const {
    return x / (T(1) + abs(x));
  }
});

}  // namespace own
