// Kernels of 16-bit floats made of f32 kernels: operands are widened into workspace, the f32 kernel
// runs, and what it wrote is rounded to nearest even. So sums are f32 inside, as on matrix units.
#pragma once

#include <optional>
#include <tuple>
#include <type_traits>

#include "backend/kernel.h"
#include "core/context.h"

namespace brim::cpu {

/// The f32 copy of a 16-bit tensor, dense and with its axes in the same order of strides; an
/// expanded axis stays expanded.
class WideCopy {
 public:
  /// With `read`, the copy begins with the tensor's values; otherwise it is uninitialised.
  WideCopy(const Context& context, const Tensor& narrow, bool read);

  Tensor& wide() { return wide_; }
  /// Rounds the copy into the tensor.
  void write_to(const Tensor& narrow) const;

 private:
  Workspace memory_;
  Tensor wide_;
};

/// What kernels written for f32 expect of their outputs.
enum class Outputs : uint8_t { written, updated };

/// One argument of a kernel: tensors of the 16-bit dtype are replaced by their copies, the others
/// are passed on.
template <class A>
class WideArgument {
 public:
  struct Source {
    const Context& context;
    A argument;
    DType dtype;
    Outputs outputs;
  };
  explicit(false) WideArgument(const Source& s) : argument_(s.argument) {
    if constexpr (kTensor)
      if (argument_.defined() && argument_.dtype() == s.dtype)
        copy_.emplace(s.context, argument_, !kOutput || s.outputs == Outputs::updated);
  }
  A value() {
    if constexpr (kTensor)
      if (copy_) return copy_->wide();
    return argument_;
  }
  void finish() {
    if constexpr (kOutput)
      if (copy_) copy_->write_to(argument_);
  }

 private:
  static constexpr bool kTensor = std::is_same_v<std::remove_cvref_t<A>, Tensor>;
  static constexpr bool kOutput = std::is_same_v<A, Tensor&>;
  A argument_;
  std::conditional_t<kTensor, std::optional<WideCopy>, std::tuple<>> copy_;
};

template <auto kFunction, class T, Outputs kOutputs>
struct ThroughF32;

template <class T, Outputs kOutputs, class... Args, void (*kFunction)(const Context&, Args...)>
struct ThroughF32<kFunction, T, kOutputs> {
  static void run(const Context& context, Args... args) {
    std::tuple<WideArgument<Args>...> all(
        typename WideArgument<Args>::Source{context, args, dtype_of<T>, kOutputs}...);
    std::apply([&](auto&... a) { kFunction(context, a.value()...), (a.finish(), ...); }, all);
  }
};

/// Registers the f32 kernel `kFunction` for f16 and bf16 too.
template <auto kFunction, Outputs kOutputs = Outputs::written>
bool register_through_f32(const char* name) {
  return backend::register_kernel(name, DeviceKind::cpu, DType::f16,
                                  &ThroughF32<kFunction, Half, kOutputs>::run) &&
         backend::register_kernel(name, DeviceKind::cpu, DType::bf16,
                                  &ThroughF32<kFunction, BFloat16, kOutputs>::run);
}

}  // namespace brim::cpu
