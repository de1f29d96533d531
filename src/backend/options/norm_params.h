// What the kernels of batch_norm and group_norm are told.
#pragma once

#include <cstdint>

#include <brim/core/same_bits.h>

namespace brim::backend {

struct BatchNormParams {
  bool training = false;
  double momentum = 0.1;
  double eps = 1e-5;
  bool repeatable = false;  ///< batch_norm_again makes y to the bit: no library computes it
  friend bool operator==(const BatchNormParams& x, const BatchNormParams& y) {
    return x.training == y.training && same_bits(x.momentum, y.momentum) &&
           same_bits(x.eps, y.eps) && x.repeatable == y.repeatable;
  }
};

struct GroupNormParams {
  int64_t groups = 1;  // of as many channels each
  double eps = 1e-5;
  friend bool operator==(const GroupNormParams& x, const GroupNormParams& y) {
    return x.groups == y.groups && same_bits(x.eps, y.eps);
  }
};

}  // namespace brim::backend
