// What the kernel of batch_norm is told.
#pragma once

namespace brim::backend {

struct BatchNormParams {
  bool training = false;
  double momentum = 0.1;
  double eps = 1e-5;
  friend bool operator==(const BatchNormParams&, const BatchNormParams&) = default;
};

}  // namespace brim::backend
