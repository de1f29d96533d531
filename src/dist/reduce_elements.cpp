#include "dist/reduce_elements.h"

#include <type_traits>

#include "backend/types.h"
#include "core/check.h"

namespace brim::dist {
namespace {

template <class T>
bool is_nan(T x) {
  if constexpr (std::is_integral_v<T>)
    return false;
  else
    return x != x;
}

struct Sum {
  template <class T>
  T operator()(T x, T y) const {
    if constexpr (std::is_integral_v<T> && std::is_signed_v<T>)  // wraps
      return static_cast<T>(static_cast<std::make_unsigned_t<T>>(x) +
                            static_cast<std::make_unsigned_t<T>>(y));
    else
      return static_cast<T>(x + y);
  }
};
struct Product {
  template <class T>
  T operator()(T x, T y) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(uint64_t(x) * uint64_t(y));
    else
      return static_cast<T>(x * y);
  }
};
struct Min {
  template <class T>
  T operator()(T x, T y) const {
    return is_nan(x) || x < y ? x : y;
  }
};
struct Max {
  template <class T>
  T operator()(T x, T y) const {
    return is_nan(x) || x > y ? x : y;
  }
};

template <class T, class F>
void loop(void* into, const void* from, int64_t count) {
  using A = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;
  T* __restrict__ x = static_cast<T*>(into);
  const T* __restrict__ y = static_cast<const T*>(from);
  for (int64_t i = 0; i < count; ++i)
    x[i] = static_cast<T>(F()(static_cast<A>(x[i]), static_cast<A>(y[i])));
}

template <class T>
void reduce_typed(Reduce reduce, void* into, const void* from, int64_t count) {
  switch (reduce) {
    case Reduce::sum:
      if constexpr (!std::is_same_v<T, bool>) return loop<T, Sum>(into, from, count);
      break;
    case Reduce::product:
      if constexpr (!std::is_same_v<T, bool>) return loop<T, Product>(into, from, count);
      break;
    case Reduce::min:
      return loop<T, Min>(into, from, count);
    case Reduce::max:
      return loop<T, Max>(into, from, count);
  }
}

}  // namespace

void reduce_elements(DType dtype, Reduce reduce, void* into, const void* from, int64_t count) {
  backend::for_each_type(backend::AllTypes{}, [&]<class T>(std::type_identity<T>) {
    if (dtype == dtype_of<T>) reduce_typed<T>(reduce, into, from, count);
  });
}

}  // namespace brim::dist
