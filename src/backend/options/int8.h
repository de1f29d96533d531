// What kernels of 8-bit integers get besides their tensors.
#pragma once

#include <brim/core/quant_params.h>

#include <cstdint>
#include <optional>

namespace brim::backend {

struct Int8Call {
  QuantParams input;
  bool relu = false;
  std::optional<QuantParams> output;  ///< of u8 outputs; else they are f32
  friend bool operator==(const Int8Call&, const Int8Call&) = default;
};

/// The same where weights leave their columns of zeros out.
struct SparseInt8Call {
  Int8Call layer;
  int64_t vector = 0;  ///< outputs of a group
  friend bool operator==(const SparseInt8Call&, const SparseInt8Call&) = default;
};

}  // namespace brim::backend
