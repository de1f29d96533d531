// Fully connected layers of few rows: y = x W^T + b, and a ReLU. A warp makes one output of some
// rows, its lanes share the sum: a weight is loaded once for these rows, and all of them at once,
// so that the kernel takes hardly longer than one access to memory.
//
// The floor on an H200: W once at 4.8 TB/s (192 KB for 400 -> 120: 0.04 us), so about 2 us for the
// launch at up to 64 rows.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/cuda/device/thread_group.cuh"
#include "backend/cuda/elementwise/elementwise.cuh"

namespace brim::cuda {

constexpr int kFewRows = 4;  // of a warp

template <class T>
struct FewRows {
  const T *x, *weight, *bias;  // bias: (outputs), dense, or null
  T* y;                        // dense
  int64_t rows, inputs, outputs;
  int64_t x_row, weight_row;  // strides; rows themselves are dense
  bool relu;
};

template <class T, int kWidth>
__global__ void few_rows_kernel(FewRows<T> l) {
  begin_kernel();
  using C = Compute<T>;
  using Loaded = Pack<T, kWidth>;
  const int lane = static_cast<int>(threadIdx.x) % kWarpThreads;
  const int64_t chunks = (l.rows + kFewRows - 1) / kFewRows;
  const int64_t warps = grid_size() / kWarpThreads;
  for (int64_t i = first_index() / kWarpThreads; i < chunks * l.outputs; i += warps) {
    const int64_t o = i % l.outputs, first = i / l.outputs * kFewRows;
    const T* const weight = l.weight + o * l.weight_row;
    const T* x[kFewRows];
#pragma unroll
    for (int r = 0; r < kFewRows; ++r)
      x[r] = l.x + std::min<int64_t>(first + r, l.rows - 1) * l.x_row;
    C sum[kFewRows] = {};
#pragma unroll 4
    for (int64_t at = lane * kWidth; at < l.inputs; at += kWarpThreads * kWidth) {
      const Loaded w = *reinterpret_cast<const Loaded*>(weight + at);
#pragma unroll
      for (int r = 0; r < kFewRows; ++r) {
        const Loaded v = *reinterpret_cast<const Loaded*>(x[r] + at);
#pragma unroll
        for (int k = 0; k < kWidth; ++k) sum[r] += widen(w.at[k]) * widen(v.at[k]);
      }
    }
#pragma unroll
    for (int r = 0; r < kFewRows; ++r) {
      C total = combine_lanes(sum[r], kWarpThreads, [](C a, C b) { return a + b; });
      if (lane != r || first + r >= l.rows) continue;
      if (l.bias) total += widen(l.bias[o]);
      if (l.relu && total < 0) total = 0;  // NaN stays
      l.y[(first + r) * l.outputs + o] = narrow<T>(total);
    }
  }
}

template <class T>
void queue_few_rows(const Context& context, const FewRows<T>& l) {
  constexpr int kWide = 16 / sizeof(T), kBlock = 64;
  const auto aligned = [](const T* at, int64_t stride) {
    return reinterpret_cast<uintptr_t>(at) % 16 == 0 && stride % kWide == 0;
  };
  const bool wide =
      l.inputs % kWide == 0 && aligned(l.x, l.x_row) && aligned(l.weight, l.weight_row);
  const int64_t warps = (l.rows + kFewRows - 1) / kFewRows * l.outputs;
  const int64_t blocks = (warps * kWarpThreads + kBlock - 1) / kBlock;
  const Grid grid{dim3(static_cast<unsigned>(std::min(blocks, kMaxBlocks))), dim3(kBlock)};
  launch_blocks(context, wide ? &few_rows_kernel<T, kWide> : &few_rows_kernel<T, 1>, grid, l);
}

}  // namespace brim::cuda
