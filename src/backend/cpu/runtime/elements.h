// The elements of a kernel's operands; null where one is left out.
#pragma once

#include <cstdint>

#include <brim/core/tensor.h>

namespace brim::cpu {

template <class T>
const T* in(const Tensor& t) {
  return t.defined() ? static_cast<const T*>(t.raw()) : nullptr;
}
template <class T>
T* out(Tensor& t) {
  return t.defined() ? static_cast<T*>(t.raw()) : nullptr;
}

/// The next multiple of `step`.
inline int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

}  // namespace brim::cpu
