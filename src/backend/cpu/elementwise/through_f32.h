// Kernels of 16-bit floats made of f32 kernels: operands are widened into workspace, the f32 kernel
// runs, and what it wrote is rounded to nearest even. So sums are f32 inside, as on matrix units.
#pragma once

#include <optional>

#include <brim/formula/dense.h>

#include "backend/kernel.h"
#include "core/context.h"

namespace brim::cpu {

/// Computes n dense 16-bit floats by a loop of f32 with so many inputs, a block after the other in
/// the L1 cache. `result_bytes`: of an element of the result, where it is of another type; else 0.
template <class T>
void dense_through_f32(formula::DenseLoop loop, int inputs, int64_t result_bytes, char* const* p,
                       int64_t n, const formula::Params& params);

inline bool has_16_bits(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

/// The f32 copy of a 16-bit tensor, dense and with its axes in the same order of strides; an
/// expanded axis stays expanded.
class WideCopy {
 public:
  /// With `read`, the copy begins with the tensor's values; otherwise it is uninitialised.
  WideCopy(const Context& context, const Tensor& narrow, bool read);
  /// In memory of the caller: bytes(narrow).
  WideCopy(void* memory, const Tensor& narrow, bool read);
  static size_t bytes(const Tensor& narrow);

  Tensor& wide() { return wide_; }
  /// Rounds the copy into the tensor.
  void write_to(const Tensor& narrow) const;

 private:
  void widen(void* memory, const Tensor& narrow, bool read);

  std::optional<Workspace> workspace_;
  Tensor wide_;
};

/// What kernels written for f32 expect of their outputs.
enum class Outputs : uint8_t { written, updated };

/// A tensor among a kernel's arguments: its f32 copy where it has 16 bits, else itself.
class WideTensor {
 public:
  WideTensor(const Context& context, const Tensor& tensor, bool read);
  ~WideTensor();
  WideTensor(const WideTensor&) = delete;
  WideTensor& operator=(const WideTensor&) = delete;

 protected:
  std::optional<WideCopy> copy_;
};

/// One argument of a kernel, passed on as it is.
template <class A>
struct SameArgument {
  A argument;
  SameArgument(const Context&, A a, Outputs) : argument(a) {}
  A value() { return argument; }
  void finish() {}
};
/// The same, in f32 if it is a tensor.
template <class A>
struct WideArgument : SameArgument<A> {
  using SameArgument<A>::SameArgument;
};
template <>
class WideArgument<const Tensor&> : WideTensor {
 public:
  WideArgument(const Context& context, const Tensor& t, Outputs)
      : WideTensor(context, t, true), tensor_(t) {}
  const Tensor& value() { return copy_ ? copy_->wide() : tensor_; }
  void finish() {}

 private:
  const Tensor& tensor_;
};
template <>
class WideArgument<Tensor&> : WideTensor {
 public:
  WideArgument(const Context& context, Tensor& t, Outputs outputs)
      : WideTensor(context, t, outputs == Outputs::updated), tensor_(t) {}
  Tensor& value() { return copy_ ? copy_->wide() : tensor_; }
  void finish() {
    if (copy_) copy_->write_to(tensor_);
  }

 private:
  Tensor& tensor_;
};

template <auto kFunction, Outputs kOutputs>
struct ThroughF32;

template <Outputs kOutputs, class... Args, void (*kFunction)(const Context&, Args...)>
struct ThroughF32<kFunction, kOutputs> {
  /// For f16 and for bf16.
  static void run(const Context& context, Args... args) {
    call(context, WideArgument<Args>(context, args, kOutputs)...);
  }

 private:
  static void call(const Context& context, WideArgument<Args>&&... args) {
    kFunction(context, args.value()...);
    (args.finish(), ...);
  }
};

/// Registers the f32 kernel `kFunction` for f16 and bf16 too.
template <auto kFunction, Outputs kOutputs = Outputs::written>
bool register_through_f32(const char* name) {
  for (const DType dtype : {DType::f16, DType::bf16})
    backend::register_kernel(name, DeviceKind::cpu, dtype, &ThroughF32<kFunction, kOutputs>::run);
  return true;
}

/// Registers a kernel for all floats, those of 16 bits through f32.
template <auto kFloat, auto kDouble, Outputs kOutputs = Outputs::written>
bool register_floats(const char* name) {
  return backend::register_kernel(name, DeviceKind::cpu, DType::f32, kFloat) &&
         backend::register_kernel(name, DeviceKind::cpu, DType::f64, kDouble) &&
         register_through_f32<kFloat, kOutputs>(name);
}

}  // namespace brim::cpu
