// Sizes of windows, and of their weights, in a file.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace brim::rt {

/// Sizes are no larger, so that no product of two of them overflows.
inline constexpr int64_t kMaxWindow = int64_t{1} << 20;

/// Kernels, strides, dilations and groups are 1 or more, paddings 0 or more.
inline bool are_windows(std::initializer_list<int64_t> sizes,
                        std::initializer_list<int64_t> paddings) {
  for (const int64_t size : sizes)
    if (size < 1 || size > kMaxWindow) return false;
  for (const int64_t padding : paddings)
    if (padding < 0 || padding > kMaxWindow) return false;
  return true;
}

/// Of numbers of which some come out of a file.
inline bool is_product_of(int64_t count, std::initializer_list<int64_t> factors) {
  int64_t n = 1;
  for (const int64_t factor : factors)
    if (__builtin_mul_overflow(n, factor, &n)) return false;
  return n == count;
}

}  // namespace brim::rt
