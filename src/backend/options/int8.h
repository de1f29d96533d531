// What kernels of 8-bit integers get besides their tensors.
#pragma once

#include <brim/core/quant_params.h>
#include <brim/core/same_bits.h>

#include <cstdint>
#include <limits>
#include <optional>

namespace brim::backend {

struct Int8Call {
  QuantParams input;
  bool relu = false;
  std::optional<QuantParams> output;  ///< of u8 outputs; else they are f32
  friend bool operator==(const Int8Call&, const Int8Call&) = default;
};

/// What a layer's launch does besides where it stands for those behind it as well.
struct Int8EpilogueParams {
  double eps = 0;  ///< of batch norm, where there are statistics
  float min = -std::numeric_limits<float>::infinity();  ///< that the result is held to
  float max = std::numeric_limits<float>::infinity();
  std::optional<QuantParams> next;  ///< of u8 that are made of the result
  friend bool operator==(const Int8EpilogueParams& x, const Int8EpilogueParams& y) {
    return same_bits(x.eps, y.eps) && same_bits(x.min, y.min) && same_bits(x.max, y.max) &&
           x.next == y.next;
  }
};

/// The same where weights leave their columns of zeros out.
struct SparseInt8Call {
  Int8Call layer;
  int64_t vector = 0;  ///< outputs of a group
  friend bool operator==(const SparseInt8Call&, const SparseInt8Call&) = default;
};

}  // namespace brim::backend
