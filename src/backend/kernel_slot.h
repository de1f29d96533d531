// One row of the kernel table: what is known under a kernel's name.
#pragma once

#include <array>
#include <atomic>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <vector>

#include <brim/core/device.h>
#include <brim/core/dtype.h>

#include "backend/kernel_traits.h"
#include "backend/launch_policy.h"

namespace brim::backend {

using extend::AnyFunction;

/// One op's functions, by kind of device and dtype. Created on first use of its name, never freed.
struct KernelSlot {
  const char* name;
  const std::type_info* signature;
  std::array<std::array<std::atomic<AnyFunction>, kDTypeCount>, kDeviceKindCount> functions{};
  AnyFunction function(DeviceKind kind, DType dtype) const {
    const AnyFunction found = functions[static_cast<size_t>(kind)][static_cast<size_t>(dtype)].load(
        std::memory_order_acquire);
    if (found || !launch_policy(kind).run_text || !is_floating(dtype)) [[likely]]
      return found;
    return of_text.load(std::memory_order_acquire);
  }

  /// Of a formula that carries its text: runs what a backend compiles of it (LaunchPolicy), for
  /// dtypes of floats that have no function.
  std::atomic<AnyFunction> of_text{};
  std::atomic<bool> is_formula{false};

  Work work = Work::other;
  std::vector<OperandTraits> operands;  ///< empty until declared
  /// By kind of device, what is_fast() asks.
  struct Limit {
    void (*function)() = nullptr;  // as another type
    const std::type_info* problem = nullptr;
  };
  std::array<Limit, kDeviceKindCount> limits{};
  /// By kind of device, the operand that its kernels convert; "" for none.
  std::array<std::string_view, kDeviceKindCount> converted{};
};

KernelSlot& kernel_slot(const char* name, const std::type_info& signature);

/// Throws Error where the names do not fit the signature, or differ from those declared before.
void declare_traits(KernelSlot& slot, const KernelTraits& traits,
                    std::initializer_list<Argument> arguments);

}  // namespace brim::backend
