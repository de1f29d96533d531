// Pair: a number for height and one for width, as windows and strides have them.
#pragma once

#include <cstdint>

namespace brim {

/// `5` or `{3, 5}`.
struct Pair {
  int64_t h = 0, w = 0;  ///< of height and of width
  constexpr Pair() = default;
  constexpr Pair(int64_t both) : h(both), w(both) {}    ///< the same for both
  constexpr Pair(int64_t h, int64_t w) : h(h), w(w) {}  ///< one for each
  /// Whether all parts are equal.
  friend constexpr bool operator==(const Pair&, const Pair&) = default;
};

}  // namespace brim
