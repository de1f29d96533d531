// What kernels of 8-bit integers are told besides their tensors.
#pragma once

#include <brim/ops/int8.h>

namespace brim::backend {

struct Int8Call {
  QuantParams input;
  Int8Output output;
  friend bool operator==(const Int8Call&, const Int8Call&) = default;
};

}  // namespace brim::backend
