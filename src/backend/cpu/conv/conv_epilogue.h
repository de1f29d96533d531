// What a convolution does to its sums before it leaves them.
#pragma once

#include <cstdint>

#include "formula/activation.h"

namespace brim::cpu {

/// Forward only: adds a bias of each channel, where there is one; then a ReLU, where it is wanted.
template <class T>
struct ConvEpilogue {
  const T* bias = nullptr;
  bool relu = false;

  /// The ReLU alone, on finished sums.
  void finish(T* y, int64_t count) const {
    if (!relu) return;
    const formula::Relu positive({});
    for (int64_t i = 0; i < count; ++i) y[i] = positive(y[i]);
  }
};

}  // namespace brim::cpu
