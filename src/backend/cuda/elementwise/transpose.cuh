// y = f(x) where neighbours in y are not neighbours in x: a block takes a tile of 32 x 32 elements
// through shared memory, reading along the dimension in which x lies without gaps and writing along
// y's. Read and written as y's order has it, each element of x would cost a transaction of its own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/elementwise/elementwise.cuh"
#include "backend/loop.h"

namespace brim::cuda {

/// What y = f(x) is over: `columns`, along which y's elements lie next to each other, `rows`, along
/// which x's do, and the other dimensions, each of whose positions is a matrix of its own.
struct Transposition {
  static constexpr int64_t kTile = 32;
  static constexpr int64_t kLeast = 8;  // of both: with fewer, accesses share transactions anyway

  int64_t rows = 0, columns = 0;
  int64_t x_column = 0, y_row = 0;  // strides; those of x's rows and y's columns are 1
  int64_t tiles_down = 0, tiles_across = 0, tiles = 0;
  int rank = 0;  // of the other dimensions, the innermost first
  int64_t size[kMaxRank] = {}, x_stride[kMaxRank] = {}, y_stride[kMaxRank] = {};

  /// Nothing where x is not read across what is written, or there is too little of it.
  static std::optional<Transposition> of(const backend::Loop<2>& loop) {
    const auto& [y_of, x_of] = loop.stride;
    if (loop.numel == 0 || loop.rank < 2 || y_of[0] != 1 || x_of[0] <= 1) return {};
    int row = 1;
    while (row < loop.rank && x_of[static_cast<size_t>(row)] != 1) ++row;
    if (row == loop.rank) return {};
    const auto at = static_cast<size_t>(row);
    if (std::min(loop.size[0], loop.size[at]) < kLeast) return {};
    Transposition t;
    t.rows = loop.size[at];
    t.columns = loop.size[0];
    t.x_column = x_of[0];
    t.y_row = y_of[at];
    t.tiles_down = (t.rows + kTile - 1) / kTile;
    t.tiles_across = (t.columns + kTile - 1) / kTile;
    t.tiles = t.tiles_down * t.tiles_across;
    for (int d = 1; d < loop.rank; ++d) {
      if (d == row) continue;
      const auto other = static_cast<size_t>(d);
      t.size[t.rank] = loop.size[other];
      t.x_stride[t.rank] = x_of[other];
      t.y_stride[t.rank] = y_of[other];
      t.tiles *= t.size[t.rank++];
    }
    return t;
  }
};

/// The tiles of a matrix lie next to each other, and those below each other first: x is read on.
template <class F, class Out, class In>
__global__ void __launch_bounds__(kThreads)
    transpose_kernel(F f, Transposition t, Out* y, const In* x) {
  begin_kernel();
  constexpr int kTile = Transposition::kTile, kStep = kThreads / kTile;
  __shared__ In tile[kTile][kTile + 1];  // a column more: threads of a warp meet different banks
  const int lane = static_cast<int>(threadIdx.x) % kTile,
            line = static_cast<int>(threadIdx.x) / kTile;
  for (int64_t number = blockIdx.x; number < t.tiles; number += gridDim.x) {
    int64_t rest = number / t.tiles_down;
    const int64_t row = number % t.tiles_down * kTile, column = rest % t.tiles_across * kTile;
    rest /= t.tiles_across;
    const In* from = x + row + column * t.x_column;
    Out* to = y + row * t.y_row + column;
    for (int d = 0; d < t.rank; ++d) {
      const int64_t i = rest % t.size[d];
      rest /= t.size[d];
      from += i * t.x_stride[d];
      to += i * t.y_stride[d];
    }
    const int64_t rows = t.rows - row, columns = t.columns - column;  // that are left
#pragma unroll
    for (int c = line; c < kTile; c += kStep)
      if (c < columns && lane < rows) tile[c][lane] = from[c * t.x_column + lane];
    __syncthreads();
#pragma unroll
    for (int r = line; r < kTile; r += kStep)
      if (r < rows && lane < columns) to[r * t.y_row + lane] = apply<Out>(f, tile[lane][r]);
    __syncthreads();
  }
}

template <class Out, class In, class F>
void transpose(const Context& context, const F& f, const Transposition& t, Tensor& y,
               const Tensor& x) {
  const auto blocks = static_cast<unsigned>(std::min(t.tiles, kMaxBlocks));
  launch_blocks(context, &transpose_kernel<F, Out, In>, Grid{dim3(blocks), dim3(kThreads)}, f, t,
                data<Out>(y), data<const In>(x));
}

}  // namespace brim::cuda
