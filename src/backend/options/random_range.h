// The ends of ranges that random numbers are drawn from, for all backends.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include <brim/core/dtype.h>

namespace brim::backend {

/// The type that numbers are drawn in: f64 for f64, f32 for everything else.
template <class T>
using Drawn = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// The largest T below `high`.
template <class T>
T below(double high) {
  using Bits = std::conditional_t<sizeof(T) == 8, uint64_t,
                                  std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>>;
  const T nearest = static_cast<T>(static_cast<Drawn<T>>(high));
  const double v = static_cast<double>(static_cast<Drawn<T>>(nearest));
  if (v < high) return nearest;
  constexpr Bits kSign = static_cast<Bits>(Bits{1} << (8 * sizeof(T) - 1));
  const Bits bits = std::bit_cast<Bits>(nearest);
  return std::bit_cast<T>(static_cast<Bits>(v > 0 ? bits - 1 : v < 0 ? bits + 1 : kSign | 1));
}

/// Uniform numbers in [low, high) as T: their first and last. Rounding may lift the largest ones to
/// `high`, which the range excludes.
template <class T>
struct UniformRange {
  T first, last;

  UniformRange(double low, double high)
      : first(static_cast<T>(static_cast<Drawn<T>>(low))), last(below<T>(high)) {
    if (static_cast<Drawn<T>>(last) < static_cast<Drawn<T>>(first)) last = first;
  }
};

}  // namespace brim::backend
