// Kernels: an op declares the one it needs, by name and signature, and backends register functions
// for it, one for each kind of device and dtype. Every launch goes through Kernel::operator(),
// where it is measured, checked for NaN in anomaly mode, and recorded for compiled steps.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <type_traits>
#include <typeinfo>

#include <brim/core/device.h>
#include <brim/core/dtype.h>
#include <brim/core/stream.h>
#include <brim/core/tensor.h>
#include <brim/extend/arguments.h>

namespace brim {

namespace backend {
struct KernelSlot;
}

namespace extend {

/// How the elements of outputs depend on those of inputs.
/// How the elements of outputs depend on those of inputs.
enum class Work : uint8_t {
  other,          ///< none of these
  pointwise,      ///< on those of the same index; sizes of 1 are broadcast
  copy,           ///< as pointwise, and unchanged but for dtype and strides
  reduction,      ///< on all along some axes
  communication,  ///< on those of other ranks
  to_host,        ///< copied to the host
  to_device,      ///< copied from the host
};

/// What is known of a kernel apart from its functions; compiled steps know no more of a launch.
/// As written in a declaration: `{.operands = "x, weight, rw running_mean, y"}`. Without operands
/// it has no work nor activations.
struct KernelTraits {
  /// The tensors in the order of the arguments, a span of them under one name. Whether they are
  /// written stands in the signature; "rw" marks written ones that are read as well, "strided"
  /// matrices that are written with any strides, where one of the last two axes has a stride of 1
  /// or one element.
  const char* operands = "";
  Work work = Work::other;  ///< how outputs depend on inputs
  /// Operands of rank 4 that lie in one memory format, nchw or nhwc, whichever a plan chooses.
  const char* activations = "";
};

/// What a kernel is apart from its signature.
class AnyKernel {
 public:
  const char* name() const;  ///< of the kernel, as it was declared

 protected:
  /// For Kernel.
  AnyKernel(const char* name, const std::type_info& signature, const KernelTraits& traits,
            std::initializer_list<Argument> arguments);
  /// For Kernel: finds the function and calls or queues it.
  void run(Device device, DType dtype, Arguments& arguments) const;

  backend::KernelSlot& slot_;  ///< where its functions are registered
};

/// The kernel of a signature.
template <class Signature>
class Kernel;  ///< The kernel of a signature.

/// Signature: `void(const Context&, const Tensor& in..., Tensor& out..., const Options&...)`.
/// Options are values that can be compared: a compiled step keeps a copy of them.
template <class... Args>
class Kernel<void(const Context&, Args...)> : public AnyKernel {
 public:
  using Function = void(const Context&, Args...);  ///< Signature of its functions.

  /// Multiplications and additions of one call; null: one per element of the largest tensor. Of
  /// Work::communication, to_host and to_device the bytes that cross a link; null: those of all
  /// operands.
  using Operations = double (*)(const std::remove_reference_t<Args>&...);

  /// `name` and `traits` are constants; traits are declared once, where the op is. Throws Error
  /// where the name is taken by a kernel of another signature, or the traits do not fit.
  explicit Kernel(const char* name, const KernelTraits& traits = {},
                  Operations operations = nullptr)
      : AnyKernel(name, typeid(Function), traits, {argument_of<Args>()...}),
        operations_(operations) {}

  /// Runs the function that is registered for the device's kind and the dtype, or queues it where
  /// the device has queues. While a step is recorded, the launch is noted and nothing is computed.
  /// Throws NotImplemented, which says what there is, where there is none.
  void operator()(Device device, DType dtype, Args... args) const {
    BoundArguments<Args...> bound(operations_, std::tuple<Args...>(args...));
    run(device, dtype, bound);
  }

 protected:
  Operations operations_;  ///< null: as Operations says
};

/// As register_kernel(), for a function whose type is not known.
void register_function(const char* name, const std::type_info& signature, DeviceKind kind,
                       DType dtype, AnyFunction function);

/// Registers `function` as the kernel `name` for devices of `kind` and the dtype, for a variable of
/// static lifetime: `const bool registered = register_kernel(...)`. Virtual accelerators (`sim`)
/// run the CPU's. Throws Error where the name has another function there, or another signature.
template <class... Args>
bool register_kernel(const char* name, DeviceKind kind, DType dtype,
                     void (*function)(const Context&, Args...)) {
  register_function(name, typeid(void(const Context&, Args...)), kind, dtype,
                    reinterpret_cast<AnyFunction>(function));
  return true;
}

/// The stream that a kernel was called for.
Stream stream_of(const Context& context);

}  // namespace extend
}  // namespace brim
