// Sorts short columns, many at a time.
#pragma once

#include <cstdint>

namespace brim::cpu {

inline constexpr int64_t kSortedLines = 64;

/// Each column of `tile` (rows x kSortedLines) in ascending order. The elements of a column differ.
void sort_columns(int64_t* tile, int64_t rows);

}  // namespace brim::cpu
