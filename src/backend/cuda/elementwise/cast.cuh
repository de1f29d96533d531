// Conversion between element types, as PyTorch does it.
#pragma once

#include <cstdint>
#include <type_traits>

#include <brim/formula/formula.h>

#include "backend/cuda/device/number.cuh"

namespace brim::cuda {

/// As formula::converted. The result is Compute<To>.
template <class To>
struct Cast {
  template <class From>
  __device__ auto operator()(From v) const {
    if constexpr (is_16_bit<To>)
      return static_cast<float>(v);
    else
      return formula::converted<To>(v);
  }
};

/// An element from a number.
template <class T, class From>
__device__ inline T element(From v) {
  return narrow<T>(Cast<T>{}(v));
}

/// Unsigned integers of T's size: moving elements does not look at their type.
template <class T>
using Bits =
    std::conditional_t<sizeof(T) == 8, uint64_t,
                       std::conditional_t<sizeof(T) == 4, uint32_t,
                                          std::conditional_t<sizeof(T) == 2, uint16_t, uint8_t>>>;

}  // namespace brim::cuda
