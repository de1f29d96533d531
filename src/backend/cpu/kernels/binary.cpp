// Every formula of two numbers as a CPU kernel for floats, compiled once per instruction set.
#include "formula/binary.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/binary.cpp"
#include <hwy/foreach_target.h>
#include "backend/cpu/runtime/small_baseline-inl.h"

#include "backend/cpu/elementwise/dense-inl.h"
#include "backend/cpu/runtime/isa.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

void register_kernels() {
  register_binary<float>(formula::BinaryFormulas{});
  register_binary<double>(formula::BinaryFormulas{});
  register_binary<Half>(formula::BinaryFormulas{});
  register_binary<BFloat16>(formula::BinaryFormulas{});
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
BRIM_REGISTER_FOR_CPU(register_kernels);
#endif
