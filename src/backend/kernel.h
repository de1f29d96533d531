// The kernel table. An op declares the kernel it needs, by name and signature; backends register
// functions for it. How a launch goes is in kernel.cpp; what custom ops have of it is in
// <brim/extend/kernel.h>. Here is what plans and fused kernels need beside.
#pragma once

#include <memory>
#include <tuple>
#include <type_traits>

#include <brim/core/tensor.h>
#include <brim/extend/kernel.h>

#include "backend/has_kernel.h"
#include "backend/kernel_slot.h"
#include "backend/launch.h"
#include "core/context.h"

namespace brim::backend {

using extend::register_kernel;

[[noreturn]] void missing_kernel(const char* name, DeviceKind kind, DType dtype);

/// Set per thread by AnomalyMode; check_anomaly throws AutogradError naming the op.
extern thread_local constinit bool anomaly_mode [[gnu::tls_model("initial-exec")]];
void check_anomaly(const char* name, const Tensor& output);

/// The slot's function for devices of that kind and the dtype. Throws NotImplemented without one.
AnyFunction find_function(const KernelSlot& slot, DeviceKind kind, DType dtype);

template <class Signature>
class Kernel;

template <class... Args>
class Kernel<void(const Context&, Args...)> : public extend::Kernel<void(const Context&, Args...)> {
 public:
  using extend::Kernel<void(const Context&, Args...)>::Kernel;

  /// As has_kernel() and is_fast(), without looking the name up.
  bool exists(Device device, DType dtype) const {
    return this->slot_.function(launch_policy(device.kind).kernels, dtype) != nullptr;
  }
  template <class P>
  bool is_fast(Device device, const P& problem) const {
    return backend::is_fast(this->slot_, device, problem);
  }

  /// A launch for a plan: runs when it is told to. The tensors' storages are taken as they are.
  std::unique_ptr<Launch> launch(Device device, DType dtype,
                                 std::type_identity_t<Args>... args) const {
    const extend::BoundArguments<Args...> bound(this->operations_, std::tuple<Args...>(args...));
    return std::make_unique<Launch>(
        this->slot_, device, dtype, find_function(this->slot_, device.kind, dtype),
        bound.kept([](const Tensor& t) { return t.alias(t.shape(), t.strides(), t.offset()); }));
  }
};

/// Says that the kernel `name` of such devices takes `operand` in another memory format than its
/// activations, at the price of a copy.
bool register_converted(const char* name, DeviceKind kind, const char* operand);

}  // namespace brim::backend
