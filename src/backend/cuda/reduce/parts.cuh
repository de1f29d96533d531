// Sums that were made in parts, put together: the parts of an element are added in an order that
// depends on their number alone.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "backend/cuda/device/launch.cuh"

namespace brim::cuda {

/// sums: (parts, count). Calls finish(i, sum) for each of the `count` elements. `rows` threads
/// share an element: the first adds parts 0, rows, 2 rows, ..., and so on, then their sums are
/// added.
template <class C, class Finish>
__global__ void __launch_bounds__(kThreads)
    add_parts_kernel(const C* sums, int64_t parts, int64_t count, int rows, Finish finish) {
  begin_kernel();
  __shared__ C shared[kThreads];
  const int t = static_cast<int>(threadIdx.x);
  const int width = kThreads / rows, row = t / width, column = t % width;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * width; first < count;
       first += static_cast<int64_t>(gridDim.x) * width) {
    const int64_t i = first + column;
    C sum = 0;
    if (i < count) {
#pragma unroll 8
      for (int64_t part = row; part < parts; part += rows) sum += sums[part * count + i];
    }
    if (rows > 1) {
      shared[t] = sum;
      __syncthreads();
      for (int k = 1; row == 0 && k < rows; ++k) sum += shared[k * width + column];
      __syncthreads();
    }
    if (row == 0 && i < count) finish(i, sum);
  }
}

/// Queues it; parts >= 1.
template <class C, class Finish>
void add_parts(const Context& context, const C* sums, int64_t parts, int64_t count,
               const Finish& finish) {
  if (count == 0) return;
  const int rows = static_cast<int>(
      std::bit_floor(static_cast<uint64_t>(std::clamp<int64_t>(parts / 4, 1, 32))));
  const int64_t width = kThreads / rows;
  const Grid grid{dim3(static_cast<unsigned>(std::min((count + width - 1) / width, kMaxBlocks))),
                  dim3(kThreads)};
  launch_blocks(context, &add_parts_kernel<C, Finish>, grid, sums, parts, count, rows, finish);
}

}  // namespace brim::cuda
