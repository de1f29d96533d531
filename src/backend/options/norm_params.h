// What the kernel of batch_norm is told.
#pragma once

#include <brim/core/same_bits.h>

namespace brim::backend {

struct BatchNormParams {
  bool training = false;
  double momentum = 0.1;
  double eps = 1e-5;
  friend bool operator==(const BatchNormParams& x, const BatchNormParams& y) {
    return x.training == y.training && same_bits(x.momentum, y.momentum) && same_bits(x.eps, y.eps);
  }
};

}  // namespace brim::backend
