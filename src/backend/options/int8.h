// What kernels of 8-bit integers get besides their tensors.
#pragma once

#include <brim/core/quant_params.h>

#include <optional>

namespace brim::backend {

struct Int8Call {
  QuantParams input;
  bool relu = false;
  std::optional<QuantParams> output;  ///< of u8 outputs; else they are f32
  friend bool operator==(const Int8Call&, const Int8Call&) = default;
};

}  // namespace brim::backend
