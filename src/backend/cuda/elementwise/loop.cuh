// Strided elementwise loops as kernels see them.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "backend/cuda/device/divisor.cuh"
#include "backend/loop.h"

namespace brim::cuda {

/// A backend::Loop that kernels take by value; operand 0 is the output.
template <int N>
struct DeviceLoop {
  int rank = 0;
  bool small = false;  // positions fit 32 bits
  int64_t numel = 0;
  int64_t size[kMaxRank] = {};  // [0] is the innermost
  int64_t stride[N][kMaxRank] = {};
  Divisor by[kMaxRank];  // sizes, where small

  explicit DeviceLoop(const backend::Loop<N>& loop)
      : rank(loop.rank), small(loop.numel <= kMaxIn32Bits), numel(loop.numel) {
    for (int d = 0; d < rank; ++d) {
      size[d] = loop.size[static_cast<size_t>(d)];
      if (small && size[d] > 0) by[d] = Divisor(static_cast<uint32_t>(size[d]));
      for (int k = 0; k < N; ++k)
        stride[k][d] = loop.stride[static_cast<size_t>(k)][static_cast<size_t>(d)];
    }
  }

  /// Offsets of the operands, in elements, at position `index`.
  __device__ void offsets(int64_t index, int64_t (&at)[N]) const {
    for (int k = 0; k < N; ++k) at[k] = 0;
    for (int d = 0; d < rank; ++d) {
      int64_t i = index;
      if (d + 1 < rank) {
        index = small ? by[d].quotient(static_cast<uint32_t>(index)) : index / size[d];
        i -= index * size[d];
      }
      for (int k = 0; k < N; ++k) at[k] += i * stride[k][d];
    }
  }
};

}  // namespace brim::cuda
