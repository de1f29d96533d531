// The types of elements that ops compute with, for kernels that are registered for several.
#pragma once

#include <cstdint>
#include <type_traits>

#include <brim/core/dtype.h>
#include <brim/formula/formula.h>

namespace brim::backend {

using Floats = formula::List<float, double, Half, BFloat16>;
using Integers = formula::List<int64_t, int32_t, int8_t, uint8_t>;
using AllTypes =
    formula::List<float, double, Half, BFloat16, int64_t, int32_t, int8_t, uint8_t, bool>;

/// Calls f(std::type_identity<T>{}) for each of the types, for a variable of static lifetime.
template <class... T, class F>
bool for_each_type(formula::List<T...>, const F& f) {
  (f(std::type_identity<T>{}), ...);
  return true;
}

}  // namespace brim::backend
