// The kernel table. An op declares the kernel it needs, by name and signature; backends register
// functions for it. Every launch of every op passes through Kernel::operator(), which is where
// launches are measured, checked for NaN in anomaly mode, and (by later layers) recorded.
#pragma once

#include <atomic>
#include <type_traits>

#include <brim/core/tensor.h>

#include "backend/dispatch.h"
#include "backend/has_kernel.h"
#include "backend/kernel_slot.h"
#include "backend/launch.h"

namespace brim::backend {

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

  /// `traits`: once, where the op or the fused kernel is declared; others only name it.
  explicit Kernel(const char* name, const KernelTraits& traits = {},
                  Operations operations = nullptr)
      : slot_(kernel_slot(name, typeid(Function))), operations_(operations) {
    if (*traits.operands) declare_traits(slot_, traits, {argument_of<Args>()...});
  }
  const char* name() const { return slot_.name; }

  /// Runs the kernel of `device`'s backend for `dtype`. Throws NotImplemented when there is none.
  /// While a step is recorded, the launch is noted and nothing is computed.
  void operator()(Device device, DType dtype, Args... args) const {
    Function* const function = find(device, dtype);
    if (recording) [[unlikely]]
      return record(device, dtype, function, args...);
    dispatch<Args...>(Context::current(device), slot_.name, dtype, function, operations_, args...);
    if (anomaly_mode) [[unlikely]]
      (check_output<Args>(args), ...);
  }

  /// As has_kernel() and is_fast(), without looking the name up.
  bool exists(Device device, DType dtype) const {
    const DeviceKind kind = launch_policy(device.kind).kernels;
    return slot_.functions[static_cast<size_t>(kind)][static_cast<size_t>(dtype)].load(
               std::memory_order_acquire) != nullptr;
  }
  template <class P>
  bool is_fast(Device device, const P& problem) const {
    return backend::is_fast(slot_, device, problem);
  }

  /// A launch for a plan: runs when it is told to. The tensors' storages are taken as they are.
  std::unique_ptr<Launch> launch(Device device, DType dtype,
                                 std::type_identity_t<Args>... args) const {
    return make_launch(
        device, dtype, find(device, dtype),
        [](const Tensor& t) { return t.alias(t.shape(), t.strides(), t.offset()); }, args...);
  }

 private:
  Function* find(Device device, DType dtype) const {
    const DeviceKind kind = launch_policy(device.kind).kernels;
    void* found = slot_.functions[static_cast<size_t>(kind)][static_cast<size_t>(dtype)].load(
        std::memory_order_acquire);
    if (!found) [[unlikely]]
      missing_kernel(slot_.name, device.kind, dtype);
    return reinterpret_cast<Function*>(found);
  }
  template <class Keep>
  std::unique_ptr<Launch> make_launch(Device device, DType dtype, Function* function,
                                      const Keep& keep, std::type_identity_t<Args>... args) const {
    return std::make_unique<TypedLaunch<Args...>>(slot_, device, dtype, function, operations_, keep,
                                                  args...);
  }
  [[gnu::noinline, gnu::cold]] void record(Device device, DType dtype, Function* function,
                                           std::type_identity_t<Args>... args) const {
    LaunchRecorder& recorder = *launch_recorder();
    recorder.launched(make_launch(
        device, dtype, function, [&](const Tensor& t) { return recorder.kept(t); }, args...));
  }

  template <class A>
  void check_output(A& a) const {
    if constexpr (std::is_same_v<A, Tensor&> || std::is_same_v<A, Tensor>)
      if constexpr (!std::is_const_v<std::remove_reference_t<A>>) check_anomaly(slot_.name, a);
  }
  KernelSlot& slot_;
  Operations operations_;
};

/// Says that the kernel `name` of such devices takes `operand` in another memory format than its
/// activations, at the price of a copy.
bool register_converted(const char* name, DeviceKind kind, const char* operand);

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
