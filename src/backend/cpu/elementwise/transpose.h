// Transposed copies of matrices, tile by tile: whole cache lines are read and written.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "backend/cpu/elementwise/loop.h"

namespace brim::cpu {

/// to[column * to_ld + row] = from[row * from_ld + column], in one thread; for tiles.
void transpose_tile(const uint8_t* from, int64_t from_ld, int64_t rows, int64_t columns,
                    uint8_t* to, int64_t to_ld);
void transpose_tile(const uint16_t* from, int64_t from_ld, int64_t rows, int64_t columns,
                    uint16_t* to, int64_t to_ld);
void transpose_tile(const float* from, int64_t from_ld, int64_t rows, int64_t columns, float* to,
                    int64_t to_ld);
void transpose_tile(const uint64_t* from, int64_t from_ld, int64_t rows, int64_t columns,
                    uint64_t* to, int64_t to_ld);

/// The same for any type: by one of these of its size, if there is one.
template <class T>
void transpose_tile(const T* from, int64_t from_ld, int64_t rows, int64_t columns, T* to,
                    int64_t to_ld) {
  const auto as = [&]<class U>(U* bits) {
    transpose_tile(reinterpret_cast<const U*>(from), from_ld, rows, columns, bits, to_ld);
  };
  if constexpr (sizeof(T) == 1)
    as(reinterpret_cast<uint8_t*>(to));
  else if constexpr (sizeof(T) == 2)
    as(reinterpret_cast<uint16_t*>(to));
  else if constexpr (sizeof(T) == 4)
    as(reinterpret_cast<float*>(to));
  else if constexpr (sizeof(T) == 8)
    as(reinterpret_cast<uint64_t*>(to));
  else
    for (int64_t c = 0; c < columns; ++c)
      for (int64_t r = 0; r < rows; ++r) to[c * to_ld + r] = from[r * from_ld + c];
}

inline constexpr int64_t kTransposeTile = 32;

/// Calls tile(offsets, rows, columns) for tiles that cover a loop over an output and an input, of
/// which the output is dense along dimension 0 and the input along `d`: at most kTransposeTile rows
/// of dimension 0 and columns of `d` each. In parallel.
template <class Tile>
void for_each_tile(const Loop<2>& loop, int d, const Tile& tile) {
  constexpr int64_t kTile = kTransposeTile, kRows = 32 * kTile;
  if (loop.numel == 0) return;
  Loop<2> blocks = loop;  // of kRows of dimension 0 times a tile of dimension d
  const auto cut = [&](int dimension, int64_t size) {
    blocks.size[dimension] = (loop.size[dimension] + size - 1) / size;
    blocks.stride[0][dimension] *= size;
    blocks.stride[1][dimension] *= size;
  };
  cut(0, kRows);
  cut(d, kTile);
  blocks.numel = 1;
  int64_t inner = 1;  // positions of the dimensions inside d
  for (int k = 0; k < loop.rank; ++k) {
    if (k == d) inner = blocks.numel;
    blocks.numel *= blocks.size[k];
  }
  const int64_t block = std::min(kRows, loop.size[0]) * std::min(kTile, loop.size[d]);
  parallel_for(blocks.numel, kElementwiseGrain / block + 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const std::array<int64_t, 2> at = blocks.offsets(i);
      const int64_t rows = std::min(kRows, loop.size[0] - i % blocks.size[0] * kRows);
      const int64_t columns = std::min(kTile, loop.size[d] - i / inner % blocks.size[d] * kTile);
      for (int64_t r = 0; r < rows; r += kTile)
        tile(std::array{at[0] + r, at[1] + r * loop.stride[1][0]}, std::min(kTile, rows - r),
             columns);
    }
  });
}

/// Each of `count` dense matrices (rows x columns), transposed, to `to`.
template <class T>
void transpose(const T* from, int64_t count, int64_t rows, int64_t columns, T* to) {
  const int64_t size = rows * columns;
  Loop<2> loop;
  loop.rank = 3;
  loop.numel = count * size;
  loop.size = {rows, columns, count};
  loop.stride[0] = {1, rows, size};
  loop.stride[1] = {columns, 1, size};
  for_each_tile(loop, 1, [&](const std::array<int64_t, 2>& at, int64_t r, int64_t c) {
    transpose_tile(from + at[1], columns, r, c, to + at[0], rows);
  });
}

}  // namespace brim::cpu
