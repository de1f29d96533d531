// What the kernels of cross_entropy and nll_loss are told.
#pragma once

#include <cstdint>

namespace brim::backend {

enum class LossShape : uint8_t { single, mean, sum };  // one loss per row, or one in all

struct ClassLoss {
  int64_t ignore_index = -100;
  double smoothing = 0;
  LossShape shape = LossShape::mean;
  friend bool operator==(const ClassLoss&, const ClassLoss&) = default;
};

}  // namespace brim::backend
