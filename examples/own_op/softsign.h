// The formula of softsign, for the CPU (softsign.cpp) and for GPUs (softsign.cu).
#pragma once

#include <brim/extend/formula.h>

namespace own {

struct Softsign : brim::extend::Formula {
  static constexpr const char* kName = "softsign";
  template <class T>
  BRIM_FORMULA T operator()(T x) const {
    return x / (T(1) + abs(x));
  }
};

}  // namespace own
