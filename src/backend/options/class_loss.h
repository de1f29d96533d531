// What the kernels of cross_entropy and nll_loss are told.
#pragma once

#include <cstdint>

#include <brim/core/same_bits.h>

namespace brim::backend {

enum class LossShape : uint8_t { single, mean, sum };  // one loss per row, or one in all

struct ClassLoss {
  int64_t ignore_index = -100;
  double smoothing = 0;
  LossShape shape = LossShape::mean;
  friend bool operator==(const ClassLoss& x, const ClassLoss& y) {
    return x.ignore_index == y.ignore_index && same_bits(x.smoothing, y.smoothing) &&
           x.shape == y.shape;
  }
};

}  // namespace brim::backend
