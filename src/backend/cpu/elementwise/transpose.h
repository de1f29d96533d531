// Transposed copies of matrices, tile by tile: whole cache lines are read and written.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/cpu/runtime/parallel.h"

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

/// Each of `count` dense matrices (rows x columns), transposed, to `to`.
template <class T>
void transpose(const T* from, int64_t count, int64_t rows, int64_t columns, T* to) {
  constexpr int64_t kTile = kTransposeTile, kRows = 32 * kTile, kGrain = 32768;  // elements
  const auto parts = [](int64_t n, int64_t part) { return (n + part - 1) / part; };
  const int64_t across = parts(columns, kTile), down = parts(rows, kRows), size = rows * columns;
  const int64_t block = std::min(kRows, rows) * std::min(kTile, columns);
  parallel_for(count * down * across, kGrain / std::max<int64_t>(1, block) + 1,
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   const int64_t at = i / (down * across) * size, c = i % across * kTile;
                   const int64_t first = i / across % down * kRows;
                   for (int64_t r = first; r < std::min(rows, first + kRows); r += kTile)
                     transpose_tile(from + at + r * columns + c, columns, std::min(kTile, rows - r),
                                    std::min(kTile, columns - c), to + at + c * rows + r, rows);
                 }
               });
}

}  // namespace brim::cpu
