// Equality of numbers that are part of what something does: NaN is the same as itself, and 0 is
// another number than -0.
#pragma once

#include <cstring>
#include <type_traits>

namespace brim {

/// Whether two values have the same bytes; for numbers, and structs and arrays of numbers of one
/// size, which have no padding.
template <class T>
bool same_bits(const T& a, const T& b) {
  static_assert(std::is_trivially_copyable_v<T>);
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

}  // namespace brim
