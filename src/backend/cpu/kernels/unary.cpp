// Every formula of one number as a CPU kernel for floats, compiled once per instruction set.
#include "formula/unary.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/unary.cpp"
#include <hwy/foreach_target.h>
#include "backend/cpu/runtime/small_baseline-inl.h"

#include "backend/cpu/elementwise/dense-inl.h"
#include "backend/cpu/runtime/isa.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

void register_kernels() {
  register_unary<float>(formula::UnaryFormulas{});
  register_unary<double>(formula::UnaryFormulas{});
  register_unary<Half>(formula::UnaryFormulas{});
  register_unary<BFloat16>(formula::UnaryFormulas{});
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
BRIM_REGISTER_FOR_CPU(register_kernels);
#endif
