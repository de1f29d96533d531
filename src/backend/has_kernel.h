// Asks the kernel table, for code that chooses between kernels (the passes of a plan).
#pragma once

#include <string_view>
#include <typeinfo>

#include <brim/core/device.h>
#include <brim/core/dtype.h>

#include "backend/kernel_slot.h"

namespace brim::backend {

/// Whether the device's backend has the kernel `name` for the dtype. Virtual accelerators have
/// those of the CPU.
bool has_kernel(std::string_view name, Device device, DType dtype);

/// What a backend says of problems of type P that one of its kernels may be given.
template <class P>
using Limit = bool (*)(const P& problem);

/// For backends: where the kernel cannot do it, or is slower than what it stands for.
template <class P>
bool register_limit(const char* name, DeviceKind kind, Limit<P> limit);

/// Whether the device's kernel can do this, and is expected to be faster than the ops apart. True
/// where its backend says nothing.
template <class P>
bool is_fast(std::string_view name, Device device, const P& problem);

/// The same of a kernel that was found.
template <class P>
bool is_fast(const KernelSlot& slot, Device device, const P& problem);

namespace detail {

using AnyLimit = void (*)();
void set_limit(const char* name, DeviceKind kind, const std::type_info& problem, AnyLimit limit);
/// Null where there is none.
AnyLimit find_limit(const KernelSlot& slot, Device device, const std::type_info& problem);
/// Null for a name that no kernel has.
const KernelSlot* find_slot(std::string_view name);

}  // namespace detail

template <class P>
bool register_limit(const char* name, DeviceKind kind, Limit<P> limit) {
  detail::set_limit(name, kind, typeid(P), reinterpret_cast<detail::AnyLimit>(limit));
  return true;
}

template <class P>
bool is_fast(const KernelSlot& slot, Device device, const P& problem) {
  const auto limit = reinterpret_cast<Limit<P>>(detail::find_limit(slot, device, typeid(P)));
  return !limit || limit(problem);
}

template <class P>
bool is_fast(std::string_view name, Device device, const P& problem) {
  const KernelSlot* const slot = detail::find_slot(name);
  return !slot || is_fast(*slot, device, problem);
}

}  // namespace brim::backend
