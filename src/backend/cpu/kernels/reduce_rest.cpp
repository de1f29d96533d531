// Reductions of integers and bool, and the rare ones, on the CPU: the baseline instruction set
// does.
#include <hwy/highway.h>

#include "backend/cpu/reduce/reduce_steps-inl.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

template <class... T>
bool register_integers() {
  ((register_ordered<T>(), add<T>("prod", &plain<Prod<T>>)), ...);
  return true;
}

template <class T, class Stored = T>
bool register_logical() {
  add<Stored>("any", &plain<Logical<T, false>, Stored>);
  add<Stored>("all", &plain<Logical<T, true>, Stored>);
  return true;
}
template <class... T>
bool register_rest() {
  return (register_logical<T>() && ...);
}

const bool registered = register_integers<int64_t, int32_t, int8_t, uint8_t, bool>() &&
                        register_rest<float, double, int64_t, int32_t, int8_t, uint8_t, bool>() &&
                        register_logical<float, Half>() && register_logical<float, BFloat16>();

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
