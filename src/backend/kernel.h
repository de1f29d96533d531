// The kernel table. An op declares the kernel it needs, by name and signature; backends register
// functions for it. Every launch of every op passes through Kernel::operator(), which is where
// launches are measured, checked for NaN in anomaly mode, and (by later layers) recorded.
#pragma once

#include <array>
#include <atomic>
#include <type_traits>
#include <typeinfo>

#include <brim/core/tensor.h>

#include "backend/sim/launch.h"
#include "core/context.h"
#include "diag/span.h"

namespace brim::backend {

/// One op's functions, by kind of device and dtype. Created on first use of its name, never freed.
struct KernelSlot {
  const char* name;
  const std::type_info* signature;
  std::array<std::array<std::atomic<void*>, kDTypeCount>, kDeviceKindCount> functions{};
};

KernelSlot& kernel_slot(const char* name, const std::type_info& signature);
[[noreturn]] void missing_kernel(const char* name, DeviceKind kind, DType dtype);

/// Set per thread by AnomalyMode; check_anomaly throws AutogradError naming the op.
extern thread_local constinit bool anomaly_mode [[gnu::tls_model("initial-exec")]];
void check_anomaly(const char* name, const Tensor& output);

template <class Signature>
class Kernel;

/// Signature: `void(const Context&, const Tensor& in..., Tensor& out..., const Options&...)`.
template <class... Args>
class Kernel<void(const Context&, Args...)> {
 public:
  using Function = void(const Context&, Args...);

  /// Multiplications and additions of one call; null: one per element of the largest tensor.
  using Operations = double (*)(const std::remove_reference_t<Args>&...);

  explicit Kernel(const char* name, Operations operations = nullptr)
      : slot_(kernel_slot(name, typeid(Function))), operations_(operations) {}
  const char* name() const { return slot_.name; }

  /// Runs the kernel of `device`'s backend for `dtype`. Throws NotImplemented when there is none.
  void operator()(Device device, DType dtype, Args... args) const {
    // Virtual accelerators compute with the CPU's kernels.
    const bool queued = device.kind == DeviceKind::sim;
    const DeviceKind kind = queued ? DeviceKind::cpu : device.kind;
    void* found = slot_.functions[static_cast<size_t>(kind)][static_cast<size_t>(dtype)].load(
        std::memory_order_acquire);
    if (!found) [[unlikely]]
      missing_kernel(slot_.name, device.kind, dtype);
    const auto function = reinterpret_cast<Function*>(found);
    const Context context = Context::current(device);
    if (queued) [[unlikely]] {
      const diag::Span span(slot_.name, diag::Cause::launch);
      sim::launch(slot_.name, context.stream, dtype, operations_ ? operations_(args...) : -1,
                  function, args...);
    } else {
      const diag::Span span(slot_.name, diag::Cause::compute);
      function(context, args...);
    }
    if (anomaly_mode) [[unlikely]]
      (check_output<Args>(args), ...);
  }

 private:
  template <class A>
  void check_output(A& a) const {
    if constexpr (std::is_same_v<A, Tensor&> || std::is_same_v<A, Tensor>)
      if constexpr (!std::is_const_v<std::remove_reference_t<A>>) check_anomaly(slot_.name, a);
  }
  KernelSlot& slot_;
  Operations operations_;
};

/// Registers `function` as the kernel `name` for devices of `kind` and the dtype.
template <class... Args>
bool register_kernel(const char* name, DeviceKind kind, DType dtype,
                     void (*function)(const Context&, Args...)) {
  KernelSlot& slot = kernel_slot(name, typeid(void(const Context&, Args...)));
  slot.functions[static_cast<size_t>(kind)][static_cast<size_t>(dtype)].store(
      reinterpret_cast<void*>(function), std::memory_order_release);
  return true;
}

}  // namespace brim::backend
