// How much memory a kernel fills for its gradient, where only the backend knows that: asked before
// the launch, which is given the memory.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "backend/has_kernel.h"

namespace brim::backend {

/// The bytes that a kernel fills for the gradient of a problem; nothing where the device cannot do
/// it, or is slower at it than what the kernel stands for.
template <class P>
using SavedBytes = std::optional<size_t> (*)(Device device, DType dtype, const P& problem);

/// For backends, in the place of register_limit().
template <class P>
bool register_saved_bytes(const char* name, DeviceKind kind, SavedBytes<P> saved_bytes) {
  detail::set_limit(name, kind, typeid(SavedBytes<P>),
                    reinterpret_cast<detail::AnyLimit>(saved_bytes));
  return true;
}

/// What the device's backend says; nothing where it says nothing.
template <class P>
std::optional<size_t> saved_bytes(std::string_view name, Device device, DType dtype,
                                  const P& problem) {
  const KernelSlot* const slot = detail::find_slot(name);
  if (!slot) return {};
  const auto ask =
      reinterpret_cast<SavedBytes<P>>(detail::find_limit(*slot, device, typeid(SavedBytes<P>)));
  return ask ? ask(device, dtype, problem) : std::nullopt;
}

}  // namespace brim::backend
