// Formulas of one and two numbers for integers, compiled for the baseline instruction set only:
// they are rarely the bottleneck.
#include "formula/binary.h"
#include "formula/unary.h"

#ifndef HWY_COMPILE_ONLY_STATIC  // sanitizer builds set it for every file
#define HWY_COMPILE_ONLY_STATIC
#endif
#include <hwy/highway.h>

#include "backend/cpu/elementwise/dense-inl.h"

namespace brim::cpu::HWY_NAMESPACE {
namespace {

template <class T>
void register_integer() {
  register_unary<T>(formula::UnaryIntegerFormulas{});
  register_binary<T>(formula::BinaryIntegerFormulas{});
}

const bool registered = [] {
  register_integer<int64_t>();
  register_integer<int32_t>();
  register_integer<int8_t>();
  register_integer<uint8_t>();
  return true;
}();

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
