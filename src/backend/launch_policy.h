// How the kernels of a kind of device are launched. A backend brings its policy; without one, and
// on the CPU, a kernel runs at once.
#pragma once

#include <array>
#include <functional>

#include <brim/core/device.h>
#include <brim/core/dtype.h>
#include <brim/core/tensor.h>

#include "core/context.h"

namespace brim::backend {

/// A kernel with its arguments, whatever their types.
class Call {
 public:
  virtual void run(const Context& context) = 0;
  /// Multiplications and additions; negative where they are not declared.
  virtual double operations() const = 0;
  virtual void for_each_tensor(
      const std::function<void(const Tensor& t, bool writes)>& use) const = 0;
  /// The same over other tensors, for later.
  virtual std::function<void(const Context&)> kept(Tensor (*other)(const Tensor&)) const = 0;

 protected:
  ~Call() = default;
};

struct LaunchPolicy {
  /// Runs the call, or queues it on the context's stream, and charges the account.
  void (*launch)(const Context& context, const char* name, DType dtype, Call& call) = nullptr;
  /// The kind of device whose kernels are taken.
  DeviceKind kernels;
  /// Repeated work is kept as a graph, which knows addresses: they have to come back.
  bool keeps_addresses = false;
  /// Plans compute again what they would keep wherever that saves memory, not only where it is
  /// short.
  bool trades_time_for_memory = true;
  /// What a launch is measured to take is what it takes in a step.
  bool can_be_measured = true;
};

/// By kind of device. For the static initialisation of backends.
extern std::array<LaunchPolicy, kDeviceKindCount> launch_policies;

inline const LaunchPolicy& launch_policy(DeviceKind kind) {
  return launch_policies[static_cast<size_t>(kind)];
}
inline bool register_launch_policy(DeviceKind kind, const LaunchPolicy& policy) {
  launch_policies[static_cast<size_t>(kind)] = policy;
  return true;
}

}  // namespace brim::backend
