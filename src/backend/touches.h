// The storages that an op uses, for who looks at work before it is queued.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

#include <brim/core/tensor.h>

namespace brim::backend {

/// A storage that work uses.
struct Touch {
  const void* address = nullptr;  ///< of the storage on the device
  size_t bytes = 0;
  bool writes = false;
};

template <class A>
struct IsTensorSpan : std::false_type {};
template <class T>
requires std::is_same_v<std::remove_const_t<T>, Tensor>
struct IsTensorSpan<std::span<T>> : std::true_type {
};

/// Calls f(tensor, writes) for each tensor of a kernel's argument. `A` is the type of the
/// parameter: a Tensor& is written, a const Tensor& is read.
template <class A, class F>
void for_each_tensor(const std::remove_cvref_t<A>& argument, const F& f) {
  using Plain = std::remove_cvref_t<A>;
  if constexpr (std::is_same_v<Plain, Tensor>) {
    f(argument, !std::is_const_v<std::remove_reference_t<A>>);
  } else if constexpr (IsTensorSpan<Plain>::value) {
    for (const Tensor& t : argument) f(t, !std::is_const_v<typename Plain::element_type>);
  }
}

}  // namespace brim::backend
