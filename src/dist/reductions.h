// How two numbers become one, for all devices: what the CPU's loops and the kernels of GPUs do with
// each pair of elements. 16-bit floats come as f32.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include <brim/dist/process_group.h>

namespace brim::dist {

struct Sum {
  template <class T>
  constexpr T operator()(T x, T y) const {
    if constexpr (std::is_integral_v<T> && std::is_signed_v<T>)  // wraps
      return static_cast<T>(static_cast<std::make_unsigned_t<T>>(x) +
                            static_cast<std::make_unsigned_t<T>>(y));
    else
      return static_cast<T>(x + y);
  }
};
struct Product {
  template <class T>
  constexpr T operator()(T x, T y) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<uint64_t>(x) * static_cast<uint64_t>(y));
    else
      return static_cast<T>(x * y);
  }
};
/// Whether it is NaN, which min and max hand on.
template <class T>
constexpr bool is_nan(T x) {
  if constexpr (std::is_integral_v<T>)
    return false;
  else
    return x != x;
}
struct Min {
  template <class T>
  constexpr T operator()(T x, T y) const {
    return is_nan(x) || x < y ? x : y;
  }
};
struct Max {
  template <class T>
  constexpr T operator()(T x, T y) const {
    return is_nan(x) || x > y ? x : y;
  }
};

/// Calls f with the function of `reduce`; of bool, which has no sum and no product, only min's and
/// max's.
template <class T, class F>
void with_reduction(Reduce reduce, const F& f) {
  switch (reduce) {
    case Reduce::sum:
      if constexpr (!std::is_same_v<T, bool>) f(Sum());
      break;
    case Reduce::product:
      if constexpr (!std::is_same_v<T, bool>) f(Product());
      break;
    case Reduce::min:
      f(Min());
      break;
    case Reduce::max:
      f(Max());
      break;
  }
}

}  // namespace brim::dist
