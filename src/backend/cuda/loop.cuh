// Strided elementwise loops as kernels see them.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "backend/loop.h"

namespace brim::cuda {

/// A backend::Loop that kernels take by value; operand 0 is the output.
template <int N>
struct DeviceLoop {
  int rank = 0;
  int64_t numel = 0;
  int64_t size[kMaxRank] = {};  // [0] is the innermost
  int64_t stride[N][kMaxRank] = {};

  explicit DeviceLoop(const backend::Loop<N>& loop) : rank(loop.rank), numel(loop.numel) {
    for (int d = 0; d < rank; ++d) {
      size[d] = loop.size[static_cast<size_t>(d)];
      for (int k = 0; k < N; ++k)
        stride[k][d] = loop.stride[static_cast<size_t>(k)][static_cast<size_t>(d)];
    }
  }

  /// Offsets of the operands, in elements, at position `index`.
  __device__ void offsets(int64_t index, int64_t (&at)[N]) const {
    for (int k = 0; k < N; ++k) at[k] = 0;
    for (int d = 0; d < rank; ++d) {
      const int64_t i = d + 1 < rank ? index % size[d] : index;
      if (d + 1 < rank) index /= size[d];
      for (int k = 0; k < N; ++k) at[k] += i * stride[k][d];
    }
  }
};

}  // namespace brim::cuda
