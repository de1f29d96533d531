// What programs ask of scores: the largest of them, and where they are.
#pragma once

#include <cstdint>

namespace brim::rt {

/// Along the last axis of x: f32 (.., c), the k largest, in order, of equal ones the first before
/// the others. NaN is larger than all numbers.
///   top     values f32 (.., k), indices i32 (.., k)
///   argmax  the index of the largest, i32 (..)
inline constexpr int64_t kMaxTop = 1000;
inline constexpr int64_t kMaxScores = int64_t{1} << 31;  ///< in a row: indices are i32

}  // namespace brim::rt
