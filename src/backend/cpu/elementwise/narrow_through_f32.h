// Kernels that read and write some of their 16-bit operands as they are, and have the rest in f32.
#pragma once

#include <tuple>
#include <type_traits>
#include <utility>

#include "backend/cpu/elementwise/through_f32.h"

namespace brim::cpu {

/// A kernel, `kNarrow`, that reads and writes arguments number kSame in their 16 bits, and has the
/// others in f32. Where one of kSame has another type, `kWide` has all in f32.
template <auto kWide, auto kNarrow, Outputs kOutputs, size_t... kSame>
struct NarrowThroughF32;

template <class... Args, void (*kWide)(const Context&, Args...),
          void (*kNarrow)(const Context&, Args...), Outputs kOutputs, size_t... kSame>
struct NarrowThroughF32<kWide, kNarrow, kOutputs, kSame...> {
  /// For the 16-bit type of the first of kSame.
  static void run(const Context& context, Args... args) {
    const auto all = std::tie(args...);
    const Tensor* const same[] = {&std::get<kSame>(all)...};
    const DType dtype = same[0]->dtype();
    bool alike = has_16_bits(dtype);
    for (const Tensor* t : same) alike = alike && (!t->defined() || t->dtype() == dtype);
    if (!alike) return ThroughF32<kWide, kOutputs>::run(context, args...);
    run_indexed(context, std::index_sequence_for<Args...>(), args...);
  }

 private:
  template <size_t kArgument, class A>
  using Argument =
      std::conditional_t<((kArgument == kSame) || ...), SameArgument<A>, WideArgument<A>>;

  template <size_t... I>
  static void run_indexed(const Context& context, std::index_sequence<I...>, Args... args) {
    call(context, Argument<I, Args>(context, args, kOutputs)...);
  }
  static void call(const Context& context, auto&&... args) {
    kNarrow(context, args.value()...);
    (args.finish(), ...);
  }
};

/// Registers a kernel for all floats; of 16 bits, arguments number kSame are read and written as
/// such.
template <auto kFloat, auto kDouble, auto kHalf, auto kBFloat16, Outputs kOutputs, size_t... kSame>
bool register_floats_narrow(const char* name) {
  constexpr DeviceKind cpu = DeviceKind::cpu;
  return backend::register_kernel(name, cpu, DType::f32, kFloat) &&
         backend::register_kernel(name, cpu, DType::f64, kDouble) &&
         backend::register_kernel(name, cpu, DType::f16,
                                  &NarrowThroughF32<kFloat, kHalf, kOutputs, kSame...>::run) &&
         backend::register_kernel(name, cpu, DType::bf16,
                                  &NarrowThroughF32<kFloat, kBFloat16, kOutputs, kSame...>::run);
}

}  // namespace brim::cpu
