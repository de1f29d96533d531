// Threads that combine values: shuffles of any type, and groups of threads (a warp, or a whole
// block) that work on one row together. The order in which values are combined is fixed, and all
// threads of a group get the same bits.
#pragma once

#include <cuda_runtime.h>

#include <cstring>
#include <type_traits>

#include "backend/cuda/device/launch.cuh"

namespace brim::cuda {

constexpr unsigned kWholeWarp = 0xffffffffu;
constexpr int kWarpThreads = 32;

/// The value of the lane whose number differs in the bits of `mask`; a T of any size.
template <class T>
__device__ inline T shuffle_xor(const T& value, int mask) {
  static_assert(std::is_trivially_copyable_v<T>);
  if constexpr (std::is_arithmetic_v<T> && sizeof(T) >= 4) {
    return __shfl_xor_sync(kWholeWarp, value, mask);
  } else {
    constexpr size_t kWords = (sizeof(T) + 3) / 4;
    unsigned words[kWords] = {};
    memcpy(words, &value, sizeof(T));
    for (size_t i = 0; i < kWords; ++i) words[i] = __shfl_xor_sync(kWholeWarp, words[i], mask);
    T result = value;
    memcpy(&result, words, sizeof(T));
    return result;
  }
}

/// Combines the values of `size` (a power of two, 32 at most) neighbouring lanes; the lower lane's
/// value is always combine's first operand. Every thread of the warp must call it.
template <class T, class Combine>
__device__ inline T combine_lanes(T value, int size, const Combine& combine) {
  for (int mask = 1; mask < size; mask *= 2) {
    const T other = shuffle_xor(value, mask);
    value = (threadIdx.x & static_cast<unsigned>(mask)) != 0 ? combine(other, value)
                                                             : combine(value, other);
  }
  return value;
}

/// Combines the values of a block's threads, a multiple of 32 of them. `shared` holds one T for
/// each warp and may be used again as soon as this returns.
template <class T, class Combine>
__device__ inline T combine_block(T value, T* shared, const Combine& combine) {
  value = combine_lanes(value, kWarpThreads, combine);
  const unsigned warps = blockDim.x / kWarpThreads;
  if (warps == 1) return value;
  if (threadIdx.x % kWarpThreads == 0) shared[threadIdx.x / kWarpThreads] = value;
  __syncthreads();
  value = shared[0];
  for (unsigned i = 1; i < warps; ++i) value = combine(value, shared[i]);
  __syncthreads();
  return value;
}

/// The threads that share a row, seen by one of them: a warp, or a block.
struct ThreadGroup {
  int rank, size;
  int64_t first_row, rows_at_once;  ///< this group's first row, and how far it is to its next

  /// For a kernel launched with a grid of row_grid.
  __device__ explicit ThreadGroup(int threads_per_row)
      : rank(static_cast<int>(threadIdx.x) % threads_per_row), size(threads_per_row) {
    const int64_t groups = static_cast<int>(blockDim.x) / threads_per_row;
    first_row = blockIdx.x * groups + static_cast<int>(threadIdx.x) / threads_per_row;
    rows_at_once = gridDim.x * groups;
  }

  /// What the group's values combine to; all its threads must call it.
  template <class T, class Combine>
  __device__ T combined(T value, const Combine& combine) const {
    return size <= kWarpThreads ? combine_lanes(value, size, combine)
                                : combine_block(value, shared_memory<T>(), combine);
  }
  template <class T>
  __device__ T sum(T value) const {
    return combined(value, [](T a, T b) { return a + b; });
  }
};

/// The bound of kernels that row_grid launches: without it the compiler may give a thread more
/// registers than so many have. With one block as the second bound it need not spill, which it does
/// to keep 64 registers otherwise.
constexpr int kMaxGroupThreads = 512;

/// How many threads share a row of n elements: a warp for short rows, a block for long ones.
inline int threads_per_row(int64_t n) {
  return n <= 1024 ? kWarpThreads : n <= 8192 ? kThreads : kMaxGroupThreads;
}

/// The grid for a kernel of ThreadGroups of `threads` over `rows` rows, which its groups step
/// through: for (row = group.first_row; row < rows; row += group.rows_at_once).
inline Grid row_grid(int64_t rows, int threads) {
  const int64_t groups =
      threads > kWarpThreads ? 1 : std::clamp<int64_t>(rows, 1, kThreads / kWarpThreads);
  const int64_t blocks = std::clamp<int64_t>((rows + groups - 1) / groups, 1, kMaxBlocks);
  return {dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(threads * groups)), 1024};
}

}  // namespace brim::cuda
