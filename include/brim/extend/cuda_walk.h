// Which elements the threads of a kernel compute, and where operands of any strides have them.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#if !defined(__CUDACC_RTC__)  // NVRTC compiles device code alone
#include <brim/core/tensor.h>
#endif

namespace brim::extend::cuda {

/// Kernels step through `count` elements: `for (i = first_index(); i < count; i += grid_size())`.
__device__ inline int64_t first_index() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
/// Threads of the whole grid.
__device__ inline int64_t grid_size() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

inline constexpr int kWalkRank = 8;  ///< kMaxRank

/// Where the elements of N operands lie; operand 0 is the output, the others broadcast to it.
template <int N>
struct Walk {
  int rank = 0;                  ///< axes of the output
  bool dense = true;             ///< one order, without gaps
  int64_t numel = 0;             ///< elements of the output
  int64_t size[kWalkRank] = {};  ///< of the output
  /// Of each operand, in elements; 0 along axes that it is broadcast along.
  int64_t stride[N][kWalkRank] = {};

#if !defined(__CUDACC_RTC__)
  /// On the host; operand 0 is the output.
  explicit Walk(const Tensor* const (&operands)[N]) {
    static_assert(kWalkRank == kMaxRank);
    const Tensor& y = *operands[0];
    rank = y.rank();
    numel = y.numel();
    dense = y.is_contiguous() || (rank == 4 && y.is_contiguous(MemoryFormat::nhwc));
    for (int d = 0; d < rank; ++d) size[d] = y.shape()[d];
    for (int k = 0; k < N; ++k) {
      const Tensor& t = *operands[k];
      dense = dense && t.shape() == y.shape() && t.strides() == y.strides();
      for (int d = 0; d < t.rank(); ++d)
        if (t.shape()[d] != 1) stride[k][d + rank - t.rank()] = t.strides()[d];
    }
  }
#endif

  /// Offsets of the operands, in elements, at position `index` of the output.
  __device__ void offsets(int64_t index, int64_t (&at)[N]) const {
    for (int k = 0; k < N; ++k) at[k] = dense ? index : 0;
    if (dense) return;
    for (int d = rank; d-- > 0;) {
      const int64_t i = index % size[d];
      index /= size[d];
      for (int k = 0; k < N; ++k) at[k] += i * stride[k][d];
    }
  }
};

}  // namespace brim::extend::cuda
