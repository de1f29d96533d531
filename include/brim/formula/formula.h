// Scalar formulas are written once here and compiled by every backend: on the CPU inside loops that
// the compiler vectorises for each instruction set, later inside CUDA kernels.
#pragma once

#include <limits>
#include <type_traits>

#include <brim/core/same_bits.h>

#if defined(__CUDACC__)
#define BRIM_FORMULA __host__ __device__ inline
#else
#define BRIM_FORMULA inline __attribute__((always_inline))
#endif

namespace brim::formula {

/// Numbers that a formula is made with: a slope, bounds, an exponent.
struct Params {
  ///@{
  /// What they mean is each formula's own.
  double a = 0;
  double b = 0;
  ///@}
  /// Whether all parts are equal.
  friend bool operator==(const Params& x, const Params& y) { return same_bits(x, y); }
};

template <class... F>
struct List {};  ///< A list of formulas, for templates.

/// What integers are computed in so that they wrap around, which signed ones may not.
template <class T>
using Wrapping =
    std::conditional_t<!std::is_integral_v<T>, T,
                       std::conditional_t<(sizeof(T) < 8), unsigned, unsigned long long>>;

/// A parameter as T; to integers by way of i64, so that -1 wraps in u8 as it does in C.
template <class T>
BRIM_FORMULA T number(double value) {
  if constexpr (std::is_floating_point_v<T>)
    return static_cast<T>(value);
  else
    return static_cast<T>(static_cast<long long>(value));
}

/// A float as T; in integers values beyond T's range become its ends, and NaN 0.
template <class T, class From>
BRIM_FORMULA T saturate(From value) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(value);
  } else {
    using Limits = std::numeric_limits<T>;
    return value <= static_cast<From>(Limits::min())   ? Limits::min()
           : value >= static_cast<From>(Limits::max()) ? Limits::max()
           : value == value                            ? static_cast<T>(value)
                                                       : T(0);
  }
}

/// A float as an integer: i8 and u8 wrap by way of i64, as PyTorch's do, the others saturate.
template <class T, class From>
BRIM_FORMULA T to_integer(From value) {
  if constexpr (sizeof(T) == 1)
    return static_cast<T>(saturate<long long>(value));
  else
    return saturate<T>(value);
}

/// A number as one of another type: floats become integers by to_integer, integers wrap, and
/// whatever is not 0 is true.
template <class T, class From>
BRIM_FORMULA T converted(From value) {
  if constexpr (std::is_same_v<T, bool>)
    return value != From(0);
  else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<T>)
    return to_integer<T>(value);
  else
    return static_cast<T>(value);
}

}  // namespace brim::formula
