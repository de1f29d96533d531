// How the kernels of a kind of device are launched. A backend brings its policy; without one, and
// on the CPU, a kernel runs at once.
#pragma once

#include <array>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>

#include <brim/core/device.h>
#include <brim/core/dtype.h>
#include <brim/core/tensor.h>
#include <brim/extend/arguments.h>
#include <brim/extend/kernel.h>

#include "core/context.h"
#include "diag/op_sink.h"

namespace brim::formula {
struct Params;
}
namespace brim::extend {
struct FormulaText;
}

namespace brim::backend {

/// Whether it takes a link's time, not a kernel's.
inline bool crosses_link(extend::Work work) {
  return work == extend::Work::communication || work == extend::Work::to_host ||
         work == extend::Work::to_device;
}

/// A kernel with its arguments, whatever their types.
class Call {
 public:
  Call(extend::AnyFunction function, extend::Arguments& arguments, extend::Work work)
      : function_(function), arguments_(arguments), work_(work) {}

  extend::Work work() const { return work_; }

  void run(const Context& context) const { arguments_.run(function_, context); }
  /// Multiplications and additions; negative where they are not declared.
  double operations() const { return arguments_.operations(); }
  void for_each_tensor(const std::function<void(const Tensor& t, bool writes)>& use) const {
    arguments_.for_each_tensor([&](const extend::TensorArgument& a) { use(a.tensor, a.writes); });
  }
  /// The same over other tensors, for later.
  std::function<void(const Context&)> kept(Tensor (*other)(const Tensor&)) const {
    return [function = function_,
            arguments = std::shared_ptr<extend::Arguments>(arguments_.kept(other))](
               const Context& context) { arguments->run(function, context); };
  }

 private:
  extend::AnyFunction function_;
  extend::Arguments& arguments_;
  extend::Work work_;
};

/// Of its tensors, each once; what is broadcast as it lies in memory.
double bytes_of(const Call& call);
/// What it works on. Of a collective: the bytes that it sends, and no operations.
diag::OpCall op_call(const char* name, DType dtype, const Call& call);
/// "(4, 3, 32, 32) (6, 3, 5, 5)": of its tensors, the first ones if there are many.
std::string shapes_of(const Call& call);

struct LaunchPolicy {
  /// Runs the call, or queues it on the context's stream, and charges the account.
  void (*launch)(const Context& context, const char* name, DType dtype, const Call& call) = nullptr;
  /// The kind of device whose kernels are taken.
  DeviceKind kernels;
  /// Repeated work is kept as a graph, which knows addresses: they have to come back.
  bool keeps_addresses = false;
  /// Plans compute normalisations again wherever that saves memory, not only where it is short.
  bool trades_time_for_memory = true;
  /// What a launch is measured to take is what it takes in a step.
  bool can_be_measured = true;
  /// About how many seconds a launch takes: the longer of arithmetic and memory traffic. Null, or 0
  /// of it: as on a CPU.
  double (*estimate)(Device device, DType dtype, const Call& call) = nullptr;
  /// Compiles a formula's text where that has not been done yet, and launches it; null without a
  /// compiler at run time.
  void (*run_text)(const Context& context, const extend::FormulaText& text,
                   const formula::Params& params, Tensor& y,
                   std::initializer_list<const Tensor*> inputs) = nullptr;
};

/// By kind of device. For the static initialisation of backends.
extern std::array<LaunchPolicy, kDeviceKindCount> launch_policies;

inline const LaunchPolicy& launch_policy(DeviceKind kind) {
  return launch_policies[static_cast<size_t>(kind)];
}
/// Whether devices of the kind compute by themselves, beside the host, and not by the CPU's
/// kernels.
inline bool has_own_kernels(DeviceKind kind) {
  return kind != DeviceKind::cpu && launch_policy(kind).kernels == kind;
}
inline bool register_launch_policy(DeviceKind kind, const LaunchPolicy& policy) {
  launch_policies[static_cast<size_t>(kind)] = policy;
  return true;
}

}  // namespace brim::backend
