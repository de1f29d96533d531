// How the threads of a packed product share its result.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/cpu/runtime/parallel.h"

namespace brim::cpu {

/// How C is cut: `down` x `across` parts of whole tiles.
struct GemmGrid {
  int64_t down = 1, across = 1;
};

/// The grid of at most `max_parts` parts of C (m x n) whose largest part takes the least time,
/// copies included. Tiles are `tile_rows` x `width`.
inline GemmGrid cut_gemm(int64_t m, int64_t n, int64_t max_parts, int64_t tile_rows, int64_t width,
                         bool copy_a) {
  constexpr double kCopyA = 16, kCopyB = 8;  // of an element, in multiply-adds
  const auto ceil_div = [](int64_t x, int64_t y) { return (x + y - 1) / y; };
  GemmGrid best;
  double least = 0;
  for (int64_t down = 1; down <= std::min(max_parts, ceil_div(m, tile_rows)); ++down) {
    const int64_t across = std::min(max_parts / down, ceil_div(n, width));
    const auto rows =
        static_cast<double>(std::min(m, ceil_div(ceil_div(m, tile_rows), down) * tile_rows));
    const auto columns =
        static_cast<double>(std::min(n, ceil_div(ceil_div(n, width), across) * width));
    const double cost = rows * columns + (copy_a ? kCopyA * rows : 0) + kCopyB * columns;
    if (down == 1 || cost < least) {
      least = cost;
      best = {down, across};
    }
  }
  return best;
}

/// Calls part(i, rows, j, columns) for every part of the grid, in parallel.
template <class F>
void for_each_part(const GemmGrid& grid, int64_t m, int64_t n, int64_t tile_rows, int64_t width,
                   const F& part) {
  const int64_t tiles = (m + tile_rows - 1) / tile_rows, panels = (n + width - 1) / width;
  parallel_for(grid.down * grid.across, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t y = p / grid.across, x = p % grid.across;
      const int64_t i = tiles * y / grid.down * tile_rows, j = panels * x / grid.across * width;
      part(i, std::min(m, tiles * (y + 1) / grid.down * tile_rows) - i, j,
           std::min(n, panels * (x + 1) / grid.across * width) - j);
    }
  });
}

}  // namespace brim::cpu
